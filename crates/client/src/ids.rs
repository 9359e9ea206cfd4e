//! Which thread and turn a message belongs to, read without knowing its type.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The ids that a message names. Older servers name neither.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ids<'a> {
    pub thread: Option<Cow<'a, str>>,
    pub turn: Option<Cow<'a, str>>,
}

impl<'a> Ids<'a> {
    /// Nothing when the params are no object, or name ids that are not texts.
    pub fn of(params: Option<&'a RawValue>) -> Self {
        let read = params.and_then(|params| serde_json::from_str::<Members<'a>>(params.get()).ok());
        let Some(members) = read else { return Self::default() };
        let named = |id: Option<Text<'a>>, object: Option<Object<'a>>| {
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
struct Members<'a> {
    #[serde(borrow)]
    thread_id: Option<Text<'a>>,
    #[serde(borrow)]
    conversation_id: Option<Text<'a>>,
    #[serde(borrow)]
    turn_id: Option<Text<'a>>,
    #[serde(borrow)]
    thread: Option<Object<'a>>,
    #[serde(borrow)]
    turn: Option<Object<'a>>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    id: Option<Text<'a>>,
}

/// Borrowed as long as nothing in it is escaped.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_wherever_the_protocol_puts_them() {
        let check = |json: &str, thread: Option<&str>, turn: Option<&str>| {
            let raw: Box<RawValue> = serde_json::from_str(json).unwrap();
            let ids = Ids::of(Some(&raw));
            assert_eq!((ids.thread.as_deref(), ids.turn.as_deref()), (thread, turn), "{json}");
        };
        check(r#"{"threadId":"t","turnId":"u","delta":"x"}"#, Some("t"), Some("u"));
        check(r#"{"threadId":"t","turn":{"id":"u","items":[{"id":"i"}]}}"#, Some("t"), Some("u"));
        check(r#"{"thread":{"id":"t","turns":[]}}"#, Some("t"), None);
        check(r#"{"conversationId":"t\n","callId":"c"}"#, Some("t\n"), None);
        check(r#"{"threadId":"","turnId":null}"#, None, None);
        check(r#"{"threadId":7}"#, None, None);
        check("[1]", None, None);
        assert_eq!(Ids::of(None), Ids::default());
    }
}
