//! A proxy between a client and the server that can lose responses and cut the connection.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use super::MAX_WAIT;

const BUFFER: usize = 64 * 1024;

/// A proxy for one connection. Dropping it cuts the connection.
pub struct CutProxy {
    address: String,
    loses_responses: Arc<AtomicBool>,
    /// The number of bytes that have reached the server.
    forwarded: watch::Receiver<usize>,
    /// The directions; aborted when the proxy is dropped.
    _directions: JoinSet<()>,
}

impl CutProxy {
    /// Listens for a client of the server at this address.
    pub(super) async fn start(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let loses_responses = Arc::new(AtomicBool::new(false));
        let (count, forwarded) = watch::channel(0);
        let mut directions = JoinSet::new();
        let loses = loses_responses.clone();
        directions.spawn(async move {
            let (client, _) = listener.accept().await.expect("a client connects");
            let server = TcpStream::connect(server).await.expect("the server listens");
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(
                forward_requests(from_client, to_server, count),
                forward_responses(from_server, to_client, loses),
            );
        });
        Self { address, loses_responses, forwarded, _directions: directions }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Loses everything that the server sends from now on. Returns the number of bytes that have reached the server.
    pub fn lose_responses(&self) -> usize {
        self.loses_responses.store(true, Ordering::SeqCst);
        *self.forwarded.borrow()
    }

    /// Waits until more than this number of bytes has reached the server.
    pub async fn forwarded_more_than(&mut self, bytes: usize) {
        let more = self.forwarded.wait_for(|count| *count > bytes);
        timeout(MAX_WAIT, more).await.expect("the client sends something").expect("the proxy goes on");
    }
}

async fn forward_requests(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    forwarded: watch::Sender<usize>,
) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        // Fails if the server has ended.
        let Ok(()) = to.write_all(buffer.get(..count).unwrap_or_default()).await else { return };
        forwarded.send_modify(|bytes| *bytes += count);
    }
}

async fn forward_responses(
    mut from: tcp::OwnedReadHalf,
    mut to: tcp::OwnedWriteHalf,
    loses: Arc<AtomicBool>,
) {
    let mut buffer = vec![0; BUFFER];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if loses.load(Ordering::SeqCst) {
            continue;
        }
        let Ok(()) = to.write_all(buffer.get(..count).unwrap_or_default()).await else { return };
    }
}
