//! A connection that can be cut once everything written so far is with the operating system.
//!
//! Failing the body instead would lose what the HTTP layer still has in its buffer, and a test that
//! cuts a stream after a sentence could not tell how much of the sentence its client saw.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Asks a [`CuttableLine`] to end; shared with whoever writes the body.
#[derive(Clone, Default)]
pub(super) struct CutHandle(Arc<AtomicBool>);

impl CutHandle {
    /// The line ends at its next flush, which comes when all earlier writes are done.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(super) struct CuttableLine {
    socket: TcpStream,
    scissors: CutHandle,
}

impl CuttableLine {
    pub(super) fn new(socket: TcpStream, scissors: CutHandle) -> Self {
        Self { socket, scissors }
    }
}

impl AsyncRead for CuttableLine {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, into)
    }
}

impl AsyncWrite for CuttableLine {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.scissors.0.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the script")));
        }
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
