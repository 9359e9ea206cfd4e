//! A client in the same process, connected by channels.

use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;

use crate::{connection, server::Server};

/// The client's end of a connection. Dropping it disconnects.
#[derive(Debug)]
pub struct MemoryConnection {
    to_server: mpsc::Sender<Bytes>,
    from_server: mpsc::Receiver<Bytes>,
}

impl MemoryConnection {
    /// Sends a message. Returns false if the server has ended the connection.
    pub async fn send(&self, message: impl Into<Bytes>) -> bool {
        self.to_server.send(message.into()).await.is_ok()
    }

    /// Receives the next message. Returns `None` when the connection is over.
    pub async fn receive(&mut self) -> Option<Bytes> {
        self.from_server.recv().await
    }

    /// Splits the connection for a reader and a writer in different tasks.
    pub fn split(self) -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
        (self.to_server, self.from_server)
    }
}

/// Connects to a server in this process.
pub fn connect(server: &Server) -> MemoryConnection {
    let (to_server, incoming) = mpsc::channel(64);
    let (outgoing, from_server) = mpsc::channel(64);
    let client = server.shared.clients.connect();
    let shared = server.shared.clone();
    server.tasks.spawn({
        let client = client.clone();
        async move {
            let messages = stream::unfold(incoming, |mut incoming| async move {
                incoming.recv().await.map(|message| (message, incoming))
            });
            connection::serve(shared, client, Box::pin(messages)).await;
        }
    });
    server.tasks.spawn(async move {
        while let Some(batch) = client.outbox.take().await {
            for message in batch {
                if outgoing.send(message).await.is_err() {
                    client.outbox.finish();
                    return;
                }
            }
        }
    });
    MemoryConnection { to_server, from_server }
}
