//! A connection: receives messages in order and sends each response as soon as it is ready.

use std::sync::Arc;

use bytes::Bytes;
use codicil_engine::ClientReply;
use codicil_metrics::{METRICS, labels::OverloadReason};
use codicil_protocol::{
    Frame,
    rpc::{Message, RequestId},
};
use codicil_telemetry::TracePosition;
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
    request_keys::request_key,
    route::{PendingResponse, QueuedResponse},
    server::ServerShared,
};

/// Serves a client until it disconnects, stops reading, or the server stops.
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
            Some(response) = connection.in_flight.next(), if !connection.in_flight.is_empty() => {
                response.send(&client);
            }
            message = next => match message {
                Some(message) => connection.receive(&message),
                None => break,
            },
        }
    }
    // Frees the bytes of an incomplete message.
    drop(messages);
    connection.end().await;
}

/// A request without its params.
struct RequestHead<'a> {
    id: RequestId,
    method: &'a str,
    trace: TracePosition,
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
            Ok(Message::Request { id, method, params, codicil, trace }) => {
                let trace = TracePosition::of_request(trace);
                self.request(RequestHead { id, method: &method, trace }, params, codicil)
            }
            Ok(Message::Response { id, result }) => self.answer(&id, Ok(result.to_owned())),
            Ok(Message::Error { id, error }) => self.answer(&id, Err(error)),
            Ok(Message::Notification { method, .. }) => tracing::trace!(method, "notification"),
            Err(_) if text.trim().is_empty() => {}
            Err(malformed) => tracing::warn!(bytes = text.len(), "skipped a message: {malformed}"),
        }
    }

    fn request(&mut self, head: RequestHead<'_>, params: Option<&RawValue>, extension: Option<&RawValue>) {
        let RequestHead { id, method, trace } = head;
        if let Some(reason) = self.overload() {
            METRICS.overload_refusals.inc(reason);
            self.client.outbox.push(&Frame::error(&id, RpcError::overloaded().object()));
            return;
        }
        let mut cx = Cx::new(self.client.clone(), self.shared.clone());
        match request_key(&cx, method, params, extension) {
            Ok(key) => cx.set_key(key),
            Err(error) => {
                return self.client.outbox.push(&Frame::error(&id, RpcError::from(error).object()));
            }
        }
        cx.set_trace(trace);
        match self.shared.router.call(cx, id, method, params) {
            PendingResponse::Ready(response) => response.send(&self.client),
            PendingResponse::Pending(work) => self.in_flight.push(work),
        }
    }

    /// Returns why this client's next request is refused, if it is.
    fn overload(&self) -> Option<OverloadReason> {
        if self.in_flight.len() >= MAX_IN_FLIGHT {
            return Some(OverloadReason::OpenRequests);
        }
        self.client.outbox.is_busy().then_some(OverloadReason::UnreadMessages)
    }

    fn answer(&self, id: &RequestId, answer: ClientReply) {
        self.shared.clients.answer(self.client.id, id, answer);
    }

    /// Gives open requests a moment to finish, then releases everything that the client holds.
    async fn end(mut self) {
        // Kills the client's commands, so that their requests do not have to be waited for.
        self.client.commands.end();
        self.client.processes.end();
        if self.client.outbox.closed() == Some(OutboxClosed::TooSlow) {
            METRICS.slow_clients.inc();
            tracing::warn!("disconnected a client that has stopped reading its messages");
        } else {
            let remaining = async {
                while let Some(response) = self.in_flight.next().await {
                    response.send(&self.client);
                }
            };
            // Requests that take longer are cancelled when they are dropped.
            let _ = timeout(FLUSH_TIME, remaining).await;
        }
        self.client.outbox.finish();
        self.client.files.end();
        self.shared.clients.disconnect(self.client.id);
    }
}
