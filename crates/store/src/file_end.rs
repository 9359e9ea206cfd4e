//! The end of a thread's file: finding the position of the next record, and repairing a torn last line.
//!
//! A process that is killed, or a disk that is full, can leave an incomplete last line. Its append was never confirmed, so
//! the line is removed before the next append. The rest of the file is not changed.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

use memchr::{memchr, memrchr};
use serde::de::IgnoredAny;

use crate::{
    error::{Result, StoreError},
    record_line::{self, LineHead, RecordKind},
};

/// The size of the first read from the end. Most last lines fit.
const WINDOW: u64 = 16 * 1024;
/// The first line is read in steps of this size.
const HEAD_STEP: usize = 16 * 1024;

/// The position and ordinal of the next record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileTail {
    pub len: u64,
    pub next_ordinal: u64,
}

/// Finds and repairs the end of the file. The caller holds the file's lock, so no write is in progress.
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
            tracing::warn!(path = %path.display(), bytes = len - tail.len, "removed a torn record from the end of a thread");
            file.set_len(tail.len).map_err(failed())?;
            tail
        }
    };
    Ok(tail)
}

/// Rejects files that are not threads of this program, before they are changed.
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
        let first = std::str::from_utf8(&head).ok().and_then(record_line::canonical);
        let kind = first.as_deref().and_then(LineHead::read).map(|head| head.kind);
        return if kind == Some(RecordKind::Meta) {
            Ok(())
        } else {
            Err(not_a_thread(first_line_reason(&head)))
        };
    }
}

/// Returns the reason why a first line is not that of a thread.
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
    /// The last record lacks only its newline.
    NoNewline(FileTail),
    Torn(FileTail),
}

/// Reads the end of the file in a growing window until it contains the last whole record.
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

/// Returns `None` if the window contains no whole record.
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
            return Some(if !terminated {
                TailEnd::NoNewline(tail)
            } else if tail.len == len {
                TailEnd::Whole(tail)
            } else {
                TailEnd::Torn(tail)
            });
        }
        end = begin;
    }
}

/// Returns the ordinal of a line, if it is a whole record.
fn ordinal(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let line = record_line::canonical(text)?;
    serde_json::from_str::<IgnoredAny>(&line).ok()?;
    LineHead::read(&line).map(|head| head.ordinal)
}

/// Writing in a single system call, unlike `write_all`.
pub trait WriteOnce {
    /// Appends in one system call. After a short write, the rest is written to learn the reason: on a full disk this returns
    /// the error.
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
