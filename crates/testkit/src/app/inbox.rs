//! What a client has received: unread messages, running turns, open requests of the server.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use codicil_protocol::{
    NOTIFICATIONS, NotificationMethod, SERVER_REQUESTS, ServerNotification, ServerRequest,
    ServerRequestResolved, TurnCompleted, TurnStarted,
    rpc::{ErrorObject, Message, RequestId},
};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::schema_check::SchemaCheck;

/// Number of messages that a failing test shows.
const MAX_LOG_LINES: usize = 200;
const MAX_LOG_LINE_CHARS: usize = 400;

/// A notification or a request that the server sent.
pub(super) struct IncomingMessage {
    pub method: String,
    /// The id, if it is a request.
    pub id: Option<RequestId>,
    pub params: Value,
    pub place: MessagePlacement,
}

/// The position that a message was sent with, on a connection with a cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct MessagePlacement {
    pub seq: Option<u64>,
    #[serde(default)]
    pub replay: bool,
    /// When a notification was sent, in Unix milliseconds.
    #[serde(rename = "emittedAtMs")]
    emitted_at_ms: Option<i64>,
}

/// The server's answer to a request.
pub(super) type ServerAnswer = Result<Value, ErrorObject>;

#[derive(Default)]
pub(super) struct ClientInbox {
    pub unread: VecDeque<IncomingMessage>,
    pub answers: BTreeMap<RequestId, ServerAnswer>,
    /// Requests whose answer was that of an earlier request with the same key.
    pub replayed: BTreeSet<RequestId>,
    /// Turns that have started and not ended, with their threads.
    pub running: BTreeMap<String, String>,
    /// Requests of the server without an answer yet.
    pub asked: BTreeSet<RequestId>,
    pub schema: SchemaCheck,
    log: VecDeque<String>,
}

impl ClientInbox {
    /// Adds a message. Panics if the server violates the protocol.
    pub fn receive(&mut self, bytes: &[u8]) {
        let text = std::str::from_utf8(bytes).expect("the server writes UTF-8");
        self.log_line("←", text);
        match Message::parse(text).unwrap_or_else(|error| panic!("the server wrote {text}: {error}")) {
            Message::Response { id, result } => {
                let result = value(Some(result));
                let message: Value = serde_json::from_str(text).expect("the message was JSON");
                if let Some(extension) = message.get("codicil") {
                    assert_eq!(*extension, json!({ "replayed": true }), "the extension of a response");
                    self.replayed.insert(id.clone());
                }
                self.schema.check_answer(&id, &result);
                self.on_answer(id, Ok(result));
            }
            Message::Error { id, error } => {
                self.schema.forget(&id);
                self.on_answer(id, Err(error));
            }
            Message::Notification { method, params } => {
                check_notification(&method, params);
                let place = placement(text);
                let params = value(params);
                self.schema.check_time(&method, place.emitted_at_ms);
                self.schema.check_notification(&method, &params);
                self.on_message(IncomingMessage { method, id: None, params, place });
            }
            Message::Request { id, method, params, .. } => {
                check_request(&method, params);
                self.asked.insert(id.clone());
                let place = placement(text);
                let params = value(params);
                self.schema.check_server_request(&method, &params);
                self.on_message(IncomingMessage { method, id: Some(id), params, place });
            }
        }
    }

    /// Adds a line to the log.
    pub fn log_line(&mut self, arrow: &str, text: &str) {
        if self.log.len() == MAX_LOG_LINES {
            self.log.pop_front();
        }
        self.log.push_back(format!("{arrow} {}", text.chars().take(MAX_LOG_LINE_CHARS).collect::<String>()));
    }

    /// Returns the last messages in both directions, for a test that fails.
    pub fn log(&self) -> String {
        self.log.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    fn on_answer(&mut self, id: RequestId, answer: ServerAnswer) {
        assert!(!self.answers.contains_key(&id), "request {id} was answered twice:\n{}", self.log());
        self.answers.insert(id, answer);
    }

    fn on_message(&mut self, incoming: IncomingMessage) {
        let params = &incoming.params;
        let text = |pointer: &str| params.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        match incoming.method.as_str() {
            TurnStarted::NAME => {
                self.running.extend(text("/turn/id").zip(text("/threadId")));
            }
            TurnCompleted::NAME => {
                let _ = text("/turn/id").map(|turn| self.running.remove(&turn));
            }
            ServerRequestResolved::NAME => {
                let id = params.get("requestId").cloned();
                let id = id.and_then(|id| serde_json::from_value(id).ok());
                self.asked.retain(|asked| Some(asked) != id.as_ref());
            }
            _ => {}
        }
        self.unread.push_back(incoming);
    }
}

fn placement(text: &str) -> MessagePlacement {
    serde_json::from_str(text).expect("the envelope was JSON")
}

fn value(raw: Option<&RawValue>) -> Value {
    raw.map(|raw| serde_json::from_str(raw.get()).expect("the envelope was JSON")).unwrap_or_default()
}

/// Checks that a notification of the method table has the params of its type.
fn check_notification(method: &str, params: Option<&RawValue>) {
    let listed = NOTIFICATIONS.iter().any(|known| known.name == method);
    if listed && matches!(ServerNotification::decode(method, params), ServerNotification::Unknown(_)) {
        panic!("{method} does not have its params: {}", params.map_or("none", RawValue::get));
    }
}

fn check_request(method: &str, params: Option<&RawValue>) {
    let listed = SERVER_REQUESTS.iter().any(|known| known.name == method);
    assert!(listed, "the server asks {method}, which is not in its table");
    if matches!(ServerRequest::decode(method, params), ServerRequest::Unknown(_)) {
        panic!("{method} does not have its params: {}", params.map_or("none", RawValue::get));
    }
}
