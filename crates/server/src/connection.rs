//! One connection: messages in, in order; answers out, as they come.

use std::sync::Arc;

use bytes::Bytes;
use codicil_protocol::{
    Frame,
    rpc::{Message, RequestId},
};
use futures_util::{Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    clients::ConnectedClient,
    cx::Cx,
    error::RpcError,
    inbound::max_message_bytes,
    limits::{FLUSH_TIME, MAX_IN_FLIGHT},
    outbox::OutboxClosed,
    route::{PendingResponse, QueuedResponse},
    server::ServerShared,
};

/// Serves a client until it goes away, stops reading, or the server ends.
pub async fn serve(
    shared: Arc<ServerShared>,
    client: Arc<ConnectedClient>,
    mut messages: impl Stream<Item = Bytes> + Unpin,
) {
    let mut connection = Connection { shared, client, in_flight: FuturesUnordered::new() };
    let client = connection.client.clone();
    let closed = client.outbox.wait_closed();
    tokio::pin!(closed);
    loop {
        let next = async {
            client.outbox.wait_for_room().await;
            messages.next().await
        };
        tokio::select! {
            biased;
            () = &mut closed => break,
            Some(answer) = connection.in_flight.next(), if !connection.in_flight.is_empty() => {
                answer.send(&client);
            }
            message = next => match message {
                Some(message) => connection.receive(&message),
                None => break,
            },
        }
    }
    // What it holds of a message that is not complete is not needed any more.
    drop(messages);
    connection.end().await;
}

struct Connection {
    shared: Arc<ServerShared>,
    client: Arc<ConnectedClient>,
    in_flight: FuturesUnordered<BoxFuture<'static, QueuedResponse>>,
}

impl Connection {
    fn receive(&mut self, message: &[u8]) {
        let max_bytes = max_message_bytes(&self.client);
        if message.len() > max_bytes {
            tracing::warn!(bytes = message.len(), "skipped a message of more than {} MiB", max_bytes >> 20);
            return;
        }
        let Ok(text) = std::str::from_utf8(message) else {
            tracing::warn!(bytes = message.len(), "skipped a message that is not UTF-8");
            return;
        };
        match Message::parse(text) {
            Ok(Message::Request { id, method, params }) => self.request(id, &method, params),
            Ok(Message::Response { id, result }) => self.answer(&id, Ok(result.to_owned())),
            Ok(Message::Error { id, error }) => self.answer(&id, Err(error)),
            Ok(Message::Notification { method, .. }) => tracing::trace!(method, "notification"),
            Err(_) if text.trim().is_empty() => {}
            Err(malformed) => tracing::warn!(bytes = text.len(), "skipped a message: {malformed}"),
        }
    }

    fn request(&mut self, id: RequestId, method: &str, params: Option<&RawValue>) {
        if self.in_flight.len() >= MAX_IN_FLIGHT || self.client.outbox.is_busy() {
            self.client.outbox.push(&Frame::error(&id, RpcError::overloaded().object()));
            return;
        }
        let cx = Cx::new(self.client.clone(), self.shared.clone());
        match self.shared.router.call(cx, id, method, params) {
            PendingResponse::Ready(answer) => answer.send(&self.client),
            PendingResponse::Pending(work) => self.in_flight.push(work),
        }
    }

    fn answer(&self, id: &RequestId, answer: codicil_engine::ClientReply) {
        self.shared.clients.answer(self.client.id, id, answer);
    }

    /// Lets requests that are nearly done finish, then lets go of everything the client held.
    async fn end(mut self) {
        // These last as long as the connection and no longer, so there is nothing to wait for.
        self.client.commands.end();
        let outbox = &self.client.outbox;
        match outbox.closed() {
            Some(OutboxClosed::TooSlow) => {
                tracing::warn!("disconnected a client that has stopped reading its messages");
            }
            _ => {
                let rest = async {
                    while let Some(answer) = self.in_flight.next().await {
                        answer.send(&self.client);
                    }
                };
                // What takes longer is cancelled when it is dropped.
                let _ = timeout(FLUSH_TIME, rest).await;
            }
        }
        outbox.finish();
        self.client.files.end();
        self.shared.clients.disconnect(self.client.id);
    }
}
