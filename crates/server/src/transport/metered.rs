//! Counts the bytes of a websocket's incomplete message.
//!
//! The websocket library buffers a frame and the fragments before it, out of reach. So bytes are counted below the
//! library, as they are read, and subtracted when it returns a whole message.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;

use crate::inbound::{InboundMeter, MessageRefused};

/// Bytes of following messages that a single read may include.
const READ_AHEAD_BYTES: usize = 128 << 10;

/// The header of a control frame: two bytes and a mask.
const CONTROL_FRAME_BYTES: usize = 6;

/// A stream whose reads are counted.
#[derive(Debug)]
pub struct MeteredStream<S> {
    pub stream: S,
    pub meter: Arc<InboundMeter>,
}

/// Subtracts a whole message from the count. Fails, and closes the connection, if it is too long.
pub fn count(meter: &InboundMeter, message: &Message) -> Result<(), MessageRefused> {
    match message {
        Message::Text(_) | Message::Binary(_) if message.len() > meter.max_message_bytes() => {
            Err(meter.refuse())
        }
        Message::Text(_) | Message::Binary(_) => meter.set_unfinished(0),
        // A control frame may arrive between the fragments of a message, which stays incomplete.
        _ => meter.set_unfinished(meter.unfinished().saturating_sub(message.len() + CONTROL_FRAME_BYTES)),
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MeteredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let unfinished = self.meter.unfinished() + (buffer.filled().len() - before);
        if unfinished > self.meter.max_message_bytes() + READ_AHEAD_BYTES {
            return Poll::Ready(Err(io::Error::other(self.meter.refuse())));
        }
        Poll::Ready(self.meter.set_unfinished(unfinished).map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MeteredStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
