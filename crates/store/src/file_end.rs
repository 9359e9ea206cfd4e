//! The end of a thread's file: where the next record goes, and the repair of what a crash left there.
//!
//! A process that dies (or a disk that fills up) in the middle of a write leaves a torn last line. It was
//! never confirmed to anybody, so it is cut off before the next append. Everything else in the file is
//! left as it is.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use memchr::{memchr, memrchr};
use serde::de::IgnoredAny;

use crate::{
    error::{Result, StoreError},
    line::{self, LineHead, RecordKind},
};

/// How much of the end is read at first; most last lines fit.
const WINDOW: u64 = 16 * 1024;
/// The first line is looked at in steps of this size.
const HEAD_STEP: usize = 16 * 1024;

/// Where the next record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTail {
    pub len: u64,
    pub next_ordinal: u64,
}

/// Finds the end of the file and repairs it. The caller holds the file's lock, so nobody is in the
/// middle of a write.
pub fn repair(file: &File, path: &Path) -> Result<FileTail> {
    let failed = || StoreError::io("repair", path);
    let len = file.metadata().map_err(failed())?.len();
    check_first_line(file, path)?;
    let end = find_end(file, len).map_err(failed())?;
    let tail = match end {
        TailEnd::Whole(tail) => tail,
        TailEnd::NoNewline(tail) => {
            (&*file).write_all_once(b"\n").map_err(failed())?;
            FileTail { len: tail.len + 1, ..tail }
        }
        TailEnd::Torn(tail) => {
            tracing::warn!(path = %path.display(), bytes = len - tail.len, "cut a torn record off a thread");
            file.set_len(tail.len).map_err(failed())?;
            tail
        }
    };
    Ok(tail)
}

/// Refuses files that are not threads of this program, before anything is changed in them.
fn check_first_line(file: &File, path: &Path) -> Result<()> {
    let not_a_thread = |reason| StoreError::NotAThread { path: path.to_owned(), reason };
    let mut head = Vec::new();
    loop {
        let at = head.len();
        head.resize(at + HEAD_STEP, 0);
        let read = file
            .read_at(head.get_mut(at..).unwrap_or_default(), at as u64)
            .map_err(StoreError::io("read", path))?;
        head.truncate(at + read);
        let newline = memchr(b'\n', head.get(at..).unwrap_or_default()).map(|end| at + end);
        if let Some(end) = newline {
            head.truncate(end);
        } else if read > 0 {
            continue;
        }
        let first = std::str::from_utf8(&head).ok().and_then(line::canonical);
        let kind = first.as_deref().and_then(LineHead::read).map(|head| head.kind);
        return if kind == Some(RecordKind::Meta) {
            Ok(())
        } else {
            Err(not_a_thread(first_line_reason(&head)))
        };
    }
}

/// Why a first line is not that of a thread.
pub fn first_line_reason(line: &[u8]) -> &'static str {
    if line.is_empty() {
        "it is empty"
    } else if memchr::memmem::find(line, b"\"session_meta\"").is_some() {
        "it was written by codex; `codicil import` takes it over"
    } else {
        "its first line is not the beginning of one"
    }
}

enum TailEnd {
    Whole(FileTail),
    /// The last record is complete except for its newline.
    NoNewline(FileTail),
    Torn(FileTail),
}

/// Looks at the end through a window that grows until it holds the last whole record.
fn find_end(file: &File, len: u64) -> io::Result<TailEnd> {
    let mut window = WINDOW;
    loop {
        let start = len.saturating_sub(window);
        let mut bytes = vec![0; usize::try_from(len - start).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        if let Some(end) = end_in(&bytes, start, len) {
            return Ok(end);
        }
        if start == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "no record is readable"));
        }
        window *= 8;
    }
}

/// `None` when the window does not reach back to a whole record.
fn end_in(bytes: &[u8], start: u64, len: u64) -> Option<TailEnd> {
    let mut end = bytes.len();
    loop {
        let newline = memrchr(b'\n', bytes.get(..end.saturating_sub(1))?);
        if newline.is_none() && start > 0 {
            return None;
        }
        let begin = newline.map_or(0, |newline| newline + 1);
        let terminated = bytes.get(end.checked_sub(1)?) == Some(&b'\n');
        let text = bytes.get(begin..if terminated { end - 1 } else { end })?;
        if let Some(ordinal) = ordinal(text) {
            let tail = FileTail { len: start + end as u64, next_ordinal: ordinal + 1 };
            return Some(match (terminated, tail.len == len) {
                (false, _) => TailEnd::NoNewline(tail),
                (true, true) => TailEnd::Whole(tail),
                (true, false) => TailEnd::Torn(tail),
            });
        }
        end = begin;
    }
}

/// The ordinal of a line that is a whole record.
fn ordinal(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let line = line::canonical(text)?;
    serde_json::from_str::<IgnoredAny>(&line).ok()?;
    LineHead::read(&line).map(|head| head.ordinal)
}

/// Appending without the loop of `write_all`.
pub trait WriteOnce {
    /// Appends in one system call. A short write is finished by a second one only to learn why it was
    /// short: on a full disk that one returns the error.
    fn write_all_once(&mut self, bytes: &[u8]) -> io::Result<()>;
}

impl<W: io::Write> WriteOnce for W {
    fn write_all_once(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = loop {
            match self.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => break result?,
            }
        };
        match bytes.get(written..) {
            None | Some([]) => Ok(()),
            Some(rest) => self.write_all(rest),
        }
    }
}
