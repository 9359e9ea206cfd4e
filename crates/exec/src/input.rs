//! The input of a process: a pipe, or the keyboard of its terminal.

use std::{io, os::fd::OwnedFd, sync::Arc};

use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};
use tokio::io::{Interest, unix::AsyncFd};

/// The writing end of a process's input. Dropping it closes a pipe; a terminal stays open until
/// [`ProcessInput::close`].
pub struct ProcessInput {
    end: Arc<AsyncFd<OwnedFd>>,
    is_terminal: bool,
    /// Whether the last byte written was not the end of a line.
    is_within_line: bool,
}

impl ProcessInput {
    pub(crate) fn pipe(end: AsyncFd<OwnedFd>) -> ProcessInput {
        ProcessInput { end: Arc::new(end), is_terminal: false, is_within_line: false }
    }

    pub(crate) fn terminal(controller: Arc<AsyncFd<OwnedFd>>) -> ProcessInput {
        ProcessInput { end: controller, is_terminal: true, is_within_line: false }
    }

    /// Writes all bytes, waiting while the process does not read. If the future is dropped before it completes, some
    /// bytes may have been written; [`ProcessInput::write_some`] returns how many.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write_some(bytes).await?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Waits until some bytes fit, writes them and returns their number. Cancel-safe: if the future is dropped before
    /// it completes, nothing has been written.
    pub async fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = |end: &OwnedFd| Ok(rustix::io::retry_on_intr(|| rustix::io::write(end, bytes))?);
        let count = self.end.async_io(Interest::WRITABLE, write).await?;
        if let Some(last) = bytes.get(..count).and_then(<[u8]>::last) {
            self.is_within_line = *last != b'\n';
        }
        Ok(count)
    }

    /// Ends the input. On a terminal in line mode this sends the end-of-file character, twice after an unfinished
    /// line, because the first one only submits that line. A terminal in raw mode has no end of input.
    pub async fn close(mut self) -> io::Result<()> {
        if !self.is_terminal {
            return Ok(());
        }
        let modes = tcgetattr(self.end.get_ref())?;
        if !modes.local_modes.contains(LocalModes::ICANON) {
            return Ok(());
        }
        let key = modes.special_codes[SpecialCodeIndex::VEOF];
        let keys = [key, key];
        let count = if self.is_within_line { 2 } else { 1 };
        self.write(keys.get(..count).unwrap_or_default()).await
    }
}
