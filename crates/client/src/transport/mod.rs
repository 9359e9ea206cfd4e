//! How messages come and go: lines over a child's pipes or a socket, frames over a websocket, or channels.
//!
//! A link is a source of whole messages and a sink for them. It knows nothing of what they say.

mod child;
mod open;
mod stream;
mod websocket;

use std::collections::VecDeque;

use bytes::Bytes;
use codicil_protocol::SplitLine;
use tokio::sync::mpsc;

use self::{child::ServerChild, stream::LineReader, websocket::SocketReader};
use crate::error::DisconnectCause;

pub use self::open::open;

/// Both directions of an open connection.
pub struct TransportLink {
    pub source: MessageSource,
    pub sink: MessageSink,
}

/// Where messages come from.
pub enum MessageSource {
    /// Owns the process: it ends when this is dropped.
    Child(Box<ServerChild>),
    Lines(LineReader),
    WebSocket(SocketReader),
    Channel {
        receiver: mpsc::Receiver<Bytes>,
        ready: Option<Bytes>,
    },
}

impl MessageSource {
    /// Waits until [`take`](Self::take) has something, or says why it never will. Safe to drop while waiting.
    pub async fn fill(&mut self) -> Result<(), DisconnectCause> {
        match self {
            Self::Child(child) => child.fill().await,
            Self::Lines(reader) => reader.fill().await,
            Self::WebSocket(reader) => reader.fill().await,
            Self::Channel { receiver, ready } => {
                *ready = receiver.recv().await;
                ready.as_ref().map(|_| ()).ok_or_else(|| DisconnectCause::Disconnected(String::new()))
            }
        }
    }

    /// The next message that is here already.
    pub fn take(&mut self) -> Option<Bytes> {
        match self {
            Self::Child(child) => child.take(),
            Self::Lines(reader) => reader.take(),
            Self::WebSocket(reader) => reader.take(),
            Self::Channel { ready, .. } => ready.take(),
        }
    }

    /// What a child wrote to standard error last.
    pub fn stderr_tail(&self) -> String {
        match self {
            Self::Child(child) => child.stderr_tail(),
            _ => String::new(),
        }
    }
}

/// Where messages go.
pub enum MessageSink {
    Child { stdin: codicil_exec::ProcessInput, buffer: Vec<u8> },
    Lines(stream::LineWriter),
    WebSocket(websocket::SocketWriter),
    Channel(mpsc::Sender<Bytes>),
}

impl MessageSink {
    /// Writes messages, waiting while the server does not read.
    pub async fn send(&mut self, batch: &mut Vec<Bytes>) -> Result<(), String> {
        match self {
            Self::Child { stdin, buffer } => {
                gather(batch, buffer);
                stdin.write(buffer).await.map_err(|error| error.to_string())
            }
            Self::Lines(writer) => writer.send(batch).await.map_err(|error| error.to_string()),
            Self::WebSocket(writer) => writer.send(batch).await,
            Self::Channel(sender) => {
                for message in batch.drain(..) {
                    sender.send(message).await.map_err(|_| "the server is gone".to_owned())?;
                }
                Ok(())
            }
        }
    }

    /// Says that nothing more comes.
    pub async fn close(self) {
        match self {
            // Dropping closes the pipe or channel.
            Self::Child { .. } | Self::Channel(_) => {}
            Self::Lines(writer) => writer.close().await,
            Self::WebSocket(writer) => writer.close().await,
        }
    }
}

/// Queues a line as a message. Blank lines are ignored and lines over the ceiling skipped.
fn push_line(line: SplitLine, ready: &mut VecDeque<Bytes>) {
    match line {
        SplitLine::Whole(line) if line.trim_ascii().is_empty() => {}
        SplitLine::Whole(line) => ready.push_back(line),
        SplitLine::TooLong { max_line_bytes, .. } => {
            tracing::warn!("skipped a line of more than {max_line_bytes} bytes");
        }
    }
}

/// More of a buffer than this is given back after a large message.
const KEEP: usize = 1 << 20;

/// Makes lines of messages, in one buffer for one write.
fn gather(batch: &mut Vec<Bytes>, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEEP);
    for message in batch.drain(..) {
        buffer.extend_from_slice(&message);
        buffer.push(b'\n');
    }
}
