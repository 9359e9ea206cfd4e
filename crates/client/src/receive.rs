//! What arrives, sorted: answers to their calls, notifications to turns and readers, questions to the handler.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use codicil_protocol::{
    Frame, Method, NOTIFICATIONS, NotificationMethod, ServerNotification, ServerRequest,
    ServerRequestResolved,
    rpc::{ErrorObject, Message, RequestId, codes},
};
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use crate::{
    ids::MessageIds,
    pending::CallFailure,
    question::{IncomingRequest, RequestResponder},
    repair,
    shared::ClientShared,
};

/// How much of a line that is no message is logged.
const SHOWN: usize = 200;

/// Sorts the messages of one connection. Owns the tasks that answer questions.
pub struct MessageReceiver {
    shared: Arc<ClientShared>,
    desk: RequestResponder,
    questions: HashMap<RequestId, AbortHandle>,
    answering: JoinSet<()>,
}

impl MessageReceiver {
    pub fn new(shared: Arc<ClientShared>, desk: RequestResponder) -> Self {
        Self { shared, desk, questions: HashMap::new(), answering: JoinSet::new() }
    }

    pub fn shared(&self) -> &Arc<ClientShared> {
        &self.shared
    }

    /// Never waits and never fails: what is no message is logged and skipped.
    pub fn receive(&mut self, message: &Bytes) {
        let Ok(text) = std::str::from_utf8(message) else {
            return tracing::warn!(bytes = message.len(), "skipped a line that is not UTF-8");
        };
        match Message::parse(text) {
            Ok(Message::Response { id, result }) => {
                self.answer(&id, Ok(message.slice_ref(result.get().as_bytes())));
            }
            Ok(Message::Error { id, error }) => self.answer(&id, Err(CallFailure::Error(error))),
            Ok(Message::Notification { method, params }) => self.notification(&method, params, message.len()),
            Ok(Message::Request { id, method, params }) => self.question(id, &method, params),
            Err(error) => self.malformed(text, &error.to_string()),
        }
    }

    fn answer(&self, id: &RequestId, answer: Result<Bytes, CallFailure>) {
        if !self.shared.pending.resolve(id, answer) {
            tracing::debug!(%id, "ignored an answer that nobody waits for");
        }
    }

    fn notification(&mut self, method: &str, params: Option<&RawValue>, size: usize) {
        let ids = MessageIds::of(params);
        let thread = ids.thread.as_deref();
        self.shared.naming.note(method, thread);
        if method == ServerRequestResolved::NAME {
            self.settled(params);
        }
        let (is_wanted, is_followed) = (self.shared.readers.want(thread), self.shared.routes.want(&ids));
        if !is_wanted && !is_followed {
            return;
        }
        let event = Arc::new(self.decode(method, params));
        if is_followed {
            self.shared.routes.offer(&ids, &event, size);
        }
        if is_wanted {
            self.shared.readers.push(thread, &event, size);
        }
    }

    fn decode(&self, method: &str, params: Option<&RawValue>) -> ServerNotification {
        let event = ServerNotification::decode(method, params);
        let is_listed = || NOTIFICATIONS.iter().any(|known| known.name == method);
        match event {
            ServerNotification::Unknown(unknown) if is_listed() => {
                repair::notification(method, params, self.shared.routes.sole())
                    .unwrap_or(ServerNotification::Unknown(unknown))
            }
            event => event,
        }
    }

    fn question(&mut self, id: RequestId, method: &str, params: Option<&RawValue>) {
        while self.answering.try_join_next().is_some() {}
        self.questions.retain(|_, task| !task.is_finished());
        if self.questions.len() >= self.shared.limits.questions {
            tracing::warn!(method, "refused a request of the server: too many are being answered");
            let message = "too many requests at once".to_owned();
            return self.desk.refuse(&id, ErrorObject { code: codes::OVERLOADED, message, data: None });
        }
        let request = match ServerRequest::decode(method, params) {
            ServerRequest::Unknown(unknown) => repair::request(method, params, self.shared.routes.sole())
                .unwrap_or(ServerRequest::Unknown(unknown)),
            request => request,
        };
        let question = IncomingRequest::new(id.clone(), method, params, request);
        let task = self.answering.spawn(self.desk.clone().answer(question));
        self.questions.insert(id, task);
    }

    /// A question was answered by someone else or is void; nobody needs to go on with it.
    fn settled(&mut self, params: Option<&RawValue>) {
        let params = params.and_then(|params| serde_json::from_str::<Value>(params.get()).ok());
        let id = params.and_then(|mut params| params.get_mut("requestId").map(Value::take));
        let id = id.and_then(|id| serde_json::from_value::<RequestId>(id).ok());
        if let Some(task) = id.and_then(|id| self.questions.remove(&id)) {
            task.abort();
        }
    }

    /// An error without a code is still the answer that somebody waits for.
    fn malformed(&self, text: &str, reason: &str) {
        let value: Option<Value> = serde_json::from_str(text).ok();
        if let Some(value) = value
            && let Some(id) = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok())
            && let Some(error) = value.get("error").filter(|error| !error.is_null())
        {
            let said = error.get("message").and_then(Value::as_str).map(str::to_owned);
            let message = said.unwrap_or_else(|| error.to_string());
            let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
            let data = error.get("data").cloned();
            return self.answer(&id, Err(CallFailure::Error(ErrorObject { code, message, data })));
        }
        tracing::warn!(bytes = text.len(), "skipped a line that is no message: {reason}");
        tracing::debug!("it began with: {}", text.chars().take(SHOWN).collect::<String>());
    }
}

/// Encodes a request that nobody waits for the answer of.
pub fn fire<M: Method>(shared: &ClientShared, outgoing: &mpsc::Sender<Bytes>, params: &M::Params) {
    let call = shared.pending.open();
    let message = Frame::request::<M>(&call.id(), params).bytes().clone();
    if outgoing.try_send(message).is_err() {
        tracing::debug!(method = M::NAME, "not sent: the server does not read, or is gone");
    }
}
