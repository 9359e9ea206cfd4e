//! Writes to standard output from the runtime.
//!
//! Other processes may share the stream, so it is not switched to non-blocking mode. On Linux each write says by itself that it
//! must not wait, and what the client has not made room for is left to a thread of the blocking pool. A client that reads thus
//! costs no change of threads.

use std::io::{self, Write};

use bytes::Bytes;
#[cfg(target_os = "linux")]
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// Standard output of this process.
pub struct StandardOutput {
    /// Whether a write can say that it must not wait. Old systems and terminals do not know that.
    #[cfg(target_os = "linux")]
    can_try: bool,
}

impl StandardOutput {
    pub fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            can_try: true,
        }
    }

    /// Writes the buffer and empties it. Waits until the client has made room.
    pub async fn write(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let written = self.write_now(buffer)?;
        if written < buffer.len() {
            *buffer = write_rest(std::mem::take(buffer), written).await?;
        }
        buffer.clear();
        Ok(())
    }

    /// Writes a message without copying it. Waits until the client has made room.
    pub async fn write_shared(&mut self, message: &Bytes) -> io::Result<()> {
        let written = self.write_now(message)?;
        if written < message.len() {
            write_rest(message.clone(), written).await?;
        }
        Ok(())
    }

    /// Writes what can be written without waiting. Returns its length.
    #[cfg(target_os = "linux")]
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while self.can_try
            && let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty())
        {
            // The offset means the end of a stream, and the current position of a file.
            match pwritev2(io::stdout(), &[io::IoSlice::new(rest)], u64::MAX, ReadWriteFlags::NOWAIT) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::SPIPE) => self.can_try = false,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(written)
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, clippy::unused_self, reason = "the same as on Linux")]
    fn write_now(&mut self, _: &[u8]) -> io::Result<usize> {
        Ok(0)
    }
}

/// Writes what follows the first `written` bytes, in a thread that may wait for the client. Returns the bytes.
async fn write_rest<B: AsRef<[u8]> + Send + 'static>(bytes: B, written: usize) -> io::Result<B> {
    let writing = tokio::task::spawn_blocking(move || {
        let mut output = io::stdout().lock();
        output.write_all(bytes.as_ref().get(written..).unwrap_or_default())?;
        output.flush()?;
        Ok(bytes)
    });
    // The outer error is a panic of the thread.
    writing.await.map_err(io::Error::other)?
}
