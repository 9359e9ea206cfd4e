//! The Chat Completions dialect.

use codicil_testkit::{ModelServer, Script};
use serde_json::{Value, json};

use crate::client::{CHAT, Event, events, post};

/// Returns the `delta`s of the chunks. The last one is empty and has the finish reason.
fn deltas(events: &[Event]) -> Vec<&Value> {
    events.iter().filter_map(|event| event.data.pointer("/choices/0/delta")).collect()
}

fn finish_reason(events: &[Event]) -> &str {
    events.iter().find_map(|event| event.data.pointer("/choices/0/finish_reason")?.as_str()).unwrap()
}

/// Returns the name and the joined arguments of a streamed call.
fn call(events: &[Event], index: usize) -> (String, String) {
    let fragments = deltas(events).into_iter().filter_map(|delta| delta.pointer("/tool_calls/0"));
    let mut name = String::new();
    let mut arguments = String::new();
    for fragment in fragments.filter(|fragment| fragment["index"] == index) {
        name += fragment["function"]["name"].as_str().unwrap_or_default();
        arguments += fragment["function"]["arguments"].as_str().unwrap();
    }
    (name, arguments)
}

#[tokio::test]
async fn a_message_is_a_role_some_content_and_a_finish_reason() {
    let events = events(Script::new().say_deltas(["Let me ", "look"]), CHAT).await;

    let expected = [
        json!({ "role": "assistant", "content": "" }),
        json!({ "content": "Let me " }),
        json!({ "content": "look" }),
        json!({}),
    ];
    assert_eq!(deltas(&events), expected.iter().collect::<Vec<_>>());
    assert_eq!(finish_reason(&events), "stop");
    assert_eq!(events.last().unwrap().data, "[DONE]");
    let first = &events[0].data;
    assert_eq!((&first["id"], &first["model"]), (&json!("chatcmpl_0000000001"), &json!("m")));
    assert_eq!(first["object"], "chat.completion.chunk");
    assert!(events.iter().all(|event| event.name.is_none()));
    assert!(events.iter().all(|event| event.data.get("usage").is_none()), "nobody asked for it");
}

#[tokio::test]
async fn usage_comes_last_on_request() {
    let server = ModelServer::start(Script::new().say("hi").usage(100, 40, 7, 3)).await;
    let request = json!({ "stream": true, "stream_options": { "include_usage": true } });
    let events = post(&server, CHAT, request).await.events().await.unwrap();

    let chunk = &events[events.len() - 2].data;
    assert_eq!(chunk["choices"], json!([]));
    assert_eq!(
        chunk["usage"],
        json!({
            "prompt_tokens": 100, "prompt_tokens_details": { "cached_tokens": 40 },
            "completion_tokens": 7, "completion_tokens_details": { "reasoning_tokens": 3 }, "total_tokens": 107,
        })
    );
}

#[tokio::test]
async fn reasoning_has_its_own_field() {
    let events = events(Script::new().think("a b").think_raw("c").say("d"), CHAT).await;
    let of = |field: &str| {
        deltas(&events).into_iter().filter_map(|delta| delta[field].as_str()).collect::<String>()
    };
    assert_eq!(of("reasoning_content"), "a bc");
    assert_eq!(of("content"), "d");
}

#[tokio::test]
async fn calls_are_streamed_side_by_side() {
    let script =
        Script::new().say("Both").call("ls", json!({ "p": "/" })).call("cat", json!({})).call_id("c2");
    let events = events(script, CHAT).await;

    assert_eq!(call(&events, 0), ("ls".to_owned(), r#"{"p":"/"}"#.to_owned()));
    assert_eq!(call(&events, 1), ("cat".to_owned(), "{}".to_owned()));
    let begun: Vec<&Value> =
        deltas(&events).into_iter().filter_map(|delta| delta.pointer("/tool_calls/0/id")).collect();
    assert_eq!(begun, ["call_0000000001", "c2"]);
    assert_eq!(finish_reason(&events), "tool_calls");
}

#[tokio::test]
async fn a_custom_call_is_a_function_with_an_input() {
    let events = events(Script::new().custom_call("apply_patch", "say \"hi\"\n"), CHAT).await;
    let (name, arguments) = call(&events, 0);
    assert_eq!(name, "apply_patch");
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), json!({ "input": "say \"hi\"\n" }));
}

#[tokio::test]
async fn a_web_search_is_not_encoded_and_raw_chunks_are() {
    let raw = json!({ "choices": [], "x": 1 });
    let events = events(Script::new().web_search("weather").raw(raw.clone()).say("sun"), CHAT).await;
    assert_eq!(events[1], Event { name: None, data: raw });
    assert_eq!(deltas(&events)[1], &json!({ "content": "sun" }));
}

#[tokio::test]
async fn early_endings_have_a_finish_reason() {
    let check = async |reason: &str, expected: &str| {
        let events = events(Script::new().say("x").incomplete(reason), CHAT).await;
        assert_eq!(finish_reason(&events), expected);
        assert_eq!(events.last().unwrap().data, "[DONE]");
    };
    check("max_output_tokens", "length").await;
    check("content_filter", "content_filter").await;
}

#[tokio::test]
async fn a_failure_ends_the_stream_with_an_error_chunk() {
    let events = events(Script::new().say("x").fail("server_error", "broken"), CHAT).await;
    let last = &events.last().unwrap().data;
    assert_eq!(
        (&last["error"]["code"], &last["error"]["message"]),
        (&json!("server_error"), &json!("broken"))
    );
}

#[tokio::test]
async fn without_a_stream_the_completion_is_one_json_object() {
    let script =
        Script::new().think("t").say("hi").call("x", json!({ "a": 1 })).then().fail("server_error", "broken");
    let server = ModelServer::start(script).await;

    let completion = post(&server, CHAT, json!({ "model": "m" })).await.json().await;
    assert_eq!(completion["object"], "chat.completion");
    assert_eq!(
        completion["choices"][0]["message"],
        json!({
            "role": "assistant", "content": "hi", "reasoning_content": "t",
            "tool_calls": [{
                "id": "call_0000000001", "type": "function",
                "function": { "name": "x", "arguments": "{\"a\":1}" },
            }],
        })
    );
    assert_eq!(completion["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(completion["usage"]["total_tokens"], 110);

    let failure = post(&server, CHAT, json!({ "model": "m" })).await;
    assert_eq!(failure.status, 500);
    assert_eq!(failure.json().await["error"]["message"], "broken");
}
