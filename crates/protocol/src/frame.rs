//! Outgoing messages: encoded once, shared by all recipients.

use bytes::Bytes;
use serde::Serialize;

use crate::{
    AgentMessageDelta, CommandExecutionOutputDelta, FileChangeOutputDelta, Method, NotificationMethod,
    PlanDelta, ReasoningSummaryTextDelta, ReasoningTextDelta, rpc,
};

/// One encoded message. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Frame {
    method: Option<&'static str>,
    bytes: Bytes,
    /// The offset of the text of a delta, which extends to [`DELTA_END`].
    text_at: Option<usize>,
}

/// The bytes after the text of a delta. The text is the last member of the params.
const DELTA_END: &[u8] = br#""}}"#;
const DELTA_START: &[u8] = br#""delta":""#;

/// Notifications whose text can be merged with the next one for the same item.
const DELTAS: &[&str] = &[
    AgentMessageDelta::NAME,
    PlanDelta::NAME,
    CommandExecutionOutputDelta::NAME,
    FileChangeOutputDelta::NAME,
    ReasoningSummaryTextDelta::NAME,
    ReasoningTextDelta::NAME,
];

impl Frame {
    pub fn notification<N: NotificationMethod>(params: &N::Params) -> Self {
        let bytes = encode(&OutgoingMessage::Notification { method: N::NAME, params });
        let text_at = if DELTAS.contains(&N::NAME) { text_of_delta(&bytes) } else { None };
        Self { method: Some(N::NAME), bytes, text_at }
    }

    /// Returns a notification that the caller has encoded itself, for speed. `bytes` is the whole message.
    pub fn written<N: NotificationMethod>(bytes: impl Into<Bytes>) -> Self {
        Self { method: Some(N::NAME), bytes: bytes.into(), text_at: None }
    }

    pub fn request<M: Method>(id: &rpc::RequestId, params: &M::Params) -> Self {
        let bytes = encode(&OutgoingMessage::Request { method: M::NAME, id, params });
        Self { method: Some(M::NAME), bytes, text_at: None }
    }

    /// Returns a request with a key: a repetition has no second effect.
    pub fn keyed_request<M: Method>(id: &rpc::RequestId, params: &M::Params, key: &str) -> Self {
        let codicil = RequestExtension { key };
        let bytes = encode(&OutgoingMessage::KeyedRequest { method: M::NAME, id, params, codicil });
        Self { method: Some(M::NAME), bytes, text_at: None }
    }

    pub fn response(id: &rpc::RequestId, result: &impl Serialize) -> Self {
        Self::without_method(encode(&OutgoingMessage::Response { id, result }))
    }

    /// Returns the response to a request whose key is known: the first result, marked as such.
    pub fn replayed_response(id: &rpc::RequestId, result: &impl Serialize) -> Self {
        let codicil = ResponseExtension { replayed: true };
        Self::without_method(encode(&OutgoingMessage::ReplayedResponse { id, result, codicil }))
    }

    pub fn error(id: &rpc::RequestId, error: &rpc::ErrorObject) -> Self {
        Self::without_method(encode::<()>(&OutgoingMessage::Error { error, id }))
    }

    fn without_method(bytes: Bytes) -> Self {
        Self { method: None, bytes, text_at: None }
    }

    /// Returns the method of a notification or request; `None` for responses.
    pub fn method(&self) -> Option<&'static str> {
        self.method
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the bytes that turn `before` into the merged delta of both. The caller first removes the last
    /// [`DELTA_END_LEN`](Self::DELTA_END_LEN) bytes of `before`. `None` unless both are deltas of the same item.
    pub fn continuation<'a>(&'a self, before: &[u8]) -> Option<&'a [u8]> {
        let (head, text) = self.bytes.split_at_checked(self.text_at?)?;
        before.starts_with(head).then_some(text)
    }

    /// The bytes that the caller removes before it appends a continuation.
    pub const DELTA_END_LEN: usize = DELTA_END.len();
}

#[derive(Serialize)]
#[serde(untagged)]
enum OutgoingMessage<'a, T: Serialize> {
    Notification { method: &'a str, params: &'a T },
    Request { method: &'a str, id: &'a rpc::RequestId, params: &'a T },
    KeyedRequest { method: &'a str, id: &'a rpc::RequestId, params: &'a T, codicil: RequestExtension<'a> },
    Response { id: &'a rpc::RequestId, result: &'a T },
    ReplayedResponse { id: &'a rpc::RequestId, result: &'a T, codicil: ResponseExtension },
    Error { error: &'a rpc::ErrorObject, id: &'a rpc::RequestId },
}

/// The member `codicil` of a request.
#[derive(Serialize)]
struct RequestExtension<'a> {
    key: &'a str,
}

/// The member `codicil` of a response.
#[derive(Serialize)]
struct ResponseExtension {
    replayed: bool,
}

/// The protocol's types have string keys and no foreign `Serialize`, so encoding them cannot fail.
fn encode<T: Serialize>(message: &OutgoingMessage<'_, T>) -> Bytes {
    serde_json::to_vec(message).expect("wire types are always JSON").into()
}

/// Returns the offset of the text. A quote inside an id is escaped, so the first `"delta":"` is the member itself.
fn text_of_delta(bytes: &[u8]) -> Option<usize> {
    let start = bytes.windows(DELTA_START.len()).position(|window| window == DELTA_START)?;
    bytes.ends_with(DELTA_END).then_some(start + DELTA_START.len())
}
