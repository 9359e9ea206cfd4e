//! Bytes into lines, with a ceiling. A line that is too long is not gathered; only its head is kept, to tell
//! whose answer it would have been.

/// How much of a line that is too long is kept.
const HEAD: usize = 256;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StdioLine {
    Whole(Vec<u8>),
    TooLong { head: Vec<u8> },
}

pub(super) struct StdioLines {
    limit: usize,
    partial: Vec<u8>,
    /// The current line is too long already; `partial` holds its head.
    skipping: bool,
}

impl StdioLines {
    pub(super) fn new(limit: usize) -> StdioLines {
        StdioLines { limit, partial: Vec::new(), skipping: false }
    }

    /// Takes bytes in and gives the lines that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<StdioLine> {
        let mut lines = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.add(line);
            lines.extend(self.finish());
            rest = after.get(1..).unwrap_or_default();
        }
        self.add(rest);
        lines
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.partial.len().saturating_add(bytes.len()) > self.limit {
            let room = HEAD.saturating_sub(self.partial.len()).min(bytes.len());
            self.partial.extend_from_slice(bytes.get(..room).unwrap_or_default());
            self.partial.truncate(HEAD);
            self.partial.shrink_to_fit();
            self.skipping = true;
            return;
        }
        self.partial.extend_from_slice(bytes);
    }

    fn finish(&mut self) -> Option<StdioLine> {
        let bytes = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.skipping) {
            return Some(StdioLine::TooLong { head: bytes });
        }
        let blank = bytes.iter().all(u8::is_ascii_whitespace);
        (!blank).then_some(StdioLine::Whole(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> StdioLine {
        StdioLine::Whole(text.into())
    }

    #[test]
    fn lines_come_out_however_the_bytes_come_in() {
        let text = b"one\ntwo\r\n\n  \nthree\nfour";
        for size in 1..text.len() {
            let mut lines = StdioLines::new(100);
            let found: Vec<StdioLine> = text.chunks(size).flat_map(|piece| lines.push(piece)).collect();
            assert_eq!(found, [whole("one"), whole("two\r"), whole("three")], "pieces of {size}");
        }
    }

    #[test]
    fn a_long_line_leaves_its_head_and_the_next_is_whole() {
        let mut lines = StdioLines::new(300);
        let mut found = lines.push(&[b'a'; 200]);
        found.extend(lines.push(&[b'b'; 200]));
        assert!(lines.partial.capacity() <= 512, "{}", lines.partial.capacity());
        found.extend(lines.push(&[b'c'; 100_000]));
        found.extend(lines.push(b"\nnext\n"));
        let head = [[b'a'; 200].as_slice(), [b'b'; 56].as_slice()].concat();
        assert_eq!(found, [StdioLine::TooLong { head }, whole("next")]);
    }
}
