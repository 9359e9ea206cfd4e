//! Script files of the scripted provider, played over HTTP.

use codicil_testkit::{ModelServer, script_file_replies};
use serde_json::{Value, json};

use crate::client::{CHAT, DIALECTS, MESSAGES, RESPONSES, joined, post};

const SCRIPT: &str = r#"
[[reply]]
when = { user = "look", step = 0 }
steps = [{ think = "hm" }, { say = "Let me look." }, { run = "ls" }]

[[reply]]
when = { user = "look", step = 1 }
steps = [{ say = "I see {output}" }, { usage = { input = 7, output = 3 } }]

[[reply]]
when = { user = "refuse" }
steps = [{ fail = { status = 429, retry_after = 5 } }]

[[reply]]
when = { user = "cut" }
steps = [{ say = "Half" }, { fail = "cut" }]

[[reply]]
when = {}
steps = [{ say = "You said {user}" }]
"#;

async fn server() -> ModelServer {
    ModelServer::start(codicil_model::Script::parse(SCRIPT).unwrap()).await
}

/// Returns a request with a text, in the form of a dialect.
fn body(path: &str, text: &str) -> Value {
    let message = json!({ "role": "user", "content": text });
    match path {
        RESPONSES => json!({ "input": [message], "tools": [{ "type": "function", "name": "exec_command" }] }),
        CHAT => json!({ "messages": [message],
            "tools": [{ "type": "function", "function": { "name": "exec_command" } }] }),
        _ => json!({ "messages": [message], "tools": [{ "name": "exec_command" }] }),
    }
}

#[tokio::test]
async fn every_dialect_plays_the_script() {
    let server = server().await;
    for path in DIALECTS {
        let answer = post(&server, path, body(path, "hello")).await.json().await;
        assert!(answer.to_string().contains("You said hello"), "{path}: {answer}");
        let answer = post(&server, path, body(path, "look")).await.json().await.to_string();
        assert!(answer.contains("Let me look.") && answer.contains("exec_command"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn the_output_of_a_call_selects_the_next_reply() {
    let server = server().await;
    let user = json!({ "role": "user", "content": "look" });
    let conversations = [
        (
            RESPONSES,
            json!({ "input": [user,
            { "type": "function_call", "call_id": "c", "name": "exec_command", "arguments": "{}" },
            { "type": "function_call_output", "call_id": "c", "output": "two files" }] }),
        ),
        (
            CHAT,
            json!({ "messages": [user,
            { "role": "assistant", "tool_calls": [{ "id": "c", "function": { "name": "exec_command" } }] },
            { "role": "tool", "tool_call_id": "c", "content": "two files" }] }),
        ),
        (
            MESSAGES,
            json!({ "messages": [user,
            { "role": "assistant", "content": [{ "type": "tool_use", "id": "c", "name": "exec_command" }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "two files" }] }] }),
        ),
    ];
    for (path, body) in conversations {
        let answer = post(&server, path, body).await.json().await;
        assert!(answer.to_string().contains("I see two files"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn failures_of_the_script_are_sent() {
    let server = server().await;
    let refused = post(&server, RESPONSES, body(RESPONSES, "refuse")).await;
    assert_eq!((refused.status.as_u16(), refused.headers["retry-after"].to_str().unwrap()), (429, "5"));
    let mut cut = body(RESPONSES, "cut");
    cut["stream"] = json!(true);
    assert!(post(&server, RESPONSES, cut).await.events().await.is_err(), "the stream breaks off");
}

#[tokio::test]
async fn an_answer_matches_the_output_schema() {
    let server = server().await;
    let mut asked = body(RESPONSES, "hello");
    asked["stream"] = json!(true);
    let schema = json!({ "type": "object", "properties": { "a": { "enum": [5] } } });
    asked["text"] = json!({ "format": { "type": "json_schema", "schema": schema } });
    let events = post(&server, RESPONSES, asked).await.events().await.unwrap();
    assert_eq!(joined(&events, "response.output_text.delta", "/delta"), r#"{"a":5}"#);
}

#[tokio::test]
async fn a_closure_can_inspect_requests_before_the_script_answers() {
    let answer = script_file_replies(codicil_model::Script::parse(SCRIPT).unwrap());
    let script = codicil_testkit::Script::new().respond_with(move |request| {
        assert_eq!(request.path(), RESPONSES);
        answer(request)
    });
    let server = ModelServer::start(script).await;
    let answer = post(&server, RESPONSES, json!({ "input": "plain" })).await.json().await;
    assert!(answer.to_string().contains("You said plain"), "{answer}");
}
