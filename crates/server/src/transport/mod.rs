//! The transports: lines over pipes and unix sockets, frames over websockets, or channels within the process.
//!
//! A transport turns its bytes into a stream of whole messages for [`connection::serve`](crate::connection::serve)
//! and writes the messages of the client's outbox. It does not look into messages.

use std::sync::Arc;

use bytes::Bytes;
use codicil_protocol::SplitLine;
use futures_util::Stream;

use crate::{clients::ConnectedClient, connection, limits::FLUSH_TIME, server::Server};

pub mod auth;
pub mod handshakes;
mod http;
pub mod in_memory;
pub mod listen;
mod metered;
pub mod metrics;
pub mod socket_lock;
mod standard_output;
mod stdio;
pub mod unix;
mod websocket;

pub use listen::{ListenAddress, ListenError};

/// Adds a line to a batch of messages. A line over the ceiling is skipped.
fn push_line(line: SplitLine, batch: &mut Vec<Bytes>) {
    match line {
        SplitLine::Whole(line) => batch.push(line),
        SplitLine::TooLong { max_line_bytes, .. } => {
            tracing::warn!("skipped a line of more than {} MiB", max_line_bytes >> 20);
        }
    }
}

/// Serves a client until its messages end, while `write` sends the messages of its outbox.
async fn serve(
    server: &Server,
    client: Arc<ConnectedClient>,
    messages: impl Stream<Item = Bytes> + Unpin,
    write: impl Future<Output = ()> + Send + 'static,
) {
    let writer = server.tasks.spawn(write);
    connection::serve(server.shared.clone(), client, messages).await;
    // The writer ends once the outbox is empty, unless the peer has stopped reading.
    let writer_handle = writer.abort_handle();
    if tokio::time::timeout(FLUSH_TIME, writer).await.is_err() {
        tracing::debug!("a client did not read its last messages in time");
        writer_handle.abort();
    }
}
