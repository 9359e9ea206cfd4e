//! The standard error of a server: written to the log at debug level, and its end kept for the error of a server that
//! does not start. Lines and their total size are limited.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use crate::{
    call_registry::CallRegistry,
    limits::{LOGGED_BYTES, LOGGED_LINE_BYTES, STDERR_TAIL_BYTES},
};

/// The end of a server's standard error.
#[derive(Debug, Default)]
pub(crate) struct StderrTail(Mutex<VecDeque<u8>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock();
        tail.extend(bytes);
        let excess = tail.len().saturating_sub(STDERR_TAIL_BYTES);
        tail.drain(..excess);
    }

    /// Returns the last lines; `None` if the server has written nothing.
    pub(crate) fn text(&self) -> Option<String> {
        let mut tail = self.0.lock();
        let is_cut = tail.len() == STDERR_TAIL_BYTES;
        let text = String::from_utf8_lossy(tail.make_contiguous()).into_owned();
        // The first line of a cut text is incomplete.
        let whole = text.split_once('\n').map(|(_, rest)| rest).filter(|rest| is_cut && !rest.is_empty());
        let text = whole.unwrap_or(&text).trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

pub(super) struct StderrLog {
    server: String,
    registry: Arc<CallRegistry>,
    partial: Vec<u8>,
    /// Bytes that may still be logged.
    remaining: usize,
}

impl StderrLog {
    pub(super) fn new(server: &str, registry: Arc<CallRegistry>) -> StderrLog {
        StderrLog { server: server.to_owned(), registry, partial: Vec::new(), remaining: LOGGED_BYTES }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.registry.stderr.push(bytes);
        if self.remaining == 0 || !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LOGGED_LINE_BYTES.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if piece.ends_with(b"\n") {
                self.log_line();
            }
        }
    }

    fn log_line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&line);
        tracing::debug!(server = self.server, "stderr: {}", text.trim_end());
        self.remaining = self.remaining.saturating_sub(line.len());
        if self.remaining == 0 {
            tracing::debug!(server = self.server, "stderr: limit reached, further lines are not logged");
        }
    }
}

impl Drop for StderrLog {
    fn drop(&mut self) {
        if !self.partial.is_empty() {
            self.log_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_lines_are_kept() {
        let tail = StderrTail::default();
        assert_eq!(tail.text(), None);
        tail.push(b"Traceback:\n");
        tail.push(b"  no module named x\n");
        assert_eq!(tail.text().unwrap(), "Traceback:\n  no module named x");
        for line in 0..500 {
            tail.push(format!("line {line}\n").as_bytes());
        }
        let text = tail.text().unwrap();
        assert!(text.len() <= STDERR_TAIL_BYTES);
        assert!(text.starts_with("line ") && text.ends_with("line 499"), "{text}");
        let long = StderrTail::default();
        long.push(&[b'x'; 2 * STDERR_TAIL_BYTES]);
        assert_eq!(long.text().unwrap().len(), STDERR_TAIL_BYTES, "a single long line is cut");
    }
}
