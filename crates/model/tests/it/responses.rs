//! The Responses dialect: requests and events.

use std::sync::Arc;

use codicil_model::{History, ModelError, ReasoningOptions, ToolGrammar, ToolSpec, WireApi};
use codicil_protocol::{ReasoningEffort, ReasoningSummary, ServiceTier, Verbosity};
use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    server::{Answer, Server},
    support::{
        assistant, call, config, configured, drain, events, hello, output, patch_tool, provider, request,
        shell_tool, transcript, user,
    },
};

fn completed() -> Value {
    json!({"type": "response.completed", "response": {"id": "resp_1", "usage": {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40},
        "output_tokens": 10, "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 110}}})
}

fn whole_answer() -> Vec<Value> {
    vec![
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.output_item.added", "item": {"type": "reasoning", "id": "rs_1", "summary": []}}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "summary_index": 0,
               "part": {"type": "summary_text", "text": ""}}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "summary_index": 0, "delta": "Hm"}),
        json!({"type": "response.reasoning_text.delta", "item_id": "rs_1", "content_index": 0, "delta": "raw"}),
        json!({"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs_1",
               "summary": [{"type": "summary_text", "text": "Hm"}], "encrypted_content": "gAAA"}}),
        json!({"type": "response.output_item.added", "item": {"type": "message", "role": "assistant", "id": "msg_1",
               "status": "in_progress", "content": []}}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0,
               "delta": "Hel", "logprobs": []}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "delta": "lo \"you\"\n"}),
        json!({"type": "response.some_future_event", "x": 1}),
        json!({"type": "error", "message": "ignored"}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "role": "assistant", "id": "msg_1",
               "content": [{"type": "output_text", "text": "Hello \"you\"\n", "annotations": []}]}}),
        json!({"type": "response.output_item.done", "item": {"type": "function_call", "id": "fc_1", "call_id": "c1",
               "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}"}}),
        json!({"type": "response.output_item.done", "item": {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2",
               "name": "apply_patch", "input": "*** Begin Patch"}}),
        json!({"type": "response.output_item.done", "item": {"type": "image_generation_call", "id": "ig_1",
               "status": "completed", "result": "AAAA"}}),
        completed(),
    ]
}

const WHOLE_TRANSCRIPT: &str = r#"
added rs_1 thinking [] - -
part rs_1 0
summary rs_1 0 "Hm"
reasoning rs_1 0 "raw"
done rs_1 thinking ["Hm"] - gAAA
added msg_1 assistant []
text msg_1 "Hel"
text msg_1 "lo \"you\"\n"
done msg_1 assistant ["Hello \"you\"\n"]
done fc_1 call c1 exec_command {"cmd":"ls"}
done ct_1 custom c2 apply_patch "*** Begin Patch"
done ig_1 {"id":"ig_1","result":"AAAA","status":"completed","type":"image_generation_call"}
completed resp_1: 100 in (40 cached) 10 out (4 reasoning) 110 total
"#;

#[tokio::test]
async fn every_kind_of_event_is_decoded() {
    let server = Server::start([Answer::sse(whole_answer())]).await;
    let events = events(&provider(&server.base_url, WireApi::Responses), hello()).await;
    assert_eq!(transcript(&events).trim(), WHOLE_TRANSCRIPT.trim());
}

#[tokio::test]
async fn events_without_names_are_decoded_by_type() {
    let text: String = whole_answer().iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
    let server = Server::start([Answer::stream(&[], &text)]).await;
    let events = events(&provider(&server.base_url, WireApi::Responses), hello()).await;
    assert_eq!(transcript(&events).trim(), WHOLE_TRANSCRIPT.trim());
}

#[tokio::test]
async fn headers_report_limits_and_another_model() {
    let headers = [
        ("openai-model", "gpt-5.2-2025-12-11"),
        ("x-codex-primary-used-percent", "12.5"),
        ("x-codex-secondary-used-percent", "40"),
    ];
    let end = json!({"type": "response.completed", "response": {"id": "r", "usage": null}});
    let text = format!("event: response.completed\ndata: {end}\n\n");
    let server = Server::start([Answer::stream(&headers, &text)]).await;
    let events = events(&provider(&server.base_url, WireApi::Responses), hello()).await;
    assert_snapshot!(transcript(&events), @r"
    rerouted gpt-5.2-2025-12-11
    limits 13% 40%
    completed r: no usage
    ");
}

#[tokio::test]
async fn the_request_has_the_keys_of_the_reference() {
    let server = Server::start([Answer::sse([completed()])]).await;
    let mut request = hello();
    request.tools = [
        shell_tool(),
        ToolSpec::Custom {
            name: "apply_patch".into(),
            description: "Edits files.".into(),
            grammar: Some(ToolGrammar { syntax: "lark".into(), definition: "start: x".into() }),
        },
        ToolSpec::WebSearch { external_web_access: false, settings: Default::default() },
    ]
    .into_iter()
    .collect();
    request.reasoning = Some(ReasoningOptions {
        effort: Some(ReasoningEffort::Medium),
        summary: Some(ReasoningSummary::Auto),
    });
    request.prompt_cache_key = Some("thread-1".into());
    request.set_header("originator", "my\nclient");
    request.set_header("session_id", "thread-1");
    events(&provider(&server.base_url, WireApi::Responses), request).await;

    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/v1/responses");
    assert_eq!(sent.header("accept"), Some("text/event-stream"));
    assert_eq!(sent.header("content-type"), Some("application/json"));
    assert_eq!(sent.header("originator"), Some("my_client"));
    assert_eq!(sent.header("session_id"), Some("thread-1"));
    assert_eq!(sent.header("authorization"), None);
    assert_eq!(sent.header("content-length"), Some(sent.body.len().to_string().as_str()));
    assert_eq!(
        sent.json(),
        json!({
            "model": "some-model",
            "instructions": "Be helpful.",
            "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
            "tools": [
                {"type": "function", "name": "exec_command", "description": "Runs a command.", "strict": false,
                 "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}},
                {"type": "custom", "name": "apply_patch", "description": "Edits files.",
                 "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
                {"type": "web_search", "external_web_access": false},
            ],
            "tool_choice": "auto",
            "parallel_tool_calls": false,
            "reasoning": {"effort": "medium", "summary": "auto"},
            "store": false,
            "stream": true,
            "include": ["reasoning.encrypted_content"],
            "prompt_cache_key": "thread-1",
        })
    );
}

#[tokio::test]
async fn settings_of_a_turn_go_where_the_reference_puts_them() {
    let server = Server::start([Answer::sse([completed()]), Answer::sse([completed()])]).await;
    let provider = provider(&server.base_url, WireApi::Responses);
    let mut request = hello();
    request.parallel_tool_calls = true;
    request.reasoning =
        Some(ReasoningOptions { effort: Some(ReasoningEffort::High), summary: Some(ReasoningSummary::None) });
    request.service_tier = Some(ServiceTier::Fast);
    request.verbosity = Some(Verbosity::Low);
    request.output_schema = Some(Arc::new(json!({"type": "object"})));
    events(&provider, request).await;
    events(&provider, hello()).await;

    let [first, second] = &server.requests()[..] else { panic!("two requests") };
    let first = first.json();
    assert_eq!(first["parallel_tool_calls"], json!(true));
    assert_eq!(first["reasoning"], json!({"effort": "high"}));
    assert_eq!(first["service_tier"], json!("priority"));
    assert_eq!(
        first["text"],
        json!({"verbosity": "low", "format": {"type": "json_schema", "name": "codex_output_schema",
               "strict": true, "schema": {"type": "object"}}})
    );
    // A model that is not known to reason, without further settings.
    let second = second.json();
    assert_eq!((&second["reasoning"], &second["include"]), (&Value::Null, &json!([])));
    assert_eq!((second.get("text"), second.get("service_tier")), (None, None));
    assert_eq!(second["tools"], json!([]));
}

#[tokio::test]
async fn a_long_history_is_sent_completely() {
    let items = |n: usize| {
        [
            user(&format!("question {n}: {}", "ä\"\\\n".repeat(n % 50))),
            call(&format!("c{n}"), "exec_command", "{}"),
            output(&format!("c{n}"), &"x".repeat((n * 37) % 5000)),
            assistant(&format!("answer {n}")),
        ]
    };
    let server = Server::start((0..3).map(|_| Answer::sse([completed()]))).await;
    let provider = provider(&server.base_url, WireApi::Responses);

    let mut history = History::new();
    for n in 0..400 {
        history.extend(items(n).map(Into::into) as [codicil_model::HistoryItem; 4]);
        let _ = history.snapshot();
        if n == 200 {
            let mut middle = request([]);
            middle.input = history.snapshot();
            events(&provider, middle).await;
        }
    }
    let mut grown = request([]);
    grown.input = history.snapshot();
    events(&provider, grown).await;
    events(&provider, request((0..400).flat_map(items))).await;

    let sent = server.requests();
    assert!(sent[1].body == sent[2].body, "the same history gives the same bytes");
    assert_eq!(sent[1].json()["input"].as_array().unwrap().len(), 1600);
    let middle = sent[0].json();
    let grown = sent[1].json();
    assert_eq!(middle["input"].as_array().unwrap()[..], grown["input"].as_array().unwrap()[..804]);
}

#[tokio::test]
async fn a_connection_is_reused() {
    let answers = (0..3).map(|_| Answer::sse_kept_alive([completed()]));
    let server = Server::start(answers).await;
    let provider = provider(&server.base_url, WireApi::Responses);
    for _ in 0..3 {
        events(&provider, hello()).await;
    }
    let connections: Vec<_> = server.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [1, 1, 1]);
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let answer = Answer::sse(whole_answer().into_iter().take(8)).then_hang();
    let mut server = Server::start([answer]).await;
    let mut stream = provider(&server.base_url, WireApi::Responses).stream(hello());
    let mut events = Vec::new();
    while events.is_empty() {
        stream.next(&mut events).await.unwrap();
    }
    drop(stream);
    server.client_left().await;
}

#[tokio::test]
async fn a_stream_that_ended_stays_ended() {
    let server = Server::start([Answer::sse([completed()])]).await;
    let mut stream = provider(&server.base_url, WireApi::Responses).stream(hello());
    let mut events = Vec::new();
    while stream.next(&mut events).await.unwrap() == codicil_model::StreamFlow::More {}
    let count = events.len();
    assert_eq!(stream.next(&mut events).await, Ok(codicil_model::StreamFlow::Done));
    assert_eq!(events.len(), count);
}

#[tokio::test]
async fn events_before_a_disconnect_are_returned() {
    let server = Server::start([Answer::sse(whole_answer().into_iter().take(8))]).await;
    let (events, end) = drain(provider(&server.base_url, WireApi::Responses).stream(hello())).await;
    assert_eq!(events.len(), 7);
    assert_eq!(
        end.unwrap_err().to_string(),
        "stream disconnected before completion: stream closed before response.completed"
    );
}

#[tokio::test]
async fn configured_headers_and_query_are_sent() {
    let server = Server::start([Answer::sse([completed()])]).await;
    let provider = configured(codicil_model::ProviderConfig {
        query_params: Some([("api-version".to_owned(), "2026 1".to_owned())].into()),
        http_headers: Some([("x-team".to_owned(), "blue".to_owned())].into()),
        experimental_bearer_token: Some("sk-1".to_owned().into()),
        ..config(&server.base_url)
    });
    let mut request = hello();
    request.tools = [patch_tool()].into_iter().collect();
    events(&provider, request).await;
    let sent = &server.requests()[0];
    assert_eq!(sent.path, "/v1/responses?api-version=2026+1");
    assert_eq!(sent.header("x-team"), Some("blue"));
    assert_eq!(sent.header("authorization"), Some("Bearer sk-1"));
}

#[tokio::test]
async fn refusals_and_halves_of_characters() {
    let item =
        |content: Value| json!({"type": "message", "id": "m", "role": "assistant", "content": content});
    let refusal = json!([{"type": "refusal", "refusal": "No."}]);
    let text = [
        "event: response.output_item.added\ndata: {\"item\": {\"type\": \"message\", \"id\": \"m\", \"role\": \"assistant\", \"content\": []}}\n\n".to_owned(),
        format!("event: response.refusal.delta\ndata: {}\n\n", json!({"item_id": "m", "delta": "No."})),
        format!("event: response.output_item.done\ndata: {}\n\n", json!({"item": item(refusal)})),
        r#"data: {"type": "response.output_text.delta", "item_id": "n", "delta": "\ud83d"}"#.to_owned() + "\n\n",
        r#"data: {"type": "response.output_text.delta", "item_id": "n", "delta": "\ude00"}"#.to_owned() + "\n\n",
        r#"data: {"type": "response.output_item.done", "item": {"type": "message", "id": "n", "role": "assistant", "content": [{"type": "output_text", "text": "\ud83d\ude00 \ud83d"}]}}"#.to_owned() + "\n\n",
        r#"data: {"type": "response.output_item.done", "item": {"type": "function_call", "id": "f", "status": "incomplete", "name": "x", "arguments": "{", "call_id": "c"}}"#.to_owned() + "\n\n",
        r#"data: {"type": "response.incomplete", "response": {"id": "r", "incomplete_details": {"reason": "max_output_tokens"}, "usage": {"input_tokens": 9.0, "output_tokens": null, "total_tokens": "9"}}}"#.to_owned() + "\n\n",
    ]
    .concat();
    let server = Server::start([Answer::stream(&[], &text)]).await;
    let (events, end) = drain(provider(&server.base_url, WireApi::Responses).stream(hello())).await;
    let shown = transcript(&events) + &format!("error {}\n", end.unwrap_err());
    assert_snapshot!(shown, @r#"
    added m assistant []
    text m "No."
    done m assistant ["No."]
    text n ""
    text n "😀"
    done n assistant ["😀 �"]
    used 9 in (0 cached) 0 out (0 reasoning) 9 total
    error stream disconnected before completion: Incomplete response returned, reason: max_output_tokens
    "#);
}

#[tokio::test]
async fn a_whole_response_is_read_like_a_stream() {
    let whole = json!({"id": "r", "object": "response", "status": "completed", "error": null, "output": [
        {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
        {"type": "function_call", "id": "f", "name": "x", "arguments": "{}", "call_id": "c"},
    ], "usage": {"input_tokens": 9, "output_tokens": 1}});
    let server =
        Server::start([Answer::status(200, &[("content-type", "application/json")], &whole.to_string())])
            .await;
    assert_snapshot!(transcript(&events(&provider(&server.base_url, WireApi::Responses), hello()).await), @r#"
    done m assistant ["Hi"]
    done f call c x {}
    completed r: 9 in (0 cached) 1 out (0 reasoning) 10 total
    "#);

    // Some servers send `response.completed` for every status.
    let ended = json!({"type": "response.completed", "response": {"id": "r", "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"}}});
    let server = Server::start([Answer::sse([ended])]).await;
    let (_, end) = drain(provider(&server.base_url, WireApi::Responses).stream(hello())).await;
    assert_eq!(end, Err(ModelError::Incomplete("max_output_tokens".to_owned())));
}
