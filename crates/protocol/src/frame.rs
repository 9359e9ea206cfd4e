//! Outgoing messages: encoded once, shared by all recipients.

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    AgentMessageDelta, CommandExecutionOutputDelta, FileChangeOutputDelta, MessagePlace, Method,
    MethodGenerations, NOTIFICATIONS, NotificationMethod, PlanDelta, ProtocolGeneration,
    ReasoningSummaryTextDelta, ReasoningTextDelta, rpc,
};

/// One encoded message. Cloning shares the bytes.
#[derive(Clone, Debug)]
pub struct Frame {
    kind: FrameKind,
    bytes: Bytes,
    /// The message for connections of the 0.166 generation, where it differs.
    later_bytes: Option<Box<Bytes>>,
    /// The only generation whose connections receive the message; `None`: all of them.
    only_generation: Option<ProtocolGeneration>,
    /// The offset of the text of a delta, which extends to [`DELTA_END`].
    text_at: Option<usize>,
    /// The position among the messages of a thread. Connections with a cursor receive it with the message.
    place: Option<MessagePlace>,
    audience: FrameAudience,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Notification(&'static str),
    Request(&'static str),
    Response,
}

/// The connections that a message is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameAudience {
    #[default]
    Everyone,
    /// Connections that receive positions.
    WithCursor,
    /// Connections that do not receive positions.
    WithoutCursor,
}

/// The bytes after the text of a delta. The text is the last member of the params.
const DELTA_END: &[u8] = br#""}}"#;
const DELTA_START: &[u8] = br#""delta":""#;

/// Room for a delta, the message that is sent most often.
const USUAL_LEN: usize = 256;

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
        Self { text_at, ..Self::new_notification(N::NAME, N::GENERATIONS, bytes) }
    }

    /// Returns a notification that the caller has encoded itself, for speed. `bytes` is the whole message.
    pub fn written<N: NotificationMethod>(bytes: impl Into<Bytes>) -> Self {
        Self::new_notification(N::NAME, N::GENERATIONS, bytes.into())
    }

    /// Returns a notification that another server has encoded. `bytes` is the message without its position.
    pub fn relayed_notification(method: &'static str, bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let text_at = if DELTAS.contains(&method) { text_of_delta(&bytes) } else { None };
        let known = NOTIFICATIONS.iter().find(|known| known.name == method);
        let generations = known.map_or(MethodGenerations::Both, |known| known.generations);
        Self { text_at, ..Self::new_notification(method, generations, bytes) }
    }

    /// Returns a server request whose params another server has encoded.
    pub fn relayed_request(method: &'static str, id: &rpc::RequestId, params: &RawValue) -> Self {
        let bytes = encode(&OutgoingMessage::Request { method, id, params });
        Self::new(FrameKind::Request(method), bytes)
    }

    pub fn request<M: Method>(id: &rpc::RequestId, params: &M::Params) -> Self {
        let bytes = encode(&OutgoingMessage::Request { method: M::NAME, id, params });
        Self::new(FrameKind::Request(M::NAME), bytes)
    }

    /// Returns a request with a key: a repetition has no second effect.
    pub fn keyed_request<M: Method>(id: &rpc::RequestId, params: &M::Params, key: &str) -> Self {
        let codicil = RequestExtension { key };
        let bytes = encode(&OutgoingMessage::KeyedRequest { method: M::NAME, id, params, codicil });
        Self::new(FrameKind::Request(M::NAME), bytes)
    }

    pub fn response(id: &rpc::RequestId, result: &impl Serialize) -> Self {
        Self::new(FrameKind::Response, encode(&OutgoingMessage::Response { id, result }))
    }

    /// Returns the response to a request whose key is known: the first result, marked as such.
    pub fn replayed_response(id: &rpc::RequestId, result: &impl Serialize) -> Self {
        let codicil = ResponseExtension { replayed: true };
        Self::new(FrameKind::Response, encode(&OutgoingMessage::ReplayedResponse { id, result, codicil }))
    }

    pub fn error(id: &rpc::RequestId, error: &rpc::ErrorObject) -> Self {
        Self::new(FrameKind::Response, encode::<()>(&OutgoingMessage::Error { error, id }))
    }

    /// Returns a notification. Clients of an earlier generation do not get methods that were added later.
    fn new_notification(method: &'static str, generations: MethodGenerations, bytes: Bytes) -> Self {
        let only_generation = match generations {
            MethodGenerations::Since166 => Some(ProtocolGeneration::V166),
            MethodGenerations::Only118 | MethodGenerations::Both => None,
        };
        Self { only_generation, ..Self::new(FrameKind::Notification(method), bytes) }
    }

    fn new(kind: FrameKind, bytes: Bytes) -> Self {
        Self {
            kind,
            bytes,
            later_bytes: None,
            only_generation: None,
            text_at: None,
            place: None,
            audience: FrameAudience::Everyone,
        }
    }

    /// Returns a notification with other params for connections of the 0.166 generation.
    #[must_use]
    pub fn with_later_params<N: NotificationMethod>(self, params: &N::Params) -> Self {
        let later_bytes = encode(&OutgoingMessage::Notification { method: N::NAME, params });
        Self { later_bytes: Some(Box::new(later_bytes)), ..self }
    }

    /// Returns the message for connections of one generation only.
    #[must_use]
    pub fn only_in(self, generation: ProtocolGeneration) -> Self {
        Self { only_generation: Some(generation), ..self }
    }

    /// Returns whether connections of a generation receive the message.
    pub fn is_in(&self, generation: ProtocolGeneration) -> bool {
        self.only_generation.is_none_or(|only| only == generation)
    }

    /// Returns the message at its position in a thread.
    #[must_use]
    pub fn at(self, place: MessagePlace) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Returns the message without its position, for clients that do not follow the thread.
    #[must_use]
    pub fn without_place(self) -> Self {
        Self { place: None, ..self }
    }

    /// Returns the message as a repetition of one that was sent before.
    #[must_use]
    pub fn as_replay(mut self) -> Self {
        if let Some(place) = &mut self.place {
            place.is_replay = true;
        }
        self
    }

    #[must_use]
    pub fn only_for(self, audience: FrameAudience) -> Self {
        Self { audience, ..self }
    }

    /// Returns the method of a notification or request; `None` for responses.
    pub fn method(&self) -> Option<&'static str> {
        match self.kind {
            FrameKind::Notification(method) | FrameKind::Request(method) => Some(method),
            FrameKind::Response => None,
        }
    }

    pub fn is_notification(&self) -> bool {
        matches!(self.kind, FrameKind::Notification(_))
    }

    pub fn place(&self) -> Option<&MessagePlace> {
        self.place.as_ref()
    }

    pub fn audience(&self) -> FrameAudience {
        self.audience
    }

    /// Returns the message without its position, in the form of the 0.118 generation.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the message without its position, for connections of a generation.
    pub fn bytes_for(&self, generation: ProtocolGeneration) -> &Bytes {
        match generation {
            ProtocolGeneration::V118 => &self.bytes,
            ProtocolGeneration::V166 => self.later_bytes.as_deref().unwrap_or(&self.bytes),
        }
    }

    /// Returns the length of the longest form of the message.
    pub fn max_len(&self) -> usize {
        self.bytes.len().max(self.later_bytes.as_deref().map_or(0, Bytes::len))
    }

    /// Returns the bytes that turn `before` into the merged delta of both. The caller first removes the last
    /// [`DELTA_END_LEN`](Self::DELTA_END_LEN) bytes of `before`. `None` unless both are deltas of the same item.
    pub fn continuation<'a>(&'a self, before: &[u8]) -> Option<&'a [u8]> {
        let (head, text) = self.bytes.split_at_checked(self.text_at?)?;
        before.starts_with(head).then_some(text)
    }

    /// The bytes that the caller removes before it appends a continuation.
    pub const DELTA_END_LEN: usize = DELTA_END.len();

    /// Returns the bytes before the text of a delta, and its text as it is written. `None` for other messages.
    pub fn delta_parts(&self) -> Option<(&[u8], &[u8])> {
        let (head, rest) = self.bytes.split_at_checked(self.text_at?)?;
        Some((head, rest.strip_suffix(DELTA_END)?))
    }

    /// Returns this delta with another text, given as it is written. The position stays.
    pub fn with_delta_text(&self, text: &[u8]) -> Option<Self> {
        let (head, _) = self.delta_parts()?;
        Some(Self { bytes: [head, text, DELTA_END].concat().into(), ..self.clone() })
    }
}

/// Appends a position to a message, as its last members.
pub fn append_place(message: &mut Vec<u8>, place: &MessagePlace) {
    let Some(b'}') = message.pop() else { return };
    append_number(message, ",\"seq\":", place.seq.value());
    if place.is_replay {
        message.extend_from_slice(b",\"replay\":true");
    }
    message.push(b'}');
}

/// Appends the time at which a notification is sent, in Unix milliseconds, as its last member.
pub fn append_time(message: &mut Vec<u8>, unix_ms: i64) {
    let Some(b'}') = message.pop() else { return };
    append_number(message, ",\"emittedAtMs\":", unix_ms);
    message.push(b'}');
}

/// Appends a member with a number. This runs for each delta and client, and the formatter of the standard library is slow.
fn append_number(message: &mut Vec<u8>, name: &str, number: impl itoa::Integer) {
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The text that [`append_time`] adds to a message.
pub const TIME_LEN: usize = r#","emittedAtMs":1763424000000"#.len();

/// The longest text that [`append_place`] adds to a message.
pub const PLACE_LEN: usize = r#","seq":9007199254740991,"replay":true"#.len();

#[derive(Serialize)]
#[serde(untagged)]
enum OutgoingMessage<'a, T: Serialize + ?Sized> {
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
fn encode<T: Serialize + ?Sized>(message: &OutgoingMessage<'_, T>) -> Bytes {
    let mut bytes = Vec::with_capacity(USUAL_LEN);
    serde_json::to_writer(&mut bytes, message).expect("wire types are always JSON");
    bytes.into()
}

/// Returns the offset of the text. A quote inside an id is escaped, so the first `"delta":"` is the member itself.
fn text_of_delta(bytes: &[u8]) -> Option<usize> {
    let start = memchr::memmem::find(bytes, DELTA_START)?;
    bytes.ends_with(DELTA_END).then_some(start + DELTA_START.len())
}
