//! Lines out of bytes, with a ceiling: what is too long is skipped, never gathered.

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// Buffers up to this size are used again.
const KEPT_BYTES: usize = 1 << 20;

/// Splits what it is fed into lines.
#[derive(Debug, Default)]
pub struct LineSplitter {
    partial: BytesMut,
    /// Inside a line that is too long; it is dropped up to its end.
    skipping: bool,
}

impl LineSplitter {
    /// Takes the next bytes and hands on every line they complete, without its end. A line of more than `max`
    /// bytes is skipped.
    pub fn feed(&mut self, mut bytes: &[u8], max: usize, mut take: impl FnMut(Bytes)) {
        while let Some(end) = memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end);
            bytes = rest.get(1..).unwrap_or_default();
            self.append(line, max);
            if !std::mem::take(&mut self.skipping) {
                take(self.line().freeze());
            }
        }
        self.append(bytes, max);
    }

    /// Returns how much there is of a line that has not ended.
    pub fn unfinished(&self) -> usize {
        self.partial.len()
    }

    /// The last line, if the input ended without a newline.
    pub fn finish(mut self) -> Option<Bytes> {
        (!self.partial.is_empty() && !self.skipping).then(|| self.partial.split().freeze())
    }

    /// A long line takes its buffer along; what is left of it would be kept for as long as the connection.
    fn line(&mut self) -> BytesMut {
        match self.partial.len() > KEPT_BYTES {
            true => std::mem::take(&mut self.partial),
            false => self.partial.split(),
        }
    }

    fn append(&mut self, bytes: &[u8], max: usize) {
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > max {
            tracing::warn!("skipped a line of more than {} MiB", max >> 20);
            self.skipping = true;
            self.partial = BytesMut::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MAX_MESSAGE_BYTES;

    fn lines(chunks: &[&[u8]]) -> Vec<Bytes> {
        let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
        chunks.iter().for_each(|chunk| splitter.feed(chunk, MAX_MESSAGE_BYTES, |line| lines.push(line)));
        lines.extend(splitter.finish());
        lines
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let expected = lines(&[b"one\ntwo\n\nthree"]);
        assert_eq!(expected, ["one", "two", "", "three"]);
        assert_eq!(lines(&[b"o", b"ne", b"\ntwo\n", b"", b"\nth", b"ree"]), expected);
    }

    #[test]
    fn a_line_beyond_the_ceiling_is_skipped_and_the_next_one_read() {
        let (mut splitter, mut lines) = (LineSplitter::default(), Vec::new());
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..100 {
            splitter.feed(&chunk, MAX_MESSAGE_BYTES, |line| lines.push(line));
            assert!(splitter.partial.len() <= MAX_MESSAGE_BYTES);
        }
        splitter.feed(b"\nnext\n", MAX_MESSAGE_BYTES, |line| lines.push(line));
        assert_eq!(lines, ["next"]);
    }
}
