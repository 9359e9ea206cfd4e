//! The thread and turn ids of a message, read without knowing its type.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The ids that a message names. Messages of older servers name neither.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct MessageIds<'a> {
    pub thread: Option<Cow<'a, str>>,
    pub turn: Option<Cow<'a, str>>,
}

impl<'a> MessageIds<'a> {
    /// Reads the ids. Returns none if the params are not an object, or if the ids are not strings.
    pub fn of(params: Option<&'a RawValue>) -> Self {
        let read = params.and_then(|params| serde_json::from_str::<IdMembers<'a>>(params.get()).ok());
        let Some(members) = read else { return Self::default() };
        let named = |id: Option<IdText<'a>>, object: Option<NestedObject<'a>>| {
            id.or_else(|| object.and_then(|object| object.id)).map(|text| text.0).filter(|id| !id.is_empty())
        };
        Self {
            thread: named(members.thread_id.or(members.conversation_id), members.thread),
            turn: named(members.turn_id, members.turn),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct IdMembers<'a> {
    #[serde(borrow)]
    thread_id: Option<IdText<'a>>,
    #[serde(borrow)]
    conversation_id: Option<IdText<'a>>,
    #[serde(borrow)]
    turn_id: Option<IdText<'a>>,
    #[serde(borrow)]
    thread: Option<NestedObject<'a>>,
    #[serde(borrow)]
    turn: Option<NestedObject<'a>>,
}

#[derive(Deserialize)]
struct NestedObject<'a> {
    #[serde(borrow)]
    id: Option<IdText<'a>>,
}

/// An id, borrowed from the message unless it contains escapes.
#[derive(Deserialize)]
struct IdText<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_every_place_that_the_protocol_uses() {
        let check = |json: &str, thread: Option<&str>, turn: Option<&str>| {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            let ids = MessageIds::of(Some(&raw));
            assert_eq!((ids.thread.as_deref(), ids.turn.as_deref()), (thread, turn), "{json}");
        };
        check(r#"{"threadId":"t","turnId":"u","delta":"x"}"#, Some("t"), Some("u"));
        check(r#"{"threadId":"t","turn":{"id":"u","items":[{"id":"i"}]}}"#, Some("t"), Some("u"));
        check(r#"{"thread":{"id":"t","turns":[]}}"#, Some("t"), None);
        check(r#"{"conversationId":"t\n","callId":"c"}"#, Some("t\n"), None);
        check(r#"{"threadId":"","turnId":null}"#, None, None);
        check(r#"{"threadId":7}"#, None, None);
        check("[1]", None, None);
        assert_eq!(MessageIds::of(None), MessageIds::default());
    }
}
