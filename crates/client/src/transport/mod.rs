//! Transports: lines over a child's pipes or a socket, websocket frames, or channels.
//!
//! A [`TransportLink`] is a source of whole messages and a sink for them. It does not interpret them.

mod child;
mod stream;
mod websocket;

pub use websocket::{ByteStream, SocketStream, open_socket};

use std::collections::VecDeque;

use bytes::Bytes;
use codicil_protocol::SplitLine;
use tokio::{net::UnixStream, sync::mpsc};

use self::{child::ServerChild, stream::LineReader, websocket::SocketReader};
use crate::{
    endpoint::{Endpoint, EndpointKind, OpenEnds, ServerAddress, redact_url},
    error::{ClientError, DisconnectCause},
    options::ClientLimits,
};

/// Opens a link to an endpoint.
pub async fn open(endpoint: Endpoint, limits: &ClientLimits) -> Result<TransportLink, ClientError> {
    match endpoint.0 {
        EndpointKind::Address(address) => open_address(address, limits).await,
        EndpointKind::Open(OpenEnds::Lines { reader, writer }) => Ok(stream::link(reader, writer, limits)),
        EndpointKind::Open(OpenEnds::Channels { to_server, from_server }) => {
            Ok(channel_link(to_server, from_server))
        }
    }
}

fn channel_link(to_server: mpsc::Sender<Bytes>, from_server: mpsc::Receiver<Bytes>) -> TransportLink {
    TransportLink {
        source: MessageSource::Channel { receiver: from_server, ready: None },
        sink: MessageSink::Channel(to_server),
    }
}

async fn open_address(address: ServerAddress, limits: &ClientLimits) -> Result<TransportLink, ClientError> {
    match address {
        ServerAddress::Launch(launch) => {
            let failed = |error: codicil_exec::SpawnError| connect_error(launch.program(), error);
            child::spawn(&launch, limits).await.map_err(failed)
        }
        ServerAddress::WebSocket(socket) => {
            let failed = |reason: String| connect_error(redact_url(&socket.url), reason);
            websocket::connect(&socket, limits).await.map_err(failed)
        }
        ServerAddress::Unix(socket) => {
            let failed = |error: std::io::Error| connect_error(socket.0.display().to_string(), error);
            let (reader, writer) = UnixStream::connect(&socket.0).await.map_err(failed)?.into_split();
            Ok(stream::link(Box::new(reader), Box::new(writer), limits))
        }
        ServerAddress::InProcess(server) => {
            let (to_server, from_server) = server.connect();
            Ok(channel_link(to_server, from_server))
        }
    }
}

fn connect_error(to: String, reason: impl ToString) -> ClientError {
    ClientError::Connect { to, reason: reason.to_string() }
}

/// Both directions of an open connection.
pub struct TransportLink {
    pub source: MessageSource,
    pub sink: MessageSink,
}

/// Incoming messages.
pub enum MessageSource {
    /// Owns the process, which is killed when this is dropped.
    Child(Box<ServerChild>),
    Lines(LineReader),
    WebSocket(SocketReader),
    Channel {
        receiver: mpsc::Receiver<Bytes>,
        ready: Option<Bytes>,
    },
}

impl MessageSource {
    /// Waits until [`take`](Self::take) has a message, or returns the reason why there will be none. Cancel safe.
    pub async fn fill(&mut self) -> Result<(), DisconnectCause> {
        match self {
            Self::Child(child) => child.fill().await,
            Self::Lines(reader) => reader.fill().await,
            Self::WebSocket(reader) => reader.fill().await,
            Self::Channel { receiver, ready } => {
                *ready = receiver.recv().await;
                ready.as_ref().map(|_| ()).ok_or_else(|| DisconnectCause::ClosedByServer(String::new()))
            }
        }
    }

    /// Returns the next message that has already arrived.
    pub fn take(&mut self) -> Option<Bytes> {
        match self {
            Self::Child(child) => child.take(),
            Self::Lines(reader) => reader.take(),
            Self::WebSocket(reader) => reader.take(),
            Self::Channel { ready, .. } => ready.take(),
        }
    }

    /// Returns the end of a child's standard error.
    pub fn stderr_tail(&self) -> String {
        match self {
            Self::Child(child) => child.stderr_tail(),
            _ => String::new(),
        }
    }
}

/// Outgoing messages.
pub enum MessageSink {
    Child { stdin: codicil_exec::ProcessInput, buffer: Vec<u8> },
    Lines(stream::LineWriter),
    WebSocket(websocket::SocketWriter),
    Channel(mpsc::Sender<Bytes>),
}

impl MessageSink {
    /// Writes messages. Waits while the server does not read.
    pub async fn send(&mut self, batch: &mut Vec<Bytes>) -> Result<(), String> {
        match self {
            Self::Child { stdin, buffer } => {
                join_lines(batch, buffer);
                stdin.write(buffer).await.map_err(|error| error.to_string())
            }
            Self::Lines(writer) => writer.send(batch).await.map_err(|error| error.to_string()),
            Self::WebSocket(writer) => writer.send(batch).await,
            Self::Channel(sender) => {
                for message in batch.drain(..) {
                    sender.send(message).await.map_err(|_| "the server closed the channel".to_owned())?;
                }
                Ok(())
            }
        }
    }

    /// Closes the outgoing direction.
    pub async fn close(self) {
        match self {
            // Dropping them closes the pipe or channel.
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

/// Capacity that is kept of a write buffer after a large message.
const KEPT_CAPACITY: usize = 1 << 20;

/// Joins messages into lines, so that one write sends them all.
fn join_lines(batch: &mut Vec<Bytes>, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_CAPACITY);
    for message in batch.drain(..) {
        buffer.extend_from_slice(&message);
        buffer.push(b'\n');
    }
}
