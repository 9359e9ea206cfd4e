//! The Messages dialect: conversion both ways, thinking, caching.

use std::sync::Arc;

use codicil_model::{ModelEvent, ModelRequest, ReasoningOptions, WireApi};
use codicil_protocol::{ReasoningEffort, ReasoningSummary, ResponseItem, ServiceTier};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    server::{Answer, Server},
    support::{
        assistant, call, developer, drain, error, events, hello, item, output, patch_tool, provider, request,
        shell_tool, transcript, user,
    },
};

fn start(usage: Value) -> Value {
    json!({"type": "message_start", "message": {"id": "msg_a", "role": "assistant", "content": [], "usage": usage}})
}

fn block(index: usize, block: Value, deltas: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut events = vec![json!({"type": "content_block_start", "index": index, "content_block": block})];
    events.extend(
        deltas
            .into_iter()
            .map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
    );
    events.push(json!({"type": "content_block_stop", "index": index}));
    events
}

fn stop(reason: &str) -> Vec<Value> {
    vec![
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 30}}),
        json!({"type": "message_stop"}),
    ]
}

fn whole_answer() -> Vec<Value> {
    let mut events = vec![
        start(
            json!({"input_tokens": 10, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 5, "output_tokens": 1}),
        ),
        json!({"type": "ping"}),
    ];
    events.extend(block(
        0,
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        [
            json!({"type": "thinking_delta", "thinking": "Hm, "}),
            json!({"type": "thinking_delta", "thinking": "yes."}),
            json!({"type": "signature_delta", "signature": "Sig=="}),
        ],
    ));
    events.extend(block(1, json!({"type": "redacted_thinking", "data": "Data=="}), []));
    events.extend(block(
        2,
        json!({"type": "text", "text": ""}),
        [json!({"type": "text_delta", "text": "Let me "}), json!({"type": "text_delta", "text": "look."})],
    ));
    events.extend(block(
        3,
        json!({"type": "tool_use", "id": "toolu_1", "name": "exec_command", "input": {}}),
        [
            json!({"type": "input_json_delta", "partial_json": "{\"cmd\":"}),
            json!({"type": "input_json_delta", "partial_json": "\"ls\"}"}),
        ],
    ));
    events.extend(block(
        4,
        json!({"type": "tool_use", "id": "toolu_2", "name": "apply_patch", "input": {}}),
        [json!({"type": "input_json_delta", "partial_json": "{\"input\":\"*** Begin\"}"})],
    ));
    events.extend(stop("tool_use"));
    events
}

fn thinking(effort: ReasoningEffort) -> Option<ReasoningOptions> {
    Some(ReasoningOptions { effort: Some(effort), summary: Some(ReasoningSummary::Auto) })
}

/// Returns the body of a request as the provider received it.
async fn sent(request: ModelRequest) -> Value {
    let server = Server::start([Answer::sse(stop("end_turn"))]).await;
    events(&provider(&server.base_url, WireApi::Anthropic), request).await;
    server.requests()[0].json()
}

#[tokio::test]
async fn thinking_text_calls_and_usage() {
    let server = Server::start([Answer::sse(whole_answer())]).await;
    let mut request = hello();
    request.tools = [shell_tool(), patch_tool()].into_iter().collect();
    let events = events(&provider(&server.base_url, WireApi::Anthropic), request).await;
    assert_eq!(server.requests()[0].path, "/v1/messages");
    assert_snapshot!(transcript(&events), @r#"
    added rs_# thinking [] - -
    part rs_# 0
    summary rs_# 0 "Hm, "
    summary rs_# 0 "yes."
    done rs_# thinking ["Hm, yes."] - anthropic:Sig==
    added rs_# thinking [] - -
    done rs_# thinking [] - anthropic-redacted:Data==
    added msg_# assistant []
    text msg_# "Let me "
    text msg_# "look."
    done msg_# assistant ["Let me look."]
    done fc_# call toolu_1 exec_command {"cmd":"ls"}
    done fc_# custom toolu_2 apply_patch "*** Begin"
    completed msg_a: 95 in (80 cached) 30 out (0 reasoning) 125 total
    "#);
}

#[tokio::test]
async fn items_of_the_model_are_sent_back_unchanged() {
    let server = Server::start([Answer::sse(whole_answer()), Answer::sse(stop("end_turn"))]).await;
    let provider = provider(&server.base_url, WireApi::Anthropic);
    let mut first = hello();
    first.tools = [shell_tool(), patch_tool()].into_iter().collect();
    let mut history: Vec<ResponseItem> = vec![user("hello")];
    for event in events(&provider, first.clone()).await {
        if let ModelEvent::ItemDone { item, .. } = event {
            history.push(*item);
        }
    }
    history.push(output("toolu_1", "a.txt"));
    history.push(item(json!({"type": "custom_tool_call_output", "call_id": "toolu_2", "output": "done"})));
    first.input = history.into_iter().collect();
    events(&provider, first).await;

    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        server.requests()[1].json()["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": cached}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm, yes.", "signature": "Sig=="},
                {"type": "redacted_thinking", "data": "Data=="},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_1", "name": "exec_command", "input": {"cmd": "ls"}},
                {"type": "tool_use", "id": "toolu_2", "name": "apply_patch", "input": {"input": "*** Begin"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.txt"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "content": "done", "cache_control": cached},
            ]},
        ])
    );
}

#[tokio::test]
async fn any_history_becomes_valid_messages() {
    let image = json!({"type": "function_call_output", "call_id": "c.2", "output": [
        {"type": "input_text", "text": "here"}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]});
    let mut request = request([
        developer("Rules."),
        assistant("I was here first."),
        user("hello"),
        item(json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAA-from-elsewhere"})),
        call("c.1", "exec_command", "oops"),
        developer("Told while it ran."),
        call("c.2", "view_image", ""),
        item(image),
        assistant(""),
        assistant("half an ans"),
    ]);
    request.tools = [shell_tool(), patch_tool()].into_iter().collect();
    let body = sent(request).await;
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be helpful."}, {"type": "text", "text": "Rules.", "cache_control": cached}])
    );
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Continue."}]},
            {"role": "assistant", "content": [{"type": "text", "text": "I was here first."}]},
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c_1", "name": "exec_command", "input": {"input": "oops"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c_1", "content": "aborted"},
                {"type": "text", "text": "Told while it ran."}]},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "c_2", "name": "view_image", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c_2", "cache_control": cached, "content": [
                {"type": "text", "text": "here"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]}]},
            {"role": "assistant", "content": [{"type": "text", "text": "half an ans"}]},
            {"role": "user", "content": [{"type": "text", "text": "Continue.", "cache_control": cached}]},
        ])
    );
    assert_eq!(body["tool_choice"], json!({"type": "auto", "disable_parallel_tool_use": true}));
    assert_eq!(body["tools"][1]["input_schema"]["required"], json!(["input"]));
}

#[tokio::test]
async fn an_output_without_a_call_is_a_message_of_the_user() {
    let output = json!({"type": "function_call_output", "name": "look", "output": [
        {"type": "input_text", "text": "a map"}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]});
    let body = sent(request([user("hi"), assistant("Hello."), item(output)])).await;
    let cached = json!({"type": "ephemeral"});
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": cached}]},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
            {"role": "user", "content": [
                {"type": "text", "text": "Output of `look`:", "cache_control": cached},
                {"type": "text", "text": "a map"},
                {"type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]},
        ])
    );
}

#[tokio::test]
async fn the_thinking_mode_depends_on_the_model() {
    let asked = async |model: &str, effort| {
        let mut request = hello();
        request.model = model.into();
        request.reasoning = thinking(effort);
        let body = sent(request).await;
        (body["max_tokens"].clone(), body["thinking"].clone(), body["output_config"].clone())
    };
    let adaptive = json!({"type": "adaptive", "display": "summarized"});
    assert_eq!(
        asked("claude-opus-5-5", ReasoningEffort::Xhigh).await,
        (json!(128_000), adaptive.clone(), json!({"effort": "xhigh"}))
    );
    assert_eq!(
        asked("claude-opus-4-6", ReasoningEffort::Xhigh).await,
        (json!(64_000), adaptive, json!({"effort": "high"}))
    );
    assert_eq!(
        asked("claude-haiku-4-5-20251001", ReasoningEffort::Medium).await,
        (json!(64_000), json!({"type": "enabled", "budget_tokens": 12_288}), Value::Null)
    );
    assert_eq!(
        asked("claude-sonnet-5-5", ReasoningEffort::None).await,
        (json!(128_000), Value::Null, json!({"effort": "low"}))
    );
    assert_eq!(
        asked("unknown", ReasoningEffort::High).await,
        (json!(32_000), json!({"type": "enabled", "budget_tokens": 16_000}), Value::Null)
    );
    let other = |name: &str| ReasoningEffort::Unrecognized(name.to_owned());
    let effort = async |model: &str, name: &str| asked(model, other(name)).await.2["effort"].clone();
    assert_eq!(effort("claude-opus-5-5", "max").await, "xhigh", "the most that the model has");
    assert_eq!(effort("claude-opus-4-6", "ultra").await, "high");
    assert_eq!(effort("claude-sonnet-5-5", "whatever").await, "high", "the model's default");
    let budget = asked("claude-haiku-4-5-20251001", other("max")).await.1["budget_tokens"].clone();
    assert_eq!(budget, 32_000);
}

#[tokio::test]
async fn tiers_have_names_of_their_own() {
    let asked = async |tier: ServiceTier| {
        let request = ModelRequest { service_tier: Some(tier), ..hello() };
        sent(request).await.get("service_tier").cloned()
    };
    let other = |name: &str| ServiceTier::Unrecognized(name.to_owned());
    assert_eq!(asked(ServiceTier::Fast).await, Some(json!("auto")));
    assert_eq!(asked(other("priority")).await, Some(json!("auto")));
    assert_eq!(asked(other("standard_only")).await, Some(json!("standard_only")));
    assert_eq!(asked(ServiceTier::Flex).await, None);
}

#[tokio::test]
async fn an_output_schema_is_enforced_or_described() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    let mut request = hello();
    request.model = "claude-sonnet-5-5".into();
    request.output_schema = Some(Arc::new(schema.clone()));
    let format = sent(request.clone()).await["output_config"]["format"].clone();
    assert_eq!(format["schema"]["properties"], json!({"n": {"type": "integer"}}));

    request.model = "unknown".into();
    let body = sent(request).await;
    assert_eq!(body.get("output_config"), None);
    assert!(body["system"][1]["text"].as_str().unwrap().contains(&schema.to_string()));
}

#[tokio::test]
async fn rejected_thinking_is_omitted() {
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error", "message":
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."}});
    let refuse = Answer::status(400, &[], &refusal.to_string());
    let server = Server::start([refuse, Answer::sse(stop("end_turn"))]).await;
    let request = request([
        user("hello"),
        item(json!({"type": "reasoning", "summary": [], "encrypted_content": "anthropic:Sig"})),
        assistant("hi"),
        user("and?"),
    ]);
    events(&provider(&server.base_url, WireApi::Anthropic), request).await;
    let kinds = |at: usize| {
        let body = server.requests()[at].json();
        let blocks = body["messages"][1]["content"].as_array().unwrap().clone();
        blocks.iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (kinds(0), kinds(1)),
        (vec!["thinking".to_owned(), "text".to_owned()], vec!["text".to_owned()])
    );
}

#[tokio::test]
async fn incomplete_responses() {
    let text =
        || block(0, json!({"type": "text", "text": ""}), [json!({"type": "text_delta", "text": "Hi"})]);
    let tool = || {
        block(
            1,
            json!({"type": "tool_use", "id": "t", "name": "x"}),
            [json!({"type": "input_json_delta", "partial_json": "{\"a"})],
        )
    };
    let ended = async |events: Vec<Value>| {
        let server = Server::start([Answer::sse(events)]).await;
        let (events, end) = drain(provider(&server.base_url, WireApi::Anthropic).stream(hello())).await;
        format!("{} events, {}", events.len(), end.unwrap_err())
    };
    // A truncated call is not emitted.
    assert_eq!(
        ended([text(), tool(), stop("max_tokens")].concat()).await,
        "4 events, stream disconnected before completion: Incomplete response returned, reason: max_output_tokens"
    );
    assert_eq!(
        ended(stop("refusal")).await,
        "1 events, stream disconnected before completion: Incomplete response returned, reason: refusal"
    );
    assert_eq!(
        ended(text()).await,
        "3 events, stream disconnected before completion: stream closed before message_stop"
    );
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    assert_eq!(
        ended(vec![overloaded]).await,
        "0 events, the model is overloaded at the moment; try again later or choose another model: Overloaded"
    );
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_recognised() {
    let message = "prompt is too long: 210000 tokens > 200000 maximum";
    let refusal = json!({"type": "error", "error": {"type": "invalid_request_error", "message": message}});
    for answer in [Answer::status(400, &[], &refusal.to_string()), Answer::sse([refusal.clone()])] {
        let server = Server::start([answer]).await;
        let error = error(&provider(&server.base_url, WireApi::Anthropic), hello()).await.to_turn_error();
        assert_eq!(json!(error.codex_error_info), json!("contextWindowExceeded"));
        assert_eq!(error.additional_details.as_deref(), Some(message));
    }
}

/// Returns the transcript of a response, with its error.
async fn received(answer: Answer) -> String {
    let server = Server::start([answer]).await;
    let mut request = hello();
    request.tools = [shell_tool()].into_iter().collect();
    let (events, end) = drain(provider(&server.base_url, WireApi::Anthropic).stream(request)).await;
    match end {
        Ok(()) => transcript(&events),
        Err(error) => transcript(&events) + &format!("error {error}\n"),
    }
}

#[tokio::test]
async fn blocks_that_overlap_are_kept_apart() {
    let start = |index: i64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta =
        |index: i64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let end = |index: i64| json!({"type": "content_block_stop", "index": index});
    let events = [
        json!({"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": "7", "output_tokens": null}}}),
        start(0, json!({"type": "text", "text": ""})),
        start(1, json!({"type": "tool_use", "id": "t1", "name": "exec_command"})),
        delta(0, json!({"type": "text_delta", "text": "Let me "})),
        start(2, json!({"type": "tool_use", "id": "t2", "name": "exec_command"})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "{\"cmd\":"})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"cmd\":\"pwd\"}"})),
        delta(0, json!({"type": "text_delta", "text": "look."})),
        delta(1, json!({"type": "input_json_delta", "partial_json": "\"ls\"}"})),
        end(0),
        end(2),
        end(1),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3.0}}),
        json!({"type": "message_stop"}),
    ];
    assert_snapshot!(received(Answer::sse(events)).await, @r#"
    added msg_# assistant []
    text msg_# "Let me "
    text msg_# "look."
    done msg_# assistant ["Let me look."]
    done fc_# call t2 exec_command {"cmd":"pwd"}
    done fc_# call t1 exec_command {"cmd":"ls"}
    completed m: 7 in (0 cached) 3 out (0 reasoning) 10 total
    "#);
}

#[tokio::test]
async fn a_block_without_an_index_comes_after_the_last_one() {
    let text = json!({"type": "text", "text": "b"});
    let events = [
        json!({"type": "message_start", "message": {"id": "m"}}),
        json!({"type": "content_block_start", "index": i64::MAX, "content_block": {"type": "text", "text": "a"}}),
        json!({"type": "content_block_start", "content_block": text}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ];
    assert_snapshot!(received(Answer::sse(events)).await, @r#"
    added msg_# assistant []
    text msg_# "a"
    done msg_# assistant ["a"]
    added msg_# assistant []
    text msg_# "b"
    done msg_# assistant ["b"]
    completed m: 0 in (0 cached) 0 out (0 reasoning) 0 total
    "#);
}

#[tokio::test]
async fn a_whole_message_is_read_like_a_stream() {
    let whole = json!({"id": "m", "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "Sig"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "t", "name": "exec_command", "input": {"cmd": "ls"}},
    ], "usage": {"input_tokens": 7, "output_tokens": 3}});
    let json = [("content-type", "application/json")];
    assert_snapshot!(received(Answer::status(200, &json, &whole.to_string())).await, @r#"
    added rs_# thinking [] - -
    part rs_# 0
    summary rs_# 0 "Hm."
    done rs_# thinking ["Hm."] - anthropic:Sig
    added msg_# assistant []
    text msg_# "Let me look."
    done msg_# assistant ["Let me look."]
    done fc_# call t exec_command {"cmd":"ls"}
    completed m: 7 in (0 cached) 3 out (0 reasoning) 10 total
    "#);
    let failed = json!({"type": "error", "error": {"type": "api_error", "message": "the disk is full"}});
    assert_snapshot!(received(Answer::status(200, &json, &failed.to_string())).await,
        @"error stream disconnected before completion: the disk is full");
}

#[tokio::test]
async fn a_stream_that_ends_after_its_stop_reason_is_complete() {
    let events = [
        json!({"type": "message_start", "message": {"id": "m"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ];
    assert_snapshot!(received(Answer::sse(events)).await, @r#"
    added msg_# assistant []
    text msg_# "Hi"
    done msg_# assistant ["Hi"]
    completed m: 0 in (0 cached) 0 out (0 reasoning) 0 total
    "#);
}
