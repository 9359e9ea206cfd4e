//! The Anthropic Messages dialect.

use codicil_testkit::{ModelServer, Script};
use serde_json::{Value, json};

use crate::client::{Event, MESSAGES, events, joined, kinds, post};

fn blocks_started(events: &[Event]) -> Vec<&Value> {
    let started = events.iter().filter(|event| event.kind() == "content_block_start");
    started.map(|event| &event.data["content_block"]).collect()
}

fn said(events: &[Event], field: &str) -> String {
    joined(events, "content_block_delta", &format!("/delta/{field}"))
}

fn stop_reason(events: &[Event]) -> &Value {
    &events.iter().find(|event| event.kind() == "message_delta").unwrap().data["delta"]["stop_reason"]
}

#[tokio::test]
async fn a_message_is_a_text_block() {
    let events = events(Script::new().say("Let me look"), MESSAGES).await;

    assert_eq!(
        kinds(&events),
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    assert!(events.iter().all(|event| event.name.as_deref() == Some(event.kind())));
    assert_eq!(blocks_started(&events), [&json!({ "type": "text", "text": "" })]);
    assert_eq!(said(&events, "text"), "Let me look");
    assert_eq!(stop_reason(&events), "end_turn");
    let message = &events[0].data["message"];
    assert_eq!((&message["id"], &message["model"]), (&json!("msg_0000000001"), &json!("m")));
}

#[tokio::test]
async fn cached_tokens_are_counted_separately() {
    let events = events(Script::new().say("hi").usage(100, 40, 7, 3), MESSAGES).await;
    let tokens = |output: u64| {
        json!({
            "input_tokens": 60, "cache_read_input_tokens": 40, "cache_creation_input_tokens": 0,
            "output_tokens": output,
        })
    };
    assert_eq!(events[0].data["message"]["usage"], tokens(1));
    assert_eq!(events[events.len() - 2].data["usage"], tokens(7));
}

#[tokio::test]
async fn thinking_is_signed() {
    let events = events(Script::new().think("a b").say("c"), MESSAGES).await;
    assert_eq!(said(&events, "thinking"), "a b");
    assert_eq!(said(&events, "signature"), "sig_0000000001");
    let started: Vec<&Value> = blocks_started(&events).into_iter().map(|block| &block["type"]).collect();
    assert_eq!(started, ["thinking", "text"]);
    let indices: Vec<&Value> = events
        .iter()
        .filter(|event| event.kind() == "content_block_stop")
        .map(|event| &event.data["index"])
        .collect();
    assert_eq!(indices, [0, 1]);
}

#[tokio::test]
async fn a_call_is_a_tool_use() {
    let events = events(Script::new().call("ls", json!({ "p": "/" })), MESSAGES).await;
    assert_eq!(
        blocks_started(&events),
        [&json!({ "type": "tool_use", "id": "call_0000000001", "name": "ls", "input": {} })]
    );
    assert_eq!(said(&events, "partial_json"), r#"{"p":"/"}"#);
    assert_eq!(stop_reason(&events), "tool_use");
}

#[tokio::test]
async fn a_custom_call_is_a_tool_use_with_an_input() {
    let events =
        events(Script::new().custom_call("apply_patch", "say \"hi\"\n").call_id("c"), MESSAGES).await;
    assert_eq!(blocks_started(&events)[0]["id"], "c");
    let input: Value = serde_json::from_str(&said(&events, "partial_json")).unwrap();
    assert_eq!(input, json!({ "input": "say \"hi\"\n" }));
}

#[tokio::test]
async fn a_web_search_is_a_tool_of_the_server() {
    let events = events(Script::new().web_search("weather").raw(json!({ "type": "ping" })), MESSAGES).await;
    let started: Vec<&Value> = blocks_started(&events).into_iter().map(|block| &block["type"]).collect();
    assert_eq!(started, ["server_tool_use", "web_search_tool_result"]);
    assert_eq!(said(&events, "partial_json"), r#"{"query":"weather"}"#);
    assert_eq!(stop_reason(&events), "end_turn");
    assert_eq!(events.iter().filter(|event| event.kind() == "ping").count(), 2);
}

#[tokio::test]
async fn early_endings_have_a_stop_reason() {
    let check = async |reason: &str, expected: &str| {
        let events = events(Script::new().say("x").incomplete(reason), MESSAGES).await;
        assert_eq!(stop_reason(&events), expected);
    };
    check("max_output_tokens", "max_tokens").await;
    check("content_filter", "refusal").await;
    check("pause_turn", "pause_turn").await;
}

#[tokio::test]
async fn a_failure_ends_the_stream_with_an_error_event() {
    let events = events(Script::new().say("x").fail("overloaded_error", "busy"), MESSAGES).await;
    let error = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } });
    assert_eq!(events.last().unwrap(), &Event { name: Some("error".to_owned()), data: error });
}

#[tokio::test]
async fn without_a_stream_the_message_is_one_json_object() {
    let script = Script::new().think("t").say("hi").call("x", json!({ "a": 1 })).custom_call("y", "z");
    let server = ModelServer::start(script).await;
    let message = post(&server, MESSAGES, json!({ "model": "m" })).await.json().await;
    assert_eq!(
        message["content"],
        json!([
            { "type": "thinking", "thinking": "t", "signature": "sig_0000000001" },
            { "type": "text", "text": "hi" },
            { "type": "tool_use", "id": "call_0000000001", "name": "x", "input": { "a": 1 } },
            { "type": "tool_use", "id": "call_0000000002", "name": "y", "input": { "input": "z" } },
        ])
    );
    assert_eq!(
        (&message["stop_reason"], &message["usage"]["output_tokens"]),
        (&json!("tool_use"), &json!(10))
    );
}
