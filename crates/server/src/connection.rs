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
use futures_util::{FutureExt, Stream, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::timeout;

use crate::{
    clients::ConnectedClient,
    cx::Cx,
    error::{ErrorPlace, RpcError},
    inbound::max_message_bytes,
    limits::{FLUSH_TIME, MAX_IN_FLIGHT},
    outbox::OutboxClosed,
    relay::{ClientRelay, RelayRequest, RequestParts},
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
    let relay = ClientRelay::new(&shared, &client);
    let _ending = relay.clone().map(EndOnDrop);
    let mut connection = Connection { shared, client, relay, in_flight: FuturesUnordered::new() };
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

/// Ends the connections to other nodes with the connection of the client.
struct EndOnDrop(Arc<ClientRelay>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Connection {
    shared: Arc<ServerShared>,
    client: Arc<ConnectedClient>,
    /// Requests that other nodes serve; `None` if there are no others.
    relay: Option<Arc<ClientRelay>>,
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
                self.request(&RequestParts { id: &id, method: &method, params, extension: codicil, trace });
            }
            Ok(Message::Response { id, result }) => self.answer(&id, Ok(result.to_owned())),
            Ok(Message::Error { id, error }) => self.answer(&id, Err(error)),
            Ok(Message::Notification { method, .. }) => tracing::trace!(method, "notification"),
            Err(_) if text.trim().is_empty() => {}
            Err(malformed) => tracing::warn!(bytes = text.len(), "skipped a message: {malformed}"),
        }
    }

    fn request(&mut self, parts: &RequestParts<'_>) {
        let RequestParts { id, method, params, extension, trace } = *parts;
        if let Some(reason) = self.overload() {
            METRICS.overload_refusals.inc(reason);
            self.client.outbox.push(&Frame::error(id, RpcError::overloaded().object()));
            return;
        }
        let mut cx = Cx::new(self.client.clone(), self.shared.clone());
        match request_key(&cx, method, params, extension) {
            Ok(key) => cx.set_key(key),
            Err(error) => {
                return self.client.outbox.push(&Frame::error(id, RpcError::from(error).object()));
            }
        }
        if let Some(relay) = &self.relay
            && let Some(request) = relay.read(parts, cx.key().is_some())
        {
            return self.request_of_thread(relay.clone(), request, cx);
        }
        cx.set_trace(TracePosition::of_request(trace));
        match self.shared.router.call(cx, id.clone(), method, params) {
            PendingResponse::Ready(response) => response.send(&self.client),
            PendingResponse::Pending(work) => self.in_flight.push(work),
        }
    }

    /// Serves a request about a thread that another node may own.
    fn request_of_thread(&mut self, relay: Arc<ClientRelay>, request: Arc<RelayRequest>, mut cx: Cx) {
        if let Some(posted) = relay.post(&request) {
            return self.in_flight.push(relay.follow(request, Some(posted), None).boxed());
        }
        cx.set_trace(request.trace_position());
        match self.shared.router.call(cx, request.id.clone(), &request.method, Some(&request.params)) {
            PendingResponse::Ready(response) if response.place == ErrorPlace::Here => {
                response.send(&self.client);
            }
            pending => self.in_flight.push(relay.serve(request, pending).boxed()),
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
        let answer = match &self.relay {
            Some(relay) => relay.answer(id, answer),
            None => Err(answer),
        };
        if let Err(answer) = answer {
            self.shared.clients.answer(self.client.id, id, answer);
        }
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
