//! Splitting a byte stream into lines of bounded length: one message per line, as stdio and sockets carry them.
//!
//! The splitter holds at most one line of the permitted length. A longer line is reported once, as soon as it
//! passes the ceiling, and dropped up to its end; the next line is whole again. Reading the bytes, ignoring blank
//! lines and reporting long ones is left to the callers.
//!
//! Written by hand because `tokio_util`'s `LinesCodec` decodes UTF-8, copies every line and ends the stream with an
//! error at the first line that is too long.

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// Bytes of an over-long line that are kept: enough to recognise the id of the message.
const HEAD_BYTES: usize = 256;

/// The longest line whose buffer is used again. A longer one takes its buffer along, which would otherwise stay
/// allocated for as long as the connection.
const REUSED_BUFFER_BYTES: usize = 1 << 20;

/// A line without its `\n`. A `\r` before it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitLine {
    Whole(Bytes),
    /// The beginning of a line that is longer than the ceiling. The rest is dropped.
    TooLong {
        head: Bytes,
        max_line_bytes: usize,
    },
}

/// Splits the chunks of a byte stream into lines.
#[derive(Debug)]
pub struct LineSplitter {
    max_line_bytes: usize,
    /// The current line as far as it has arrived; empty while it is skipped.
    partial: BytesMut,
    /// Whether the current line is longer than the ceiling.
    is_skipping: bool,
}

impl LineSplitter {
    pub fn new(max_line_bytes: usize) -> Self {
        Self { max_line_bytes, partial: BytesMut::new(), is_skipping: false }
    }

    /// Changes the ceiling. It applies from the next chunk on, also to the line that has begun.
    pub fn set_max_line_bytes(&mut self, max_line_bytes: usize) {
        self.max_line_bytes = max_line_bytes;
    }

    /// Returns the length of the line that has begun and not ended.
    pub fn partial_bytes(&self) -> usize {
        self.partial.len()
    }

    /// Takes the next chunk and calls `on_line` for every line it completes. Lines are copied out of the chunk.
    pub fn feed(&mut self, chunk: &[u8], on_line: impl FnMut(SplitLine)) {
        self.split(chunk, |_, _| None, on_line);
    }

    /// Does the same for a chunk that can be shared: a line within the chunk is a slice of it, not a copy.
    pub fn feed_shared(&mut self, chunk: &Bytes, on_line: impl FnMut(SplitLine)) {
        self.split(chunk, |start, end| Some(chunk.slice(start..end)), on_line);
    }

    /// Returns the last line if the input ended without a newline.
    pub fn finish(&mut self) -> Option<Bytes> {
        self.is_skipping = false;
        (!self.partial.is_empty()).then(|| self.take_partial())
    }

    fn split(
        &mut self,
        chunk: &[u8],
        share: impl Fn(usize, usize) -> Option<Bytes>,
        mut on_line: impl FnMut(SplitLine),
    ) {
        let mut rest = chunk;
        while let Some(length) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(length);
            let start = chunk.len() - rest.len();
            let is_within_chunk =
                self.partial.is_empty() && !self.is_skipping && length <= self.max_line_bytes;
            if let Some(shared) = is_within_chunk.then(|| share(start, start + length)).flatten() {
                on_line(SplitLine::Whole(shared));
            } else {
                self.append(line, &mut on_line);
                if !std::mem::take(&mut self.is_skipping) {
                    on_line(SplitLine::Whole(self.take_partial()));
                }
            }
            rest = after.get(1..).unwrap_or_default();
        }
        self.append(rest, &mut on_line);
    }

    fn append(&mut self, bytes: &[u8], on_line: &mut impl FnMut(SplitLine)) {
        if self.is_skipping {
            return;
        }
        if self.partial.len().saturating_add(bytes.len()) <= self.max_line_bytes {
            self.partial.extend_from_slice(bytes);
            return;
        }
        let partial = std::mem::take(&mut self.partial);
        let head: Vec<u8> = partial.iter().chain(bytes).take(HEAD_BYTES).copied().collect();
        self.is_skipping = true;
        on_line(SplitLine::TooLong { head: head.into(), max_line_bytes: self.max_line_bytes });
    }

    fn take_partial(&mut self) -> Bytes {
        if self.partial.len() > REUSED_BUFFER_BYTES {
            std::mem::take(&mut self.partial).freeze()
        } else {
            self.partial.split().freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(text: &str) -> SplitLine {
        SplitLine::Whole(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn too_long(max_line_bytes: usize, head: impl Into<Bytes>) -> SplitLine {
        SplitLine::TooLong { head: head.into(), max_line_bytes }
    }

    /// Feeds the chunks as slices and as shared buffers, which must make no difference.
    fn split<'a>(max: usize, chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<SplitLine> {
        let mut copying = LineSplitter::new(max);
        let mut sharing = LineSplitter::new(max);
        let mut copied = Vec::new();
        let mut shared = Vec::new();
        for chunk in chunks {
            copying.feed(chunk, |line| copied.push(line));
            sharing.feed_shared(&Bytes::copy_from_slice(chunk), |line| shared.push(line));
            assert!(copying.partial_bytes() <= max);
            assert_eq!(copying.partial_bytes(), sharing.partial_bytes());
        }
        copied.extend(copying.finish().map(SplitLine::Whole));
        shared.extend(sharing.finish().map(SplitLine::Whole));
        assert_eq!(copied, shared);
        copied
    }

    #[test]
    fn lines_do_not_depend_on_the_chunks() {
        let text = b"one\r\n\n  \ntwo\nthree";
        let expected = [whole("one\r"), whole(""), whole("  "), whole("two"), whole("three")];
        for size in 1..=text.len() {
            assert_eq!(split(100, text.chunks(size)), expected, "chunks of {size} bytes");
        }
    }

    #[test]
    fn a_line_over_the_ceiling_is_reported_and_the_next_one_is_whole() {
        let check = |chunks: &[&[u8]], expected: &[SplitLine]| {
            assert_eq!(split(8, chunks.iter().copied()), expected, "{chunks:?}");
        };
        check(&[b"12345678\nnext\n"], &[whole("12345678"), whole("next")]);
        check(&[b"123456789\nnext\n"], &[too_long(8, "123456789"), whole("next")]);
        check(&[b"1234", b"5678", b"9", b"\nnext\n"], &[too_long(8, "123456789"), whole("next")]);
        check(&[b"1234567890"], &[too_long(8, "1234567890")]);
    }

    #[test]
    fn the_head_of_an_over_long_line_is_short_and_the_rest_is_not_kept() {
        let mut splitter = LineSplitter::new(300);
        let mut lines = Vec::new();
        splitter.feed(&[b'a'; 200], |line| lines.push(line));
        splitter.feed(&[b'b'; 200], |line| lines.push(line));
        let head = [[b'a'; 200].as_slice(), [b'b'; 56].as_slice()].concat();
        assert_eq!(lines, [too_long(300, head)], "reported before the line has ended");
        splitter.feed(&[b'c'; 100_000], |line| lines.push(line));
        assert_eq!(splitter.partial.capacity(), 0);
        splitter.feed(b"\nnext\n", |line| lines.push(line));
        assert_eq!(lines.split_off(1), [whole("next")]);
    }

    #[test]
    fn the_buffer_of_a_large_line_is_not_kept() {
        let mut splitter = LineSplitter::new(8 << 20);
        splitter.feed(&vec![b'x'; 4 << 20], |_| panic!("the line has not ended"));
        splitter.feed(b"\n", |line| assert!(matches!(line, SplitLine::Whole(line) if line.len() == 4 << 20)));
        assert_eq!(splitter.partial.capacity(), 0);
    }

    #[test]
    fn a_changed_ceiling_applies_to_the_line_that_has_begun() {
        let mut splitter = LineSplitter::new(100);
        let mut lines = Vec::new();
        splitter.feed(b"12345", |line| lines.push(line));
        splitter.set_max_line_bytes(8);
        splitter.feed(b"6789\nnext\n", |line| lines.push(line));
        assert_eq!(lines, [too_long(8, "123456789"), whole("next")]);
    }

    proptest! {
        #[test]
        fn any_chunks_give_the_lines_of_the_text(
            chunks in prop::collection::vec(prop::collection::vec(prop::sample::select(&b"ab\r\n"[..]), 0..12), 0..20),
            max in 0_usize..10,
        ) {
            let text = chunks.concat();
            let mut expected: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            if expected.last().is_some_and(|last| last.is_empty()) {
                expected.pop();
            }
            let found = split(max, chunks.iter().map(Vec::as_slice));
            prop_assert_eq!(found.len(), expected.len());
            for (found, expected) in found.iter().zip(expected) {
                match found {
                    SplitLine::Whole(line) => prop_assert!(line.len() <= max && line == expected),
                    SplitLine::TooLong { head, .. } => {
                        prop_assert!(expected.len() > max && expected.starts_with(head));
                    }
                }
            }
        }
    }
}
