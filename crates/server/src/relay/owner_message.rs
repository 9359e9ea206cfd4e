//! Messages of the owner of a thread, and their form for the client.
//!
//! A message is not decoded further than needed: params and results go to the client as the owner has written them. What only this
//! node asked for (`seq`, `replay`) is read and left out; the outbox adds it for clients with a cursor. The same goes for
//! the time of notifications.

use std::{collections::HashSet, sync::LazyLock};

use bytes::Bytes;
use codicil_protocol::{
    CODICIL_NOTIFICATIONS, Frame, MessagePlace, MessageSeq, NOTIFICATIONS, NotificationMethod,
    RawResponseItemCompleted, SERVER_REQUESTS, ThreadId,
    rpc::{self, ErrorObject, RequestId},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::OWNED_BY_NODE;

/// A message of the owner.
pub enum OwnerMessage<'a> {
    Response { id: RequestId, response: OwnerResponse<'a> },
    Error { id: RequestId, error: ErrorObject },
    Notification(ThreadMessage<'a>),
    Request { id: RequestId, message: ThreadMessage<'a> },
}

/// A response of the owner to a request that succeeded.
pub struct OwnerResponse<'a> {
    pub result: &'a RawValue,
    /// Whether it is the result of an earlier request with the same key.
    pub is_replayed: bool,
    /// The position from which the messages of the thread follow.
    pub seq: Option<MessageSeq>,
}

/// A notification or a server request about a thread.
pub struct ThreadMessage<'a> {
    pub method: &'static str,
    pub params: &'a RawValue,
    pub thread: ThreadId,
    /// The thread whose agent has started this one.
    pub parent: Option<ThreadId>,
    /// The turn that the message is about.
    pub turn: Option<String>,
    pub seq: Option<MessageSeq>,
    is_replay: bool,
}

impl<'a> OwnerMessage<'a> {
    /// Reads a message. Returns `None` for one that is not about a thread, or not known to this node.
    pub fn read(text: &'a str) -> Option<Self> {
        let envelope: OwnerEnvelope<'a> = serde_json::from_str(text).ok()?;
        let Some(method) = &envelope.method else { return Self::answer(envelope) };
        match &envelope.id {
            Some(id) => {
                let message = ThreadMessage::read(known(&REQUEST_METHODS, method)?, &envelope)?;
                Some(Self::Request { id: id.clone(), message })
            }
            None => {
                let method = known(&NOTIFICATION_METHODS, method)?;
                Some(Self::Notification(ThreadMessage::read(method, &envelope)?))
            }
        }
    }

    fn answer(envelope: OwnerEnvelope<'a>) -> Option<Self> {
        let id = envelope.id?;
        if let Some(error) = envelope.error {
            return Some(Self::Error { id, error });
        }
        let is_replayed = envelope.codicil.is_some_and(|extension| extension.replayed);
        let response = OwnerResponse { result: envelope.result?, is_replayed, seq: envelope.seq };
        Some(Self::Response { id, response })
    }
}

impl<'a> ThreadMessage<'a> {
    fn read(method: &'static str, envelope: &OwnerEnvelope<'a>) -> Option<Self> {
        let params = envelope.params?;
        let head: ParamsHead = serde_json::from_str(params.get()).ok()?;
        let parent = head.thread.as_ref().and_then(|thread| thread.parent_thread_id.clone());
        Some(Self {
            method,
            params,
            thread: head.thread_id.or(head.thread.map(|thread| thread.id))?,
            parent,
            turn: head.turn_id.or(head.turn.map(|turn| turn.id)),
            seq: envelope.seq,
            is_replay: envelope.replay,
        })
    }

    /// Returns a server request that an owner lists as open; `None` for one that this node does not know.
    pub fn of_request(
        thread: &ThreadId,
        method: &str,
        params: &'a RawValue,
        seq: MessageSeq,
    ) -> Option<Self> {
        let head: ParamsHead = serde_json::from_str(params.get()).ok()?;
        let turn = head.turn_id;
        let thread = thread.clone();
        let method = request_method(method)?;
        Some(Self { method, params, thread, parent: None, turn, seq: Some(seq), is_replay: false })
    }

    /// Returns the notification for the client.
    pub fn to_notification(&self) -> Frame {
        let parts = [r#"{"method":""#, self.method, r#"","params":"#, self.params.get(), "}"];
        let bytes = Bytes::from(parts.concat());
        self.at_place(Frame::relayed_notification(self.method, bytes))
    }

    /// Returns the server request for the client, with the id of this node.
    pub fn to_request(&self, id: &RequestId) -> Frame {
        self.at_place(Frame::relayed_request(self.method, id, self.params))
    }

    fn at_place(&self, frame: Frame) -> Frame {
        let Some(seq) = self.seq else { return frame };
        let placed = frame.at(MessagePlace::new(self.thread.clone(), seq));
        if self.is_replay { placed.as_replay() } else { placed }
    }

    /// Returns whether only subscribers of the thread receive such a message.
    pub fn is_for_subscribers(&self) -> bool {
        self.method.starts_with("turn/") || self.method.starts_with("item/")
    }
}

/// Returns whether an error says that another node owns the thread.
pub fn is_owned_elsewhere(error: &ErrorObject) -> bool {
    let code = error.data.as_ref().and_then(|data| data.get("codicil")?.get("code")?.as_str());
    code == Some(OWNED_BY_NODE)
}

/// Returns the name of a server request as the table has it.
pub fn request_method(name: &str) -> Option<&'static str> {
    known(&REQUEST_METHODS, name)
}

static NOTIFICATION_METHODS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    let published = NOTIFICATIONS.iter().chain(CODICIL_NOTIFICATIONS).map(|method| method.name);
    published.chain([RawResponseItemCompleted::NAME]).collect()
});

static REQUEST_METHODS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| SERVER_REQUESTS.iter().map(|method| method.name).collect());

fn known(methods: &HashSet<&'static str>, name: &str) -> Option<&'static str> {
    let known = methods.get(name).copied();
    if known.is_none() {
        tracing::debug!(method = name, "left out a message of another node that this node does not know");
    }
    known
}

#[derive(Deserialize)]
struct OwnerEnvelope<'a> {
    id: Option<RequestId>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "rpc::present")]
    result: Option<&'a RawValue>,
    error: Option<ErrorObject>,
    codicil: Option<ResponseExtension>,
    seq: Option<MessageSeq>,
    #[serde(default)]
    replay: bool,
}

#[derive(Deserialize)]
struct ResponseExtension {
    #[serde(default)]
    replayed: bool,
}

/// What params say about the thread and the turn of a message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ParamsHead {
    thread_id: Option<ThreadId>,
    thread: Option<ThreadHead>,
    turn_id: Option<String>,
    turn: Option<TurnHead>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ThreadHead {
    id: ThreadId,
    parent_thread_id: Option<ThreadId>,
}

#[derive(Deserialize)]
struct TurnHead {
    id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notification(text: &str) -> ThreadMessage<'_> {
        match OwnerMessage::read(text) {
            Some(OwnerMessage::Notification(message)) => message,
            _ => panic!("not a notification about a thread: {text}"),
        }
    }

    #[test]
    fn members_of_the_extension_are_left_out_and_kept_as_the_place() {
        let delta =
            r#"{"method":"item/agentMessage/delta","params":{"threadId":"t","turnId":"u","delta":"a\"}}"}"#;
        let text = format!(r#"{delta},"emittedAtMs":1763424000000,"seq":6291473,"replay":true}}"#);
        let frame = notification(&text).to_notification();
        assert_eq!(frame.bytes(), format!("{delta}}}").as_bytes());
        let place = frame.place().unwrap();
        assert_eq!((&*place.thread_id, place.seq.value(), place.is_replay), ("t", 6_291_473, true));
        // It is joined with the next one like a delta of this node.
        assert!(frame.delta_parts().is_some());
    }

    #[test]
    fn a_message_names_its_thread_in_several_ways() {
        let started = r#"{"method":"thread/started","params":{"thread":{"id":"a","parentThreadId":"p"}}}"#;
        let message = notification(started);
        assert_eq!((&*message.thread, message.parent.as_deref()), ("a", Some("p")));
        let completed =
            r#"{"method":"turn/completed","params":{"threadId":"t","turn":{"id":"u"}},"seq":1048576}"#;
        assert_eq!(notification(completed).turn.as_deref(), Some("u"));
        assert!(OwnerMessage::read(r#"{"method":"account/updated","params":{}}"#).is_none());
        assert!(OwnerMessage::read(r#"{"method":"new/method","params":{"threadId":"t"}}"#).is_none());
    }

    #[test]
    fn a_server_request_gets_an_id_of_this_node() {
        let text = r#"{"method":"item/tool/call","id":3,"params":{"threadId":"t","tool":"x"},"seq":1048592}"#;
        let Some(OwnerMessage::Request { id, message }) = OwnerMessage::read(text) else { panic!("{text}") };
        assert_eq!(id, RequestId::Integer(3));
        let expected = r#"{"method":"item/tool/call","id":12,"params":{"threadId":"t","tool":"x"}}"#;
        assert_eq!(message.to_request(&RequestId::Integer(12)).bytes(), expected.as_bytes());
    }

    #[test]
    fn responses_keep_their_result() {
        let text = r#"{"id":3,"result":null,"codicil":{"replayed":true},"seq":5}"#;
        let Some(OwnerMessage::Response { response, .. }) = OwnerMessage::read(text) else {
            panic!("{text}")
        };
        assert_eq!((response.result.get(), response.is_replayed), ("null", true));
        let refused =
            r#"{"error":{"code":-32600,"message":"m","data":{"codicil":{"code":"ownedByNode"}}},"id":3}"#;
        let Some(OwnerMessage::Error { error, .. }) = OwnerMessage::read(refused) else {
            panic!("{refused}")
        };
        assert!(is_owned_elsewhere(&error));
    }
}
