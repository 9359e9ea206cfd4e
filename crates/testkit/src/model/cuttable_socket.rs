//! A socket that can be closed after everything written so far has been passed to the operating system.
//!
//! Failing the body instead would lose what is still in the buffer of the HTTP layer, and a test that cuts a
//! stream after a sentence could not know how much of it the client has received.

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

/// Closes a [`CuttableSocket`]; held by the body of the response.
#[derive(Clone, Default)]
pub(super) struct CutHandle(Arc<AtomicBool>);

impl CutHandle {
    /// Makes the next flush fail, which comes after all earlier writes.
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }
}

pub(super) struct CuttableSocket {
    socket: TcpStream,
    cut_handle: CutHandle,
}

impl CuttableSocket {
    pub(super) fn new(socket: TcpStream, cut_handle: CutHandle) -> Self {
        Self { socket, cut_handle }
    }
}

impl AsyncRead for CuttableSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, into)
    }
}

impl AsyncWrite for CuttableSocket {
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
        if self.cut_handle.0.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut by the script")));
        }
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
