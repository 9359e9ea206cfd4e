//! The lines of a thread's file, prepared for replay: checked, reordered, and with blobs inserted.

use memchr::{memchr_iter, memrchr};
use serde::de::IgnoredAny;

use crate::{
    blobs::{self, BlobSource},
    record_line::{self, LineHead, RecordKind},
    thread::{LoadProblem, LoadWarnings},
};

/// The usable records of a file, and warnings about the others.
pub struct RecordLines<'a> {
    lines: Vec<RecordLine<'a>>,
    pub warnings: LoadWarnings,
    /// The end of the last whole line.
    pub end: u64,
}

struct RecordLine<'a> {
    number: u64,
    text: LineText<'a>,
}

enum LineText<'a> {
    /// The line of the file.
    Plain(LineHead<'a>, &'a str),
    /// The line after reordering or inserting blobs.
    Rewritten(String),
}

impl<'a> RecordLines<'a> {
    pub fn of(file: &'a [u8]) -> Self {
        let mut lines = Self {
            lines: Vec::with_capacity(file.len() / 512),
            warnings: LoadWarnings::default(),
            end: memrchr(b'\n', file).map_or(0, |newline| newline as u64 + 1),
        };
        for (number, bytes) in (1..).zip(split(file)) {
            let text = std::str::from_utf8(bytes).ok().filter(|text| !is_torn(file, text));
            match text.and_then(read) {
                Some(text) => {
                    // A last line that lacks only its newline is whole.
                    if is_last(file, bytes) {
                        lines.end = file.len() as u64;
                    }
                    lines.lines.push(RecordLine { number, text });
                }
                None if bytes.is_empty() => {}
                None => lines.warnings.add(number, LoadProblem::Unreadable),
            }
        }
        lines
    }

    /// Keeps the records up to and including the one with this ordinal.
    pub fn up_to(mut self, ordinal: u64) -> Self {
        let is_later = |line: &RecordLine<'_>| line.text.head().is_some_and(|head| head.ordinal > ordinal);
        let end = self.lines.iter().position(is_later).unwrap_or(self.lines.len());
        self.lines.truncate(end);
        self
    }

    /// Inserts the blobs of the lines whose kind is wanted.
    pub fn with_blobs(mut self, blobs: &dyn BlobSource, wanted: impl Fn(RecordKind) -> bool) -> Self {
        for line in &mut self.lines {
            let Some(head) = line.text.head().filter(|head| head.blobs && wanted(head.kind)) else {
                continue;
            };
            let mut missing = Vec::new();
            let whole = blobs::move_in(blobs, line.text.whole(), &mut missing);
            debug_assert_eq!(head.kind, LineHead::read(&whole).map_or(RecordKind::Unknown, |head| head.kind));
            line.text = LineText::Rewritten(whole);
            missing.into_iter().for_each(|_| self.warnings.add(line.number, LoadProblem::MissingBlob));
        }
        self
    }

    /// Returns the hashes of the blobs of the lines whose kind is wanted.
    pub fn blob_hashes(&self, wanted: impl Fn(RecordKind) -> bool) -> Vec<String> {
        let lines = self
            .lines
            .iter()
            .filter(|line| line.text.head().is_some_and(|head| head.blobs && wanted(head.kind)));
        lines.flat_map(|line| blobs::references(line.text.whole())).map(str::to_owned).collect()
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns the line number and head of each record.
    pub fn heads(&self) -> impl Iterator<Item = (u64, LineHead<'_>)> {
        self.lines.iter().filter_map(|line| Some((line.number, line.text.head()?)))
    }
}

impl LineText<'_> {
    fn head(&self) -> Option<LineHead<'_>> {
        match self {
            Self::Plain(head, _) => Some(*head),
            Self::Rewritten(text) => LineHead::read(text),
        }
    }

    fn whole(&self) -> &str {
        match self {
            Self::Plain(_, text) => text,
            Self::Rewritten(text) => text,
        }
    }
}

fn read(text: &str) -> Option<LineText<'_>> {
    match LineHead::read(text) {
        Some(head) => Some(LineText::Plain(head, text)),
        None => record_line::reorder(text).map(LineText::Rewritten),
    }
}

/// Returns whether this is a truncated last line. A line that lacks only its newline is complete.
fn is_torn(file: &[u8], text: &str) -> bool {
    is_last(file, text.as_bytes()) && serde_json::from_str::<IgnoredAny>(text).is_err()
}

/// Returns whether a line has no newline.
fn is_last(file: &[u8], line: &[u8]) -> bool {
    file.as_ptr_range().end == line.as_ptr_range().end
}

/// Splits a file at its newlines.
fn split(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr_iter(b'\n', file).chain([file.len()]).map(move |end| {
        let line = file.get(start..end).unwrap_or_default();
        start = end + 1;
        line
    })
}
