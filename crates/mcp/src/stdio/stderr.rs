//! The standard error of a server, written to the log at debug level. Lines and their total size are limited.

use crate::limits::{LOGGED_BYTES, LOGGED_LINE_BYTES};

pub(super) struct StderrLog {
    server: String,
    partial: Vec<u8>,
    /// Bytes that may still be logged.
    remaining: usize,
}

impl StderrLog {
    pub(super) fn new(server: &str) -> StderrLog {
        StderrLog { server: server.to_owned(), partial: Vec::new(), remaining: LOGGED_BYTES }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
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
