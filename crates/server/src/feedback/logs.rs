//! The last lines of the server's log, kept in memory for feedback reports.

use std::{collections::VecDeque, fmt, io};

use parking_lot::Mutex;

const MAX_BYTES: usize = 256 << 10;

/// A log writer that keeps the last 256 KiB. The logger writes to it and to standard error.
#[derive(Default)]
pub struct RecentLogs(Mutex<VecDeque<u8>>);

static RECENT: RecentLogs = RecentLogs(Mutex::new(VecDeque::new()));

/// Returns the log buffer of this process.
pub fn recent_logs() -> &'static RecentLogs {
    &RECENT
}

impl RecentLogs {
    /// Returns the kept text, beginning with a whole line.
    pub fn text(&self) -> String {
        let bytes = Vec::from(self.0.lock().clone());
        let is_cut = bytes.len() >= MAX_BYTES;
        let start = bytes.iter().position(|byte| *byte == b'\n').filter(|_| is_cut).map_or(0, |end| end + 1);
        String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned()
    }
}

impl io::Write for &RecentLogs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.0.lock();
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(MAX_BYTES);
        kept.drain(..excess);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for RecentLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentLogs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn only_the_last_whole_lines_are_kept() {
        let logs = RecentLogs::default();
        (&logs).write_all(b"first\n").unwrap();
        assert_eq!(logs.text(), "first\n");
        let line = "x".repeat(99) + "\n";
        for _ in 0..5000 {
            (&logs).write_all(line.as_bytes()).unwrap();
        }
        let text = logs.text();
        assert!(text.len() <= MAX_BYTES && text.len() > MAX_BYTES - 200);
        assert!(text.lines().all(|kept| kept.len() == 99));
    }
}
