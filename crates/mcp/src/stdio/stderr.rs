//! What a server writes to standard error, in our log at debug level: the first part of each line, and not
//! more in all than a ceiling. Some servers log without end.

use crate::limits::{LOGGED_BYTES, LOGGED_LINE_BYTES};

pub(super) struct StderrLog {
    server: String,
    partial: Vec<u8>,
    left: usize,
}

impl StderrLog {
    pub(super) fn new(server: &str) -> StderrLog {
        StderrLog { server: server.to_owned(), partial: Vec::new(), left: LOGGED_BYTES }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.left == 0 || !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LOGGED_LINE_BYTES.saturating_sub(self.partial.len());
            self.partial.extend_from_slice(piece.get(..room).unwrap_or(piece));
            if piece.ends_with(b"\n") {
                self.line();
            }
        }
    }

    fn line(&mut self) {
        let line = std::mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&line);
        tracing::debug!(server = self.server, "stderr: {}", text.trim_end());
        self.left = self.left.saturating_sub(line.len());
        if self.left == 0 {
            tracing::debug!(server = self.server, "stderr: no more of it is logged");
        }
    }
}

impl Drop for StderrLog {
    fn drop(&mut self) {
        if !self.partial.is_empty() {
            self.line();
        }
    }
}
