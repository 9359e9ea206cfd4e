//! Messages out of bytes: one a line, however the bytes arrive.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// Splits what it is fed into lines. What is longer than the ceiling is skipped, never gathered.
#[derive(Debug)]
pub struct LineSplitter {
    partial: BytesMut,
    /// Inside a line that is too long; it is dropped up to its end.
    skipping: bool,
    max: usize,
}

impl LineSplitter {
    pub fn new(max: usize) -> Self {
        Self { partial: BytesMut::new(), skipping: false, max }
    }

    /// Takes the next bytes and hands on every line that they complete, without its end. A line that lies
    /// within one chunk is not copied.
    pub fn feed(&mut self, mut chunk: Bytes, out: &mut VecDeque<Bytes>) {
        while let Some(end) = memchr(b'\n', &chunk) {
            let mut line = chunk.split_to(end + 1);
            line.truncate(end);
            if self.partial.is_empty() && !self.skipping && line.len() <= self.max {
                push(line, out);
            } else {
                self.append(&line);
                let whole = self.partial.split().freeze();
                if !std::mem::take(&mut self.skipping) {
                    push(whole, out);
                }
            }
        }
        self.append(&chunk);
    }

    /// The last line, if the input ended without a newline.
    pub fn finish(&mut self, out: &mut VecDeque<Bytes>) {
        if !std::mem::take(&mut self.skipping) {
            push(self.partial.split().freeze(), out);
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > self.max {
            tracing::warn!("skipped a line of more than {} bytes", self.max);
            self.skipping = true;
            self.partial = BytesMut::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

/// Blank lines say nothing.
fn push(line: Bytes, out: &mut VecDeque<Bytes>) {
    if !line.trim_ascii().is_empty() {
        out.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]], max: usize) -> VecDeque<Bytes> {
        let (mut splitter, mut out) = (LineSplitter::new(max), VecDeque::new());
        for chunk in chunks {
            splitter.feed(Bytes::copy_from_slice(chunk), &mut out);
            assert!(splitter.partial.len() <= max);
        }
        splitter.finish(&mut out);
        out
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let whole = b"{\"a\":1}\r\n\n  \n{\"b\":2}\nlast";
        let expected = lines(&[whole], 100);
        assert_eq!(expected, ["{\"a\":1}\r", "{\"b\":2}", "last"]);
        for size in 1..whole.len() {
            let chunks: Vec<&[u8]> = whole.chunks(size).collect();
            assert_eq!(lines(&chunks, 100), expected, "in chunks of {size}");
        }
    }

    #[test]
    fn a_line_beyond_the_ceiling_is_skipped_and_the_next_one_read() {
        assert_eq!(lines(&[b"123456789\nnext\n"], 8), ["next"]);
        assert_eq!(lines(&[b"1234", b"5678", b"9", b"\nnext\n"], 8), ["next"]);
        assert_eq!(lines(&[b"12345678\nnext\n"], 8), ["12345678", "next"]);
        assert!(lines(&[b"1234567890"], 8).is_empty());
    }
}
