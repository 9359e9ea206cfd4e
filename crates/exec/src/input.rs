//! What a process reads: standard input by pipe, or what is typed at its terminal.

use std::{io, os::fd::OwnedFd, sync::Arc};

use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};
use tokio::io::{Interest, unix::AsyncFd};

/// The writing end of a process's input. Dropping it closes a pipe; a terminal stays open until
/// [`ProcessInput::close`].
pub struct ProcessInput {
    end: Arc<AsyncFd<OwnedFd>>,
    terminal: bool,
    /// A line has been begun at the terminal and not been finished.
    in_line: bool,
}

impl ProcessInput {
    pub(crate) fn pipe(end: AsyncFd<OwnedFd>) -> ProcessInput {
        ProcessInput { end: Arc::new(end), terminal: false, in_line: false }
    }

    pub(crate) fn terminal(controller: Arc<AsyncFd<OwnedFd>>) -> ProcessInput {
        ProcessInput { end: controller, terminal: true, in_line: false }
    }

    /// Writes everything, waiting while the process does not read. When dropped before it is done, some of it
    /// may have been written; [`ProcessInput::write_some`] tells how much.
    pub async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = self.write_some(bytes).await?;
            bytes = bytes.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Writes as much as fits once something does. Safe to drop while waiting: nothing has been written then.
    pub async fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = |end: &OwnedFd| Ok(rustix::io::retry_on_intr(|| rustix::io::write(end, bytes))?);
        let count = self.end.async_io(Interest::WRITABLE, write).await?;
        if let Some(last) = bytes.get(..count).and_then(<[u8]>::last) {
            self.in_line = *last != b'\n';
        }
        Ok(count)
    }

    /// Ends the input. At a terminal that reads lines this is the end-of-file key, pressed twice after an
    /// unfinished line: the first only hands over that line. A terminal in raw mode has no end of input.
    pub async fn close(mut self) -> io::Result<()> {
        if !self.terminal {
            return Ok(());
        }
        let modes = tcgetattr(self.end.get_ref())?;
        if !modes.local_modes.contains(LocalModes::ICANON) {
            return Ok(());
        }
        let key = modes.special_codes[SpecialCodeIndex::VEOF];
        let keys = [key, key];
        let count = if self.in_line { 2 } else { 1 };
        self.write(keys.get(..count).unwrap_or_default()).await
    }
}
