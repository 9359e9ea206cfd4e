//! Dispatches incoming messages: responses to their calls, notifications to turns and readers, requests to the
//! handler. Subscribes to threads again for a client that reconnects.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use codicil_protocol::{
    CodicilBehind, CodicilBehindNotification, CodicilOpenRequest, CodicilSubscribe, CodicilSubscribeResponse,
    Frame, ItemCompleted, ItemStarted, Method, NOTIFICATIONS, NotificationMethod, ServerNotification,
    ServerRequest, ServerRequestResolved, ThreadArchived, ThreadClosed, ThreadDeleted, TurnCompleted,
    rpc::{ErrorObject, Message, RequestId, codes},
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use crate::{
    error::{DisconnectCause, Disconnected},
    events::EventDelivery,
    ids::MessageIds,
    missing_fields,
    open_edits::OpenEdits,
    pending::CallFailure,
    resilient::{ThreadPlace, seq_of},
    responder::{IncomingRequest, RequestResponder, RequestSlot},
    shared::ClientShared,
};

/// Characters of an invalid line that are logged.
const LOGGED_CHARS: usize = 200;

/// Dispatches the messages of one connection. Owns the tasks that answer server requests.
pub struct MessageReceiver {
    shared: Arc<ClientShared>,
    responder: RequestResponder,
    requests: HashMap<RequestId, OpenRequest>,
    answering: JoinSet<()>,
    edits: OpenEdits,
    /// The threads of subscriptions without an answer yet.
    subscribing: HashMap<RequestId, Arc<str>>,
    next_subscription: u64,
}

/// A server request that is being answered, or whose answer the server may not have received.
struct OpenRequest {
    slot: Arc<RequestSlot>,
    method: String,
    params: Value,
    task: AbortHandle,
    /// Whether the current connection has asked it.
    is_current: bool,
}

impl MessageReceiver {
    pub fn new(shared: Arc<ClientShared>, responder: RequestResponder) -> Self {
        Self {
            shared,
            responder,
            requests: HashMap::new(),
            answering: JoinSet::new(),
            edits: OpenEdits::default(),
            subscribing: HashMap::new(),
            next_subscription: 0,
        }
    }

    pub fn shared(&self) -> &Arc<ClientShared> {
        &self.shared
    }

    /// Processes one message. Never waits and never fails: an invalid message is logged and skipped.
    pub fn receive(&mut self, message: &Bytes) {
        let Ok(text) = std::str::from_utf8(message) else {
            return tracing::warn!(bytes = message.len(), "skipped a line that is not UTF-8");
        };
        match Message::parse(text) {
            Ok(Message::Response { id, result }) => match self.subscribing.remove(&id) {
                Some(thread) => self.handle_subscribed(&thread, result),
                None => {
                    self.follow_opened(result, text.ends_with(REPLAYED));
                    self.resolve_call(&id, Ok(message.slice_ref(result.get().as_bytes())));
                }
            },
            Ok(Message::Error { id, error }) => match self.subscribing.remove(&id) {
                Some(thread) => self.lose_thread(&thread, &error.message),
                None => self.resolve_call(&id, Err(CallFailure::Error(error))),
            },
            Ok(Message::Notification { method, params }) => {
                let seq = self.shared.resilience().and_then(|_| seq_of(text));
                self.handle_notification(&method, params, message.len(), seq)
            }
            Ok(Message::Request { id, method, params, .. }) => {
                let ids = MessageIds::of(params);
                let seq = self.shared.resilience().and_then(|_| seq_of(text));
                self.advance(ids.thread.as_deref(), seq);
                self.handle_request(id, &method, params)
            }
            Err(error) => self.handle_invalid(text, &error.to_string()),
        }
    }

    fn resolve_call(&self, id: &RequestId, answer: Result<Bytes, CallFailure>) {
        if !self.shared.pending.resolve(id, answer) {
            tracing::debug!(%id, "ignored a response without a pending call");
        }
    }

    fn handle_notification(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        size: usize,
        seq: Option<u64>,
    ) {
        if method == CodicilBehind::NAME && self.shared.resilience().is_some() {
            return self.handle_behind(params);
        }
        let ids = MessageIds::of(params);
        let thread = ids.thread.as_deref();
        let place = self.advance(thread, seq);
        self.shared.naming.record(method, thread);
        if method == ServerRequestResolved::NAME {
            self.cancel_request(params);
        }
        let has_reader = self.shared.readers.has_reader(thread);
        let has_route = self.shared.routes.has_route(&ids);
        let has_edits = has_edits(method, params);
        if method == TurnCompleted::NAME {
            self.edits.end_turn(thread.unwrap_or_default());
        }
        if matches!(method, ThreadClosed::NAME | ThreadArchived::NAME | ThreadDeleted::NAME) {
            self.forget_thread(thread);
        }
        if !has_reader && !has_route && !has_edits {
            return;
        }
        let event = Arc::new(self.decode(method, params));
        if has_edits {
            self.edits.record(&event, size, self.shared.limits.event_bytes);
        }
        let delivery = EventDelivery { event: &event, size, place };
        if has_route {
            self.shared.routes.deliver(&ids, delivery);
        }
        if has_reader {
            self.shared.readers.push(thread, delivery);
        }
    }

    /// Notes the position of a message. Returns its place, if it has one.
    fn advance<'a>(&self, thread: Option<&'a str>, seq: Option<u64>) -> Option<ThreadPlace<'a>> {
        let place = ThreadPlace { thread: thread?, seq: seq? };
        if let Some(resilience) = self.shared.resilience() {
            resilience.advance(place);
        }
        Some(place)
    }

    fn forget_thread(&self, thread: Option<&str>) {
        if let (Some(resilience), Some(thread)) = (self.shared.resilience(), thread) {
            resilience.forget(thread);
        }
    }

    /// Follows a thread that a call has opened. What has happened since a replayed response was made is asked for.
    fn follow_opened(&self, result: &RawValue, is_replayed: bool) {
        if let Some(resilience) = self.shared.resilience()
            && let Ok(OpenedThread { thread, seq }) = serde_json::from_str(result.get())
        {
            let place = ThreadPlace { thread: &thread.id, seq };
            resilience.advance(place);
            if is_replayed {
                resilience.subscribe_again(place);
            }
        }
    }

    /// The server has dropped messages of a thread that this client reads too slowly.
    fn handle_behind(&mut self, params: Option<&RawValue>) {
        let behind = params.and_then(|params| serde_json::from_str(params.get()).ok());
        if let (Some(behind), Some(resilience)) = (behind, self.shared.resilience()) {
            let CodicilBehindNotification { thread_id, after } = behind;
            resilience.subscribe_again(ThreadPlace { thread: &thread_id, seq: after.value() });
        }
    }

    /// Subscribes to the threads that readers have fallen behind on.
    pub fn subscribe_again(&mut self) {
        let wanted = self.shared.resilience().map(|resilience| resilience.take_wanted());
        for (thread, after) in wanted.into_iter().flatten() {
            let message = self.subscribe(&thread, after);
            if let Some(outgoing) = self.responder.outgoing.upgrade() {
                // Ends when the queue has room or the connection ends.
                self.answering.spawn(async move { drop(outgoing.send(message).await) });
            }
        }
    }

    /// Returns the request that subscribes to a thread after a position.
    pub fn subscribe(&mut self, thread: &Arc<str>, after: u64) -> Bytes {
        let id = RequestId::String(format!("subscribe-{}", self.next_subscription));
        self.next_subscription += 1;
        self.subscribing.insert(id.clone(), thread.clone());
        let params = json!({ "threadId": thread, "after": after });
        json!({ "id": id, "method": CodicilSubscribe::NAME, "params": params }).to_string().into()
    }

    /// Returns whether a subscription has no answer yet.
    pub fn is_subscribing(&self) -> bool {
        !self.subscribing.is_empty()
    }

    fn handle_subscribed(&mut self, thread: &Arc<str>, result: &RawValue) {
        match serde_json::from_str(result.get()) {
            Ok(CodicilSubscribeResponse::Replay { from, requests, .. }) => {
                let from = from.value();
                self.shared.readers.resume(thread, from);
                self.shared.routes.resume(thread, from);
                self.handle_open_requests(requests);
            }
            Ok(CodicilSubscribeResponse::Snapshot { at, thread, requests, .. }) => {
                let at = at.value();
                self.advance(Some(&thread.id), Some(at));
                let thread = Arc::from(thread);
                self.shared.readers.replace(&thread, at);
                self.shared.routes.replace(&thread, at);
                self.handle_open_requests(requests);
            }
            Err(error) => self.lose_thread(thread, &error.to_string()),
        }
    }

    fn handle_open_requests(&mut self, requests: Vec<CodicilOpenRequest>) {
        for CodicilOpenRequest { id, method, params, .. } in requests {
            let params = to_raw_value(&params).ok();
            self.handle_request(id, &method, params.as_deref());
        }
    }

    /// Ends the turns of a thread that the server does not know any more.
    fn lose_thread(&self, thread: &str, reason: &str) {
        tracing::warn!(thread, "cannot follow the thread any more: {reason}");
        self.forget_thread(Some(thread));
        let cause = DisconnectCause::Failed(format!("thread {thread} cannot be followed: {reason}"));
        let reason = Arc::new(Disconnected { cause, stderr_tail: String::new() });
        self.shared.routes.lose_thread(thread, &reason);
    }

    /// Prepares for the messages of another connection.
    pub fn begin_recovery(&mut self) {
        self.subscribing.clear();
        self.requests.values_mut().for_each(|request| request.is_current = false);
    }

    /// Drops the server requests that the new connection has not asked. Returns the answers that it needs.
    pub fn end_recovery(&mut self) -> Vec<Bytes> {
        for (_, gone) in self.requests.extract_if(|_, request| !request.is_current) {
            gone.task.abort();
        }
        if let Some(resilience) = self.shared.resilience() {
            *resilience.is_recovering.write() = false;
        }
        self.requests.values().filter_map(|request| request.slot.message()).collect()
    }

    fn decode(&self, method: &str, params: Option<&RawValue>) -> ServerNotification {
        let event = ServerNotification::decode(method, params);
        let is_listed = || NOTIFICATIONS.iter().any(|known| known.name == method);
        match event {
            ServerNotification::Unknown(unknown) if is_listed() => {
                missing_fields::notification(method, params, self.shared.routes.only_turn())
                    .unwrap_or(ServerNotification::Unknown(unknown))
            }
            event => event,
        }
    }

    fn handle_request(&mut self, id: RequestId, method: &str, params: Option<&RawValue>) {
        while self.answering.try_join_next().is_some() {}
        let value = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        if self.continue_request(&id, method, &value) {
            return;
        }
        // A client that reconnects keeps its answers until the server confirms them.
        let is_kept =
            self.shared.resilience().is_some() && self.requests.len() < self.shared.limits.server_requests;
        self.requests.retain(|_, request| is_kept || !request.task.is_finished());
        if self.requests.len() >= self.shared.limits.server_requests {
            tracing::warn!(method, "refused a server request: too many are being answered");
            let message = "too many requests at once".to_owned();
            return self.responder.refuse(&id, ErrorObject { code: codes::OVERLOADED, message, data: None });
        }
        let request = match ServerRequest::decode(method, params) {
            ServerRequest::Unknown(unknown) => {
                missing_fields::request(method, params, self.shared.routes.only_turn())
                    .unwrap_or(ServerRequest::Unknown(unknown))
            }
            request => request,
        };
        let slot = RequestSlot::new(id.clone());
        let incoming = IncomingRequest::new(slot.clone(), method, params, request, &self.edits);
        let task = self.answering.spawn(self.responder.clone().answer(incoming));
        let method = method.to_owned();
        self.requests.insert(id, OpenRequest { slot, method, params: value, task, is_current: true });
    }

    /// Continues a request that the last connection has asked too, under its new id. Returns whether there is one.
    fn continue_request(&mut self, id: &RequestId, method: &str, params: &Value) -> bool {
        let is_same = |request: &OpenRequest| request.method == method && request.params == *params;
        let known = self.requests.iter().find(|(_, request)| is_same(request)).map(|(id, _)| id.clone());
        let known = known.filter(|_| self.shared.resilience().is_some());
        let Some(mut request) = known.and_then(|known| self.requests.remove(&known)) else { return false };
        id.clone_into(&mut request.slot.id.lock());
        request.is_current = true;
        self.requests.insert(id.clone(), request);
        true
    }

    /// Cancels a request that was answered by another client or is no longer valid.
    fn cancel_request(&mut self, params: Option<&RawValue>) {
        let params = params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        let id = params.and_then(|mut params| params.get_mut("requestId").map(Value::take));
        let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        if let Some(request) = id.and_then(|id| self.requests.remove(&id)) {
            request.task.abort();
        }
    }

    /// Handles a line that is not a valid message. An error response without a code still resolves its call.
    fn handle_invalid(&self, text: &str, reason: &str) {
        let value: Option<Value> = serde_json::from_str(text).ok();
        if let Some(value) = value
            && let Some(id) = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok())
            && let Some(error) = value.get("error").filter(|error| !error.is_null())
        {
            let message = error.get("message").and_then(Value::as_str);
            let message = message.map_or_else(|| error.to_string(), str::to_owned);
            let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
            let data = error.get("data").cloned();
            return self.resolve_call(&id, Err(CallFailure::Error(ErrorObject { code, message, data })));
        }
        tracing::warn!(bytes = text.len(), "skipped a line that is not a message: {reason}");
        tracing::debug!("the line begins with: {}", text.chars().take(LOGGED_CHARS).collect::<String>());
    }
}

/// The end of a response that was made for an earlier request with the same key.
const REPLAYED: &str = r#""codicil":{"replayed":true}}"#;

/// The result of a call that opens a thread.
#[derive(Deserialize)]
struct OpenedThread {
    thread: OpenedThreadId,
    seq: u64,
}

#[derive(Deserialize)]
struct OpenedThreadId {
    id: String,
}

/// Returns whether a notification is the start or the end of an item with edits.
fn has_edits(method: &str, params: Option<&RawValue>) -> bool {
    // The text is searched first, so that other items are not decoded if no reader wants them.
    matches!(method, ItemStarted::NAME | ItemCompleted::NAME)
        && params.is_some_and(|params| params.get().contains("\"fileChange\""))
}

/// Sends a request and ignores its response. The request is dropped if the outgoing queue is full.
pub fn send_and_forget<M: Method>(shared: &ClientShared, outgoing: &mpsc::Sender<Bytes>, params: &M::Params) {
    let call = shared.pending.open();
    let message = Frame::request::<M>(&call.id(), params).bytes().clone();
    if outgoing.try_send(message).is_err() {
        tracing::debug!(method = M::NAME, "request not sent: the queue is full or the connection closed");
    }
}
