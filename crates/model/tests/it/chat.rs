//! The Chat Completions dialect: conversion both ways, and the quirks of servers.

use std::sync::Arc;

use codicil_model::{ReasoningOptions, WireApi};
use codicil_protocol::{ReasoningEffort, ResponseItem};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    server::{Answer, Server},
    support::{
        assistant, call, developer, drain, events, hello, item, output, patch_tool, provider, request,
        shell_tool, transcript, user,
    },
};

fn delta(delta: Value) -> Value {
    json!({"id": "chat_1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]})
}

fn finish(reason: &str) -> Value {
    json!({"id": "chat_1", "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

/// Returns the transcript of a response with these chunks and a final `[DONE]`.
async fn received(chunks: impl IntoIterator<Item = Value>) -> String {
    let mut text: String = chunks.into_iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    received_raw(&text).await
}

async fn received_raw(text: &str) -> String {
    received_from(Answer::stream(&[], text)).await
}

async fn received_from(answer: Answer) -> String {
    let server = Server::start([answer]).await;
    let mut request = hello();
    request.tools = [shell_tool(), patch_tool()].into_iter().collect();
    let (events, end) = drain(provider(&server.base_url, WireApi::Chat).stream(request)).await;
    match end {
        Ok(()) => transcript(&events),
        Err(error) => transcript(&events) + &format!("error {error}\n"),
    }
}

#[tokio::test]
async fn reasoning_text_calls_and_usage() {
    let shown = received([
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "Hm, "})),
        delta(json!({"reasoning": "yes."})),
        delta(json!({"content": "Let me "})),
        delta(json!({"content": "look."})),
        delta(json!({"tool_calls": [{"index": 0, "id": "c1", "type": "function",
            "function": {"name": "exec_command", "arguments": ""}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"cmd\":"}}]})),
        delta(json!({"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "apply_patch", "arguments": "{\"input\":\"*** "}}]})),
        delta(json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"ls\"}"}}]})),
        delta(json!({"tool_calls": [{"index": 1, "function": {"arguments": "Begin\"}"}}]})),
        finish("tool_calls"),
        json!({"id": "chat_1", "choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25,
            "prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 2}}}),
    ])
    .await;
    assert_snapshot!(shown, @r#"
    added rs_# thinking [] - -
    reasoning rs_# 0 "Hm, "
    reasoning rs_# 0 "yes."
    done rs_# thinking [] [{"text":"Hm, yes.","type":"reasoning_text"}] chat:reasoning_content
    added msg_# assistant []
    text msg_# "Let me "
    text msg_# "look."
    done msg_# assistant ["Let me look."]
    done fc_# call c1 exec_command {"cmd":"ls"}
    done fc_# custom c2 apply_patch "*** Begin"
    completed chat_1: 20 in (8 cached) 5 out (2 reasoning) 25 total
    "#);
}

#[tokio::test]
async fn servers_that_deviate_from_the_api() {
    // No ids, no index, arguments as an object, no usage.
    let shown = received([
        delta(json!({"tool_calls": [{"function": {"name": "exec_command", "arguments": {"cmd": "ls"}}}]})),
        finish("tool_calls"),
    ])
    .await;
    assert_snapshot!(shown, @r#"
    done fc_# call call_# exec_command {"cmd":"ls"}
    completed chat_1: no usage
    "#);

    // Every call has index 0; the name is repeated; arguments are missing.
    let shown = received([
        delta(json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}}]})),
        delta(json!({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "y"}}]})),
        delta(json!({"tool_calls": [{"index": 0, "id": "b", "function": {"name": "y", "arguments": null}}]})),
        finish("stop"),
    ])
    .await;
    assert_snapshot!(shown, @r"
    done fc_# call a x {}
    done fc_# call b y {}
    completed chat_1: no usage
    ");

    // The connection ends after the finish reason; a patch is sent as plain text.
    let call = delta(
        json!({"tool_calls": [{"id": "p", "function": {"name": "apply_patch", "arguments": "*** Begin Patch"}}]}),
    );
    let shown = received_raw(&format!("data: {call}\n\ndata: {}\n\n", finish("stop"))).await;
    assert_snapshot!(shown, @r#"
    done fc_# custom p apply_patch "*** Begin Patch"
    completed chat_1: no usage
    "#);

    // `choices` is null, an event has no data.
    let shown = received_raw(&format!(
        "data: {{\"choices\": null}}\n\ndata:\n\ndata: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        delta(json!({"content": "Hi"})),
        finish("stop")
    ))
    .await;
    assert_snapshot!(shown, @r#"
    added msg_# assistant []
    text msg_# "Hi"
    done msg_# assistant ["Hi"]
    completed chat_1: no usage
    "#);
}

#[tokio::test]
async fn an_event_that_cannot_be_read_breaks_the_stream() {
    let shown =
        received_raw(&format!("data: {}\n\ndata: oops\n\ndata: [DONE]\n\n", delta(json!({"content": "Hi"}))))
            .await;
    assert_snapshot!(shown, @r#"
    added msg_# assistant []
    text msg_# "Hi"
    error stream disconnected before completion: an event of the provider cannot be read: expected value at line 1 column 1
    "#);
}

#[tokio::test]
async fn halves_of_characters_are_joined() {
    let raw = |delta: &str| format!("data: {{\"id\": \"c\", \"choices\": [{{\"delta\": {delta}}}]}}\n\n");
    let shown = received_raw(
        &[
            raw(r#"{"reasoning_content": "A \ud83d"}"#),
            raw(r#"{"reasoning_content": "\ude00"}"#),
            raw(r#"{"content": "Hi \ud83d"}"#),
            raw(r#"{"content": "\ude00 and \ud83d"}"#),
            raw(r#"{"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "exec_command", "arguments": "{\"cmd\":\"\ud83d"}}]}"#),
            raw(r#"{"tool_calls": [{"index": 0, "function": {"arguments": "\ude00\"}"}}]}"#),
            "data: [DONE]\n\n".to_owned(),
        ]
        .concat(),
    )
    .await;
    assert_snapshot!(shown, @r#"
    added rs_# thinking [] - -
    reasoning rs_# 0 "A "
    reasoning rs_# 0 "😀"
    done rs_# thinking [] [{"text":"A 😀","type":"reasoning_text"}] chat:reasoning_content
    added msg_# assistant []
    text msg_# "Hi "
    text msg_# "😀 and "
    text msg_# "�"
    done msg_# assistant ["Hi 😀 and �"]
    done fc_# call c1 exec_command {"cmd":"😀"}
    completed c: no usage
    "#);
}

#[tokio::test]
async fn content_in_parts_and_refusals() {
    let shown = received([
        delta(json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]})),
        delta(json!({"content": [{"type": "text", "text": "Hello"}, {"type": "reference", "reference_ids": [1]}]})),
        delta(json!({"content": null, "refusal": ", no."})),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 20.0, "completion_tokens": "5", "total_tokens": null,
            "prompt_tokens_details": null, "completion_tokens_details": {"reasoning_tokens": null}}}),
    ])
    .await;
    assert_snapshot!(shown, @r#"
    added rs_# thinking [] - -
    reasoning rs_# 0 "Hm."
    done rs_# thinking [] [{"text":"Hm.","type":"reasoning_text"}] -
    added msg_# assistant []
    text msg_# "Hello"
    text msg_# ", no."
    done msg_# assistant ["Hello, no."]
    completed chat_1: 20 in (0 cached) 5 out (0 reasoning) 25 total
    "#);
}

#[tokio::test]
async fn inline_reasoning_is_not_part_of_the_message() {
    let pieces = ["<th", "ink>", "Hm", ", yes.</thi", "nk>", "\n\nHello", " you"];
    let chunks = pieces.into_iter().map(|piece| delta(json!({"content": piece}))).chain([finish("stop")]);
    assert_snapshot!(received(chunks).await, @r#"
    added rs_# thinking [] - -
    reasoning rs_# 0 "Hm"
    reasoning rs_# 0 ", yes."
    done rs_# thinking [] [{"text":"Hm, yes.","type":"reasoning_text"}] -
    added msg_# assistant []
    text msg_# "Hello"
    text msg_# " you"
    done msg_# assistant ["Hello you"]
    completed chat_1: no usage
    "#);
}

#[tokio::test]
async fn a_whole_completion_is_read_like_a_stream() {
    let whole = json!({"id": "chat_1", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "tool_calls",
        "message": {"role": "assistant", "content": "Let me look.", "reasoning_content": "Hm.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "exec_command", "arguments": "{\"cmd\":\"ls\"}"}}]}}],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5}});
    let expected = r#"
added rs_# thinking [] - -
reasoning rs_# 0 "Hm."
done rs_# thinking [] [{"text":"Hm.","type":"reasoning_text"}] chat:reasoning_content
added msg_# assistant []
text msg_# "Let me look."
done msg_# assistant ["Let me look."]
done fc_# call c1 exec_command {"cmd":"ls"}
completed chat_1: 20 in (0 cached) 5 out (0 reasoning) 25 total
"#;
    let json = [("content-type", "application/json")];
    let body = whole.to_string();
    assert_eq!(received_from(Answer::status(200, &json, &body)).await, expected.trim_start());
    // Some servers name the type of a stream and send no stream.
    assert_eq!(received_from(Answer::stream(&[], &format!(" {body}"))).await, expected.trim_start());

    let said = async |body: Value| received_from(Answer::status(200, &json, &body.to_string())).await;
    assert_eq!(
        said(json!({"error": {"message": "no such model", "type": "invalid_request_error"}})).await,
        "error no such model\n"
    );
    assert_eq!(
        said(json!({"detail": "wrong address"})).await,
        "error the provider answered with JSON that is no response: wrong address\n"
    );
    // A stream with the type of a document is a stream.
    let stream = format!("data: {}\n\ndata: [DONE]\n\n", delta(json!({"content": "Hi"})));
    assert!(
        received_from(Answer::status(200, &json, &stream)).await.contains("done msg_# assistant [\"Hi\"]")
    );
}

#[tokio::test]
async fn a_finish_reason_counts_when_nothing_follows() {
    let pause = std::time::Duration::from_millis(2300);
    let chunk = |content: &str, reason: Value| {
        let chunk = json!({"id": "c", "choices": [{"delta": {"content": content}, "finish_reason": reason}]});
        format!("data: {chunk}\n\n")
    };
    let usage = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 1, \"completion_tokens\": 2}}\n\n";
    let check = async |answer: Answer, text: &str, end: &str| {
        let shown = received_from(answer).await;
        assert!(shown.contains(&format!("done msg_# assistant [{text:?}]")), "{shown}");
        assert!(shown.trim_end().ends_with(end), "{shown}");
    };
    let counted = "completed c: 1 in (0 cached) 2 out (0 reasoning) 3 total";
    let done = format!("{}{usage}data: [DONE]\n\n", chunk(" world", json!("stop")));
    tokio::join!(
        // Reasons that are none, while the model takes its time.
        check(
            Answer::stream(&[], &chunk("Hello", json!(""))).then_after(pause, &done),
            "Hello world",
            counted
        ),
        check(
            Answer::stream(&[], &chunk("Hello", json!("null"))).then_after(pause, &done),
            "Hello world",
            counted
        ),
        // A reason with every chunk.
        check(
            Answer::stream(&[], &chunk("Hello", json!("stop"))).then_after(pause, &done),
            "Hello world",
            counted
        ),
        // The usage comes late, and the stream never ends.
        check(
            Answer::stream(&[], &(chunk("Hello", Value::Null) + &chunk("", json!("stop"))))
                .then_after(pause, usage)
                .then_hang(),
            "Hello",
            counted
        ),
    );
}

#[tokio::test]
async fn incomplete_responses() {
    // The usage counts, and a truncated call is not emitted.
    let call = json!({"tool_calls": [{"id": "c", "function": {"name": "exec_command", "arguments": "{\"cmd\": \"rm"}}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 5}});
    let cut_off = [delta(json!({"content": "Hi"})), delta(call), finish("length"), usage];
    assert_snapshot!(received(cut_off).await, @r#"
    added msg_# assistant []
    text msg_# "Hi"
    done msg_# assistant ["Hi"]
    used 20 in (0 cached) 5 out (0 reasoning) 25 total
    error stream disconnected before completion: Incomplete response returned, reason: max_output_tokens
    "#);
    let broken = format!("data: {}\n\n", delta(json!({"content": "Hi"})));
    assert_snapshot!(received_raw(&broken).await, @r#"
    added msg_# assistant []
    text msg_# "Hi"
    error stream disconnected before completion: stream closed before the answer was finished
    "#);
    let failed = json!({"error": {"message": "out of memory", "code": 500}});
    assert_snapshot!(received([failed]).await, @"error stream disconnected before completion: out of memory");
    let failed =
        json!({"object": "error", "message": "bad template", "type": "BadRequestError", "code": 400});
    assert_snapshot!(received([failed]).await, @"error bad template");
}

#[tokio::test]
async fn a_history_becomes_messages() {
    let server = Server::start([Answer::sse([finish("stop")])]).await;
    let image = json!({"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]});
    let image_output = json!({"type": "function_call_output", "call_id": "c3", "output": [
        {"type": "input_image", "image_url": "http://example.com/a.png"}]});
    let mut request = request([
        developer("Rules."),
        user("<environment>"),
        user("hello \"you\""),
        item(json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"})),
        assistant("Let me look."),
        call("c1", "exec_command", "{\"cmd\":\"ls\"}"),
        item(
            json!({"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"}),
        ),
        output("c1", "a.txt"),
        item(json!({"type": "custom_tool_call_output", "call_id": "c2", "output": "done"})),
        developer("Later rules."),
        item(image),
        call("c3", "view_image", "not json"),
        item(image_output),
        user("and?"),
        call("c4", "exec_command", "{}"),
    ]);
    request.tools = [shell_tool(), patch_tool()].into_iter().collect();
    request.reasoning = Some(ReasoningOptions { effort: Some(ReasoningEffort::Low), summary: None });
    request.output_schema = Some(Arc::new(json!({"type": "object"})));
    request.set_header("user-agent", "codicil/1");
    request.set_header("session_id", "secret-thread");
    events(&provider(&server.base_url, WireApi::Chat), request).await;

    let sent = &server.requests()[0];
    assert_eq!((sent.path.as_str(), sent.header("user-agent")), ("/v1/chat/completions", Some("codicil/1")));
    assert_eq!(sent.header("session_id"), None);
    let body = sent.json();
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "Be helpful.\n\nRules."},
            {"role": "user", "content": "<environment>\n\nhello \"you\""},
            {"role": "assistant", "content": "Let me look.", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "exec_command", "arguments": "{\"cmd\":\"ls\"}"}},
                {"id": "c2", "type": "function", "function": {"name": "apply_patch", "arguments": "{\"input\":\"*** Begin\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "a.txt"},
            {"role": "tool", "tool_call_id": "c2", "content": "done"},
            {"role": "user", "content": [
                {"type": "text", "text": "Later rules."},
                {"type": "text", "text": "See"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "c3", "type": "function", "function": {"name": "view_image", "arguments": "{\"input\":\"not json\"}"}},
            ]},
            {"role": "tool", "tool_call_id": "c3", "content": "(the result is an image, which follows)"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "http://example.com/a.png"}},
                {"type": "text", "text": "and?"},
            ]},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "c4", "type": "function", "function": {"name": "exec_command", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c4", "content": "aborted"},
        ])
    );
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert_eq!(body["reasoning_effort"], json!("low"));
    assert_eq!(body["response_format"]["json_schema"]["schema"], json!({"type": "object"}));
    assert_eq!(body["tools"][1]["function"]["parameters"]["required"], json!(["input"]));
    assert_eq!(body["parallel_tool_calls"], json!(false));
}

#[tokio::test]
async fn an_output_without_a_call_is_a_message_of_the_user() {
    let server = Server::start([Answer::sse([finish("stop")])]).await;
    let text = json!({"type": "function_call_output", "name": "clock", "output": "It is \"noon\"."});
    let image = json!({"type": "function_call_output", "name": "look", "namespace": "app", "output": [
        {"type": "input_text", "text": "a map"}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]});
    let sound = json!({"type": "function_call_output", "name": "listen", "output": [
        {"type": "input_audio", "audio_url": "http://example.com/a.flac"}]});
    let request = request([
        user("hi"),
        assistant("Hello."),
        item(text),
        assistant("Lunch."),
        item(image),
        assistant("Go on."),
        item(sound),
    ]);
    events(&provider(&server.base_url, WireApi::Chat), request).await;
    assert_eq!(
        server.requests()[0].json()["messages"],
        json!([
            {"role": "system", "content": "Be helpful."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Output of `clock`:\n\nIt is \"noon\"."},
            {"role": "assistant", "content": "Lunch."},
            {"role": "user", "content": [
                {"type": "text", "text": "Output of `app__look`:"},
                {"type": "text", "text": "a map"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
            ]},
            {"role": "assistant", "content": "Go on."},
            {"role": "user", "content": [
                {"type": "text", "text": "Output of `listen`:"},
                {"type": "text", "text": "(audio that this model cannot hear)"},
            ]},
        ])
    );
}

#[tokio::test]
async fn reasoning_goes_back_with_its_tool_calls_until_the_user_writes() {
    let reasoning = |text: &str, mark: Option<&str>| {
        item(json!({"type": "reasoning", "summary": [], "encrypted_content": mark,
            "content": [{"type": "reasoning_text", "text": text}]}))
    };
    let content = Some("chat:reasoning_content");
    let messages = async |items: Vec<ResponseItem>| {
        let server = Server::start([Answer::sse([finish("stop")])]).await;
        events(&provider(&server.base_url, WireApi::Chat), request(items)).await;
        server.requests()[0].json()["messages"].as_array().unwrap()[1..].to_vec()
    };
    let tool_loop = || {
        vec![
            user("hello"),
            reasoning("first \"thought\"", content),
            assistant("Let me look."),
            call("c1", "exec_command", "{}"),
            output("c1", "a.txt"),
            reasoning("second", Some("chat:reasoning")),
            call("c2", "exec_command", "{}"),
            output("c2", "b.txt"),
            reasoning("inline", None),
            call("c3", "exec_command", "{}"),
            output("c3", "c.txt"),
        ]
    };
    let sent = messages(tool_loop()).await;
    assert_eq!(sent[1]["reasoning_content"], json!("first \"thought\""));
    assert_eq!(sent[1]["content"], json!("Let me look."));
    assert_eq!((&sent[3]["reasoning"], &sent[3]["reasoning_content"]), (&json!("second"), &Value::Null));
    assert_eq!((&sent[5]["reasoning"], &sent[5]["reasoning_content"]), (&Value::Null, &Value::Null));

    let later = messages([tool_loop(), vec![assistant("Done."), user("thanks")]].concat()).await;
    assert!(later.iter().all(|message| message.get("reasoning_content").is_none()), "{later:?}");
    assert!(later.iter().all(|message| message.get("reasoning").is_none()), "{later:?}");
}
