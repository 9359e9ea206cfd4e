//! The four kinds of messages, and invalid ones.

use codicil_protocol::{
    Frame, ThreadClosed, ThreadClosedNotification, ThreadRead, ThreadReadParams,
    rpc::{ErrorObject, Message, RequestId},
};
use proptest::prelude::*;
use serde_json::json;

#[test]
fn kinds_of_messages_are_distinguished() {
    let kind = |text: &str| match Message::parse(text) {
        Ok(Message::Request { .. }) => "request",
        Ok(Message::Notification { .. }) => "notification",
        Ok(Message::Response { .. }) => "response",
        Ok(Message::Error { .. }) => "error",
        Err(_) => "none",
    };
    for (text, expected) in [
        (r#"{"id":1,"method":"m"}"#, "request"),
        (r#"{"id":"","method":"","params":[]}"#, "request"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{},"trace":{},"other":[]}"#, "request"),
        (r#"{"method":"m"}"#, "notification"),
        (r#"{"method":"m","params":null}"#, "notification"),
        (r#"{"id":1,"result":null}"#, "response"),
        (r#"{"id":1,"result":{"error":1}}"#, "response"),
        (r#"{"id":1,"error":{"code":-1,"message":"m"}}"#, "error"),
        (r#"{"id":1,"error":{"code":-1,"message":"m","data":[1]}}"#, "error"),
        (r#"{"id":null,"method":"m"}"#, "none"),
        (r#"{"id":1.0,"method":"m"}"#, "none"),
        (r#"{"id":[1],"method":"m"}"#, "none"),
        (r#"{"id":1}"#, "none"),
        (r#"{"result":1}"#, "none"),
        (r#"{"id":1,"error":"text"}"#, "none"),
        (r#"{"id":1,"method":5}"#, "none"),
        ("{}", "none"),
        ("[]", "none"),
        ("", "none"),
    ] {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn messages_are_written_without_a_version() {
    let text = |frame: Frame| String::from_utf8(frame.bytes().to_vec()).unwrap();
    let id = RequestId::Integer(-7);
    let params = ThreadReadParams { thread_id: "t".into(), include_turns: true };
    assert_eq!(
        text(Frame::request::<ThreadRead>(&id, &params)),
        r#"{"method":"thread/read","id":-7,"params":{"threadId":"t","includeTurns":true}}"#
    );
    let closed = ThreadClosedNotification { thread_id: "t".into() };
    assert_eq!(
        text(Frame::notification::<ThreadClosed>(&closed)),
        r#"{"method":"thread/closed","params":{"threadId":"t"}}"#
    );
    let id = RequestId::String("a\"b".into());
    assert_eq!(text(Frame::response(&id, &json!({}))), r#"{"id":"a\"b","result":{}}"#);
    let error = ErrorObject { code: -32600, message: "no".into(), data: None };
    assert_eq!(text(Frame::error(&id, &error)), r#"{"error":{"code":-32600,"message":"no"},"id":"a\"b"}"#);
}

proptest! {
    #[test]
    fn ids_keep_their_type_and_value(number in any::<i64>(), word in any::<String>()) {
        for id in [RequestId::Integer(number), RequestId::String(word)] {
            let text = json!({ "id": id, "method": "m" }).to_string();
            let Ok(Message::Request { id: read, .. }) = Message::parse(&text) else { panic!("{text}") };
            prop_assert_eq!(read, id);
        }
    }

    #[test]
    fn arbitrary_input_does_not_panic(text in any::<String>()) {
        let _ = Message::parse(&text);
        let _ = Message::parse(&format!("{{\"id\":1,\"method\":{text}}}"));
    }
}
