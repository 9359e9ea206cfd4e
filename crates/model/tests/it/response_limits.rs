//! Providers that never stop: beyond a limit the request fails, and earlier events are kept.

use codicil_model::{MAX_EVENT_BYTES, MAX_ITEM_BYTES, MAX_RESPONSE_BYTES, ModelError, ModelEvent, WireApi};
use serde_json::{Value, json};

use crate::{
    server::{Answer, Server},
    support::{drain, hello, provider, shell_tool},
};

const PIECE: usize = 1 << 20;

/// Returns the size of all deltas of a response, and the error at its end.
async fn received(wire_api: WireApi, events: Vec<Value>) -> (usize, ModelError) {
    let answer = Answer::sse(events).then_hang();
    received_answer(wire_api, answer).await
}

async fn received_answer(wire_api: WireApi, answer: Answer) -> (usize, ModelError) {
    let server = Server::start([answer]).await;
    let mut request = hello();
    request.tools = [shell_tool()].into_iter().collect();
    let (events, end) = drain(provider(&server.base_url, wire_api).stream(request)).await;
    let text = events.iter().map(|event| match event {
        ModelEvent::TextDelta { delta, .. }
        | ModelEvent::ReasoningSummaryDelta { delta, .. }
        | ModelEvent::ReasoningTextDelta { delta, .. } => delta.len(),
        _ => 0,
    });
    (text.sum(), end.unwrap_err())
}

#[track_caller]
fn check((text, error): (usize, ModelError), kept: usize, reason: &str) {
    assert_eq!(error, ModelError::TooLarge(reason.to_owned()));
    assert_eq!(text, kept);
    assert!(!error.is_retryable(), "a retry would have the same result");
}

const ITEM: &str = "one of its items has more than 8 MiB";
const WHOLE: &str = "it has more than 32 MiB";
const ITEMS: &str = "it has more than 1024 items";

fn piece() -> String {
    "x".repeat(PIECE)
}

#[tokio::test]
async fn a_responses_stream_ends_at_each_limit() {
    let delta = |id: &str| json!({ "type": "response.output_text.delta", "item_id": id, "delta": piece() });
    let text = received(WireApi::Responses, (0..12).map(|_| delta("a")).collect()).await;
    check(text, MAX_ITEM_BYTES, ITEM);
    let many = (0..40).map(|at| delta(&(at / 4).to_string())).collect();
    check(received(WireApi::Responses, many).await, MAX_RESPONSE_BYTES, WHOLE);
    let thought = |at: usize| {
        let kind = if at.is_multiple_of(2) { "reasoning_summary_text" } else { "reasoning_text" };
        json!({ "type": format!("response.{kind}.delta"), "item_id": "r", "delta": piece() })
    };
    check(received(WireApi::Responses, (0..12).map(thought).collect()).await, MAX_ITEM_BYTES, ITEM);
    let call = |at: usize, len: usize| {
        json!({ "type": "response.output_item.done", "item": { "type": "function_call", "id": at.to_string(),
            "call_id": at.to_string(), "name": "f", "arguments": "x".repeat(len) } })
    };
    check(received(WireApi::Responses, vec![call(0, MAX_ITEM_BYTES + 1)]).await, 0, ITEM);
    check(received(WireApi::Responses, (0..1100).map(|at| call(at, 1)).collect()).await, 0, ITEMS);
}

#[tokio::test]
async fn a_chat_stream_ends_at_each_limit() {
    let chunk = |delta: Value| json!({ "id": "c", "choices": [{ "index": 0, "delta": delta }] });
    let text = (0..12).map(|_| chunk(json!({ "content": piece() }))).collect();
    check(received(WireApi::Chat, text).await, MAX_ITEM_BYTES, ITEM);
    let call = |index: usize, text: &str| {
        chunk(json!({ "tool_calls": [{ "index": index, "id": format!("c{index}"),
            "function": { "name": "f", "arguments": text } }] }))
    };
    let piece = piece();
    check(received(WireApi::Chat, (0..12).map(|_| call(0, &piece)).collect()).await, 0, ITEM);
    check(received(WireApi::Chat, (0..40).map(|at| call(at / 4, &piece)).collect()).await, 0, WHOLE);
    check(received(WireApi::Chat, (0..1100).map(|at| call(at, "x")).collect()).await, 0, ITEMS);
}

#[tokio::test]
async fn a_messages_stream_ends_at_each_limit() {
    let start = |index: usize, block: Value| {
        json!({ "type": "content_block_start", "index": index,
        "content_block": block })
    };
    let delta = |delta: Value| json!({ "type": "content_block_delta", "index": 0, "delta": delta });
    let stop = || json!({ "type": "content_block_stop", "index": 0 });
    let flood = |first: Value, more: Value| {
        let mut events = vec![start(0, first)];
        events.extend((0..12).map(|_| delta(more.clone())));
        events
    };
    let tool = json!({ "type": "tool_use", "id": "t", "name": "f", "input": {} });
    let text = flood(json!({ "type": "text" }), json!({ "type": "text_delta", "text": piece() }));
    check(received(WireApi::Anthropic, text).await, MAX_ITEM_BYTES, ITEM);
    let input = flood(tool.clone(), json!({ "type": "input_json_delta", "partial_json": piece() }));
    check(received(WireApi::Anthropic, input).await, 0, ITEM);
    let signature =
        flood(json!({ "type": "thinking" }), json!({ "type": "signature_delta", "signature": piece() }));
    check(received(WireApi::Anthropic, signature).await, 0, ITEM);
    let many = (0..1100).flat_map(|at| [start(at, tool.clone()), stop()]).collect();
    check(received(WireApi::Anthropic, many).await, 0, ITEMS);
}

#[tokio::test]
async fn an_endless_event_is_an_error() {
    let line = format!("data: {}", "x".repeat(MAX_EVENT_BYTES));
    let answer = Answer::stream(&[], &line).then_hang();
    check(received_answer(WireApi::Responses, answer).await, 0, "one of its events has more than 32 MiB");
    let lines = "data: x\n".repeat(MAX_EVENT_BYTES / 8 + 1);
    let answer = Answer::stream(&[], &lines).then_hang();
    check(received_answer(WireApi::Responses, answer).await, 0, "one of its events has more than 32 MiB");
}
