//! Dispatches incoming messages: responses to their calls, notifications to turns and readers, requests to the
//! handler. Subscribes to threads again for a client that reconnects.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use codicil_protocol::{
    CodicilBehind, CodicilBehindNotification, CodicilOpenRequest, CodicilSubscribe, CodicilSubscribeResponse,
    ItemCompleted, ItemStarted, Method, NOTIFICATIONS, NotificationMethod, ServerNotification, ServerRequest,
    ServerRequestResolved, SubagentPosition, ThreadArchived, ThreadClosed, ThreadDeleted, TurnCompleted,
    rpc::{ErrorObject, Message, RequestId, codes},
};
use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use crate::{
    connection_state::ConnectionState,
    events::EventDelivery,
    ids::MessageIds,
    missing_fields,
    open_requests::OpenRequest,
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
    connection: Arc<ConnectionState>,
    responder: RequestResponder,
    /// The threads of subscriptions without an answer yet.
    subscribing: HashMap<RequestId, Arc<str>>,
    next_subscription: u64,
    /// The threads whose messages are dropped until a subscription is answered, because its replay has them. Messages arrive
    /// before the answer if the subscription to another thread includes the thread.
    awaited: HashSet<Arc<str>>,
}

impl MessageReceiver {
    pub fn new(
        shared: Arc<ClientShared>,
        connection: Arc<ConnectionState>,
        responder: RequestResponder,
    ) -> Self {
        Self {
            shared,
            connection,
            responder,
            subscribing: HashMap::new(),
            next_subscription: 0,
            awaited: HashSet::new(),
        }
    }

    pub fn shared(&self) -> &Arc<ClientShared> {
        &self.shared
    }

    pub fn connection(&self) -> &Arc<ConnectionState> {
        &self.connection
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
                Some(thread) => {
                    self.awaited.remove(&thread);
                    self.shared.handle_refusal(&thread, &error)
                }
                None => self.resolve_call(&id, Err(CallFailure::Error(error))),
            },
            Ok(Message::Notification { method, params }) => {
                let seq = self.shared.resilience().and_then(|_| seq_of(text));
                self.handle_notification(&method, params, message.len(), seq)
            }
            Ok(Message::Request { id, method, params, .. }) => {
                let ids = MessageIds::of(params);
                let seq = self.shared.resilience().and_then(|_| seq_of(text));
                if let Some(place) = ThreadPlace::of(ids.thread.as_deref(), seq) {
                    self.note_place(place);
                }
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
        let place = ThreadPlace::of(thread, seq);
        self.shared.naming.record(method, thread);
        if method == ServerRequestResolved::NAME {
            self.cancel_request(params);
        }
        if place.is_some_and(|place| !self.note_place(place)) {
            return;
        }
        let has_reader = self.shared.readers.has_reader(thread);
        let has_route = self.shared.routes.has_route(&ids);
        let has_edits = has_edits(method, params);
        if method == TurnCompleted::NAME {
            self.shared.edits.lock().end_turn(thread.unwrap_or_default());
        }
        self.note_thread_end(method, thread);
        if !has_reader && !has_route && !has_edits {
            return;
        }
        let event = Arc::new(self.decode(method, params));
        if has_edits {
            self.shared.edits.lock().record(&event, size, self.shared.limits.event_bytes);
        }
        let delivery = EventDelivery { event: &event, size, place };
        if has_route {
            self.shared.routes.deliver(&ids, delivery);
        }
        if has_reader {
            self.shared.readers.push(thread, delivery);
        }
    }

    /// Notes the position of a message. Returns false if the message is dropped, because it will be replayed.
    fn note_place(&mut self, place: ThreadPlace<'_>) -> bool {
        let is_replayed_later = !self.awaited.is_empty() && self.awaits(place.thread);
        if !is_replayed_later {
            self.follow(place);
        }
        !is_replayed_later
    }

    /// Returns whether the answer to a subscription is awaited for a thread. A thread that is not known may be a subagent whose
    /// first messages were missed: it is subscribed to.
    fn awaits(&mut self, thread: &str) -> bool {
        let Some(resilience) = self.shared.resilience().cloned() else { return false };
        if !self.awaited.contains(thread) && resilience.position(thread).is_none() {
            self.follow_missed(thread, resilience.subagents.take_idle(thread));
        }
        self.awaited.contains(thread)
    }

    /// Follows a thread of which messages were missed.
    fn follow_missed(&mut self, thread: &str, after: u64) {
        let place = ThreadPlace { thread, seq: after };
        self.follow(place);
        self.awaited.insert(Arc::from(thread));
        if let Some(resilience) = self.shared.resilience() {
            resilience.subscribe_again(place);
        }
    }

    /// Notes how far a thread was followed, and over which connection.
    fn follow(&self, place: ThreadPlace<'_>) {
        if let Some(resilience) = self.shared.resilience()
            && resilience.advance(place)
        {
            resilience.nodes.note_thread(place.thread, &self.connection);
        }
    }

    /// Returns whether a thread is followed over this connection.
    fn has_thread(&self, thread: &str) -> bool {
        let resilience = self.shared.resilience();
        resilience
            .is_none_or(|resilience| resilience.nodes.connection_of(thread).number == self.connection.number)
    }

    /// Stops following a thread that has ended. One that its server has given up in the middle of a turn goes on elsewhere.
    fn note_thread_end(&mut self, method: &str, thread: Option<&str>) {
        let Some(thread) = thread else { return };
        match method {
            ThreadClosed::NAME if !self.has_thread(thread) => {}
            ThreadClosed::NAME if self.shared.search_closed(thread) => {}
            ThreadClosed::NAME => {
                self.awaited.remove(thread);
                self.shared.end_thread(thread);
            }
            ThreadArchived::NAME | ThreadDeleted::NAME => {
                self.awaited.remove(thread);
                self.shared.forget_thread(thread);
            }
            _ => {}
        }
    }

    /// Follows a thread that a call has opened. What has happened since a replayed response was made is asked for.
    fn follow_opened(&mut self, result: &RawValue, is_replayed: bool) {
        if let Some(resilience) = self.shared.resilience()
            && let Ok(OpenedThread { thread, seq }) = serde_json::from_str(result.get())
        {
            resilience.subagents.note_opened(&thread.id, thread.updated_at);
            if is_replayed {
                self.follow_missed(&thread.id, seq);
            } else {
                self.awaited.remove(&*thread.id);
                self.follow(ThreadPlace { thread: &thread.id, seq });
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
        let wanted = self.shared.resilience().map(|resilience| resilience.take_wanted(&self.connection));
        for (thread, after) in wanted.into_iter().flatten() {
            let message = self.subscribe(&thread, after);
            self.send(message);
        }
    }

    /// Sends a message, once the queue has room.
    fn send(&self, message: Bytes) {
        let connection = self.connection.clone();
        // Fails when the connection has ended.
        self.shared.tasks.spawn(async move { drop(connection.outgoing.send(message).await) });
    }

    /// Returns the request that subscribes to a thread after a position.
    pub fn subscribe(&mut self, thread: &Arc<str>, after: u64) -> Bytes {
        let id = RequestId::String(format!("subscribe-{}", self.next_subscription));
        self.next_subscription += 1;
        self.subscribing.insert(id.clone(), thread.clone());
        let resilience = self.shared.resilience();
        let is_searching = resilience.is_some_and(|resilience| resilience.nodes.is_searching(thread));
        if is_searching || *self.connection.is_recovering.read() {
            self.awaited.insert(thread.clone());
        }
        let scope = resilience.map(|resilience| resilience.subagents.scope_of(thread)).unwrap_or_default();
        let params = json!({ "threadId": thread, "after": after, "scope": scope });
        json!({ "id": id, "method": CodicilSubscribe::NAME, "params": params }).to_string().into()
    }

    /// Returns whether a subscription has no answer yet.
    pub fn is_subscribing(&self) -> bool {
        !self.subscribing.is_empty()
    }

    fn handle_subscribed(&mut self, thread: &Arc<str>, result: &RawValue) {
        let was_awaited = self.awaited.remove(thread);
        match serde_json::from_str(result.get()) {
            Ok(CodicilSubscribeResponse::Replay { from, requests, subagents, .. }) => {
                let from = from.value();
                self.note_subagents(thread, subagents, was_awaited);
                self.shared.readers.resume(thread, from);
                self.shared.routes.resume(thread, from);
                self.handle_open_requests(requests);
            }
            Ok(CodicilSubscribeResponse::Snapshot { at, thread, requests, subagents, .. }) => {
                let at = at.value();
                self.note_subagents(&thread.id, subagents, was_awaited);
                self.follow(ThreadPlace { thread: &thread.id, seq: at });
                let thread = Arc::from(thread);
                self.shared.readers.replace(&thread, at);
                self.shared.routes.replace(&thread, at);
                self.handle_open_requests(requests);
            }
            Err(error) => return self.shared.lose_thread(thread, &error.to_string()),
        }
        self.shared.requests.end_search(thread);
        if let Some(resilience) = self.shared.resilience() {
            resilience.nodes.end_search(thread);
        }
    }

    /// Notes the subagents of a thread, from the answer to a subscription. Those that started while the client was not connected
    /// to the thread's server are subscribed to.
    fn note_subagents(
        &mut self,
        thread: &str,
        subagents: Option<Vec<SubagentPosition>>,
        was_disconnected: bool,
    ) {
        let Some(resilience) = self.shared.resilience().cloned() else { return };
        for subagent in subagents.into_iter().flatten() {
            let id = &*subagent.thread_id;
            if resilience.position(id).is_some() {
                continue;
            }
            if !was_disconnected {
                resilience.subagents.note_idle(id, subagent.at);
            } else if let Some(after) = resilience.subagents.missed_after(thread, &subagent) {
                self.follow_missed(id, after);
            }
        }
    }

    fn handle_open_requests(&mut self, requests: Vec<CodicilOpenRequest>) {
        for CodicilOpenRequest { id, method, params, .. } in requests {
            let params = to_raw_value(&params).ok();
            self.handle_request(id, &method, params.as_deref());
        }
    }

    /// Prepares for the messages of another connection.
    pub fn begin_recovery(&mut self) {
        self.subscribing.clear();
        self.awaited.clear();
        self.shared.requests.note_end(&self.connection);
    }

    /// Drops the server requests that the new connection has not asked. Returns the answers that it needs.
    pub fn end_recovery(&mut self) -> Vec<Bytes> {
        *self.connection.is_recovering.write() = false;
        self.shared.requests.end_recovery(&self.connection)
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
        let value = params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default();
        if self.resume_request(&id, method, &value) {
            return;
        }
        // A client that reconnects keeps its answers until the server confirms them.
        let keeps_answers = self.shared.resilience().is_some();
        if !self.shared.requests.make_room(self.shared.limits.server_requests, keeps_answers) {
            tracing::warn!(method, "refused a server request: too many are being answered");
            let message = "too many requests at once".to_owned();
            let error = ErrorObject { code: codes::OVERLOADED, message, data: None };
            return self.responder.refuse(&self.connection, &id, &error);
        }
        let request = match ServerRequest::decode(method, params) {
            ServerRequest::Unknown(unknown) => {
                missing_fields::request(method, params, self.shared.routes.only_turn())
                    .unwrap_or(ServerRequest::Unknown(unknown))
            }
            request => request,
        };
        let slot = RequestSlot::new(&self.connection, id.clone());
        let incoming = IncomingRequest::new(slot.clone(), method, params, request, &self.shared.edits.lock());
        let answering = self.responder.clone().answer(incoming);
        let Some(task) = self.shared.tasks.spawn(answering) else { return };
        let thread = MessageIds::of(params).thread.map(Into::into);
        let method = method.to_owned();
        let request = OpenRequest { slot, thread, method, params: value, task, is_current: true };
        self.shared.requests.insert(&self.connection, id, request);
    }

    /// Goes on with a request that was asked before, under its new id. Returns whether there is one.
    fn resume_request(&self, id: &RequestId, method: &str, params: &Value) -> bool {
        if self.shared.resilience().is_none() {
            return false;
        }
        let resumed = self.shared.requests.resume(&self.connection, id, method, params);
        let answer = resumed.as_ref().and_then(|answer| answer.clone());
        // Otherwise it is sent at the end of the recovery.
        if let Some(answer) = answer.filter(|_| !*self.connection.is_recovering.read()) {
            self.send(answer);
        }
        resumed.is_some()
    }

    /// Cancels a request that was answered by another client or is no longer valid.
    fn cancel_request(&mut self, params: Option<&RawValue>) {
        let params = params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        let id = params.and_then(|mut params| params.get_mut("requestId").map(Value::take));
        if let Some(id) = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok()) {
            self.shared.requests.cancel(&self.connection, id);
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
#[serde(rename_all = "camelCase")]
struct OpenedThreadId {
    id: String,
    #[serde(default)]
    updated_at: i64,
}

/// Returns whether a notification is the start or the end of an item with edits.
fn has_edits(method: &str, params: Option<&RawValue>) -> bool {
    // The text is searched first, so that other items are not decoded if no reader wants them.
    matches!(method, ItemStarted::NAME | ItemCompleted::NAME)
        && params.is_some_and(|params| params.get().contains("\"fileChange\""))
}
