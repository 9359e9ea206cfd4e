//! A connection as a pair of channels, for every transport.

use bytes::Bytes;
use codicil_server::{Server, connect};
use futures_util::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
};
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, Utf8Bytes},
};

/// Number of messages that may wait in each direction. A test that does not read is a slow reader.
const DEPTH: usize = 64;

pub(super) struct TestWire {
    to_server: Option<mpsc::Sender<Bytes>>,
    from_server: mpsc::Receiver<Bytes>,
    /// Tasks that move messages; aborted when the wire is dropped.
    tasks: JoinSet<()>,
}

impl TestWire {
    pub fn in_memory(server: &Server) -> Self {
        let (to_server, from_server) = connect(server).split();
        Self { to_server: Some(to_server), from_server, tasks: JoinSet::new() }
    }

    /// Connects to streams that hold one message per line.
    pub fn lines(
        mut output: impl AsyncWrite + Unpin + Send + 'static,
        input: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let (mut wire, mut outgoing, incoming) = Self::with_channels();
        wire.tasks.spawn(async move {
            while let Some(message) = outgoing.recv().await {
                let line = [&message[..], b"\n"].concat();
                // The server has exited. Callers notice that they get no answer.
                let Ok(()) = output.write_all(&line).await else { return };
            }
        });
        wire.tasks.spawn(async move {
            let mut lines = BufReader::new(input).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                let Ok(()) = incoming.send(line.into()).await else { return };
            }
        });
        wire
    }

    /// Connects to a WebSocket, with one message per frame.
    pub async fn websocket(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let (socket, _) = client_async(format!("ws://{address}/"), stream).await.expect("a websocket");
        let (mut sink, mut messages) = socket.split();
        let (mut wire, mut outgoing, incoming) = Self::with_channels();
        wire.tasks.spawn(async move {
            while let Some(message) = outgoing.recv().await {
                let message = match Utf8Bytes::try_from(message.clone()) {
                    Ok(text) => Message::Text(text),
                    Err(_) => Message::Binary(message),
                };
                let Ok(()) = sink.send(message).await else { return };
            }
            let _ = sink.close().await;
        });
        wire.tasks.spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                let Message::Text(text) = message else { continue };
                let Ok(()) = incoming.send(text.into()).await else { return };
            }
        });
        wire
    }

    /// Sends a message. Returns false if the server has closed the connection.
    pub async fn send(&self, message: Bytes) -> bool {
        match &self.to_server {
            Some(to_server) => to_server.send(message).await.is_ok(),
            None => false,
        }
    }

    /// Receives a message; `None` if the connection is closed.
    pub async fn receive(&mut self) -> Option<Bytes> {
        self.from_server.recv().await
    }

    /// Returns both ends, to send and receive at the same time.
    pub fn ends(&mut self) -> (&mpsc::Sender<Bytes>, &mut mpsc::Receiver<Bytes>) {
        (self.to_server.as_ref().expect("the connection is open"), &mut self.from_server)
    }

    /// Returns a message that has already arrived.
    pub fn try_receive(&mut self) -> Option<Bytes> {
        self.from_server.try_recv().ok()
    }

    /// Closes the sending side; the server sees the end of its input.
    pub fn disconnect(&mut self) {
        self.to_server = None;
    }

    /// Returns a wire and the other ends of its channels.
    pub fn with_channels() -> (Self, mpsc::Receiver<Bytes>, mpsc::Sender<Bytes>) {
        let (to_server, outgoing) = mpsc::channel(DEPTH);
        let (incoming, from_server) = mpsc::channel(DEPTH);
        (Self { to_server: Some(to_server), from_server, tasks: JoinSet::new() }, outgoing, incoming)
    }
}
