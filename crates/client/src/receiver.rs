//! Dispatches incoming messages: responses to their calls, notifications to turns and readers, requests to the
//! handler.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use codicil_protocol::{
    Frame, ItemCompleted, ItemStarted, Method, NOTIFICATIONS, NotificationMethod, ServerNotification,
    ServerRequest, ServerRequestResolved, TurnCompleted,
    rpc::{ErrorObject, Message, RequestId, codes},
};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use crate::{
    ids::MessageIds,
    missing_fields,
    open_edits::OpenEdits,
    pending::CallFailure,
    responder::{IncomingRequest, RequestResponder},
    shared::ClientShared,
};

/// Characters of an invalid line that are logged.
const LOGGED_CHARS: usize = 200;

/// Dispatches the messages of one connection. Owns the tasks that answer server requests.
pub struct MessageReceiver {
    shared: Arc<ClientShared>,
    responder: RequestResponder,
    requests: HashMap<RequestId, AbortHandle>,
    answering: JoinSet<()>,
    edits: OpenEdits,
}

impl MessageReceiver {
    pub fn new(shared: Arc<ClientShared>, responder: RequestResponder) -> Self {
        Self {
            shared,
            responder,
            requests: HashMap::new(),
            answering: JoinSet::new(),
            edits: OpenEdits::default(),
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
            Ok(Message::Response { id, result }) => {
                self.resolve_call(&id, Ok(message.slice_ref(result.get().as_bytes())));
            }
            Ok(Message::Error { id, error }) => self.resolve_call(&id, Err(CallFailure::Error(error))),
            Ok(Message::Notification { method, params }) => {
                self.handle_notification(&method, params, message.len())
            }
            Ok(Message::Request { id, method, params, .. }) => self.handle_request(id, &method, params),
            Err(error) => self.handle_invalid(text, &error.to_string()),
        }
    }

    fn resolve_call(&self, id: &RequestId, answer: Result<Bytes, CallFailure>) {
        if !self.shared.pending.resolve(id, answer) {
            tracing::debug!(%id, "ignored a response without a pending call");
        }
    }

    fn handle_notification(&mut self, method: &str, params: Option<&RawValue>, size: usize) {
        let ids = MessageIds::of(params);
        let thread = ids.thread.as_deref();
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
        if !has_reader && !has_route && !has_edits {
            return;
        }
        let event = Arc::new(self.decode(method, params));
        if has_edits {
            self.edits.record(&event, size, self.shared.limits.event_bytes);
        }
        if has_route {
            self.shared.routes.deliver(&ids, &event, size);
        }
        if has_reader {
            self.shared.readers.push(thread, &event, size);
        }
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
        self.requests.retain(|_, task| !task.is_finished());
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
        let incoming = IncomingRequest::new(id.clone(), method, params, request, &self.edits);
        let task = self.answering.spawn(self.responder.clone().answer(incoming));
        self.requests.insert(id, task);
    }

    /// Cancels a request that was answered by another client or is no longer valid.
    fn cancel_request(&mut self, params: Option<&RawValue>) {
        let params = params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        let id = params.and_then(|mut params| params.get_mut("requestId").map(Value::take));
        let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        if let Some(task) = id.and_then(|id| self.requests.remove(&id)) {
            task.abort();
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
