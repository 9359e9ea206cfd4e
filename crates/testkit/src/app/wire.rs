//! One connection as a pair of channels, whatever carries it.

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

/// Messages that may wait in each direction. A test that does not read thus becomes a slow reader.
const DEPTH: usize = 64;

pub(super) struct TestWire {
    to_server: Option<mpsc::Sender<Bytes>>,
    from_server: mpsc::Receiver<Bytes>,
    /// Aborted when the wire is dropped.
    pumps: JoinSet<()>,
}

impl TestWire {
    pub fn in_memory(server: &Server) -> Self {
        let (to_server, from_server) = connect(server).split();
        Self { to_server: Some(to_server), from_server, pumps: JoinSet::new() }
    }

    /// One message a line.
    pub fn lines(
        mut output: impl AsyncWrite + Unpin + Send + 'static,
        input: impl AsyncRead + Unpin + Send + 'static,
    ) -> Self {
        let (mut wire, mut outgoing, incoming) = Self::pumped();
        wire.pumps.spawn(async move {
            while let Some(message) = outgoing.recv().await {
                let line = [&message[..], b"\n"].concat();
                // The server is gone; whoever waits for an answer will notice.
                let Ok(()) = output.write_all(&line).await else { return };
            }
        });
        wire.pumps.spawn(async move {
            let mut lines = BufReader::new(input).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                let Ok(()) = incoming.send(line.into()).await else { return };
            }
        });
        wire
    }

    /// One message a frame.
    pub async fn websocket(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        let (socket, _) = client_async(format!("ws://{address}/"), stream).await.expect("a websocket");
        let (mut sink, mut messages) = socket.split();
        let (mut wire, mut outgoing, incoming) = Self::pumped();
        wire.pumps.spawn(async move {
            while let Some(message) = outgoing.recv().await {
                let message = match Utf8Bytes::try_from(message.clone()) {
                    Ok(text) => Message::Text(text),
                    Err(_) => Message::Binary(message),
                };
                let Ok(()) = sink.send(message).await else { return };
            }
            let _ = sink.close().await;
        });
        wire.pumps.spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                let Message::Text(text) = message else { continue };
                let Ok(()) = incoming.send(text.into()).await else { return };
            }
        });
        wire
    }

    /// False when the server has ended the connection.
    pub async fn send(&self, message: Bytes) -> bool {
        match &self.to_server {
            Some(to_server) => to_server.send(message).await.is_ok(),
            None => false,
        }
    }

    /// `None` when the connection is over.
    pub async fn receive(&mut self) -> Option<Bytes> {
        self.from_server.recv().await
    }

    /// Both ends at once, for those who send and receive at the same time.
    pub fn ends(&mut self) -> (&mpsc::Sender<Bytes>, &mut mpsc::Receiver<Bytes>) {
        (self.to_server.as_ref().expect("the connection is open"), &mut self.from_server)
    }

    /// What has arrived and was not asked for.
    pub fn try_receive(&mut self) -> Option<Bytes> {
        self.from_server.try_recv().ok()
    }

    /// Says goodbye: the server sees the end of its input.
    pub fn disconnect(&mut self) {
        self.to_server = None;
    }

    /// A wire whose other end is in the hands of the caller.
    pub fn pumped() -> (Self, mpsc::Receiver<Bytes>, mpsc::Sender<Bytes>) {
        let (to_server, outgoing) = mpsc::channel(DEPTH);
        let (incoming, from_server) = mpsc::channel(DEPTH);
        (Self { to_server: Some(to_server), from_server, pumps: JoinSet::new() }, outgoing, incoming)
    }
}
