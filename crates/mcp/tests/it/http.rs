//! Servers over HTTP.

use std::sync::Arc;

use codicil_mcp::{CallError, McpCall, ModelOutput, ThreadServers, ToolProgress};
use codicil_protocol::McpServerStartupState::{Failed, Ready};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    questions::Person,
    site::{Habits, Site},
    support::{World, call, hanging, soon, text},
};

async fn headers(servers: &ThreadServers) -> Value {
    let outcome = soon(servers.call(call("headers", json!({})))).await.unwrap();
    serde_json::from_str(&text(&outcome)).unwrap()
}

#[tokio::test]
async fn a_server_is_called_with_its_headers() {
    let site = Site::start(Habits::default()).await;
    let world = World::with_environment(&[("TWO", "second"), ("EMPTY", "")]);
    let more = "http_headers = { X-One = 'first' }\nenv_http_headers = { X-Two = 'TWO', X-Three = 'EMPTY' }";
    let (servers, mut reports) = world.join(&site.table(more));
    reports.until("test", Ready).await;
    assert!(soon(servers.tools()).await.get("mcp__test__headers").is_some());
    let seen = headers(&servers).await;
    assert_eq!(
        (&seen["x-one"], &seen["x-two"], &seen["x-three"]),
        (&json!("first"), &json!("second"), &json!(null))
    );
    assert_eq!(seen["mcp-session-id"], "session-1");
    assert_eq!(seen["mcp-protocol-version"], "2025-11-25");
    assert_eq!(seen["authorization"], json!(null));
    let outcome = soon(servers.call(call("headers", json!({})))).await.unwrap();
    assert_eq!(outcome.result.content[0]["extra"], 1, "results are handed on as they are");

    drop(servers);
    soon(async {
        while site.web.count("DELETE", "/mcp") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_token_is_read_from_the_environment() {
    let site = Site::start(Habits { guarded: true, ..Habits::default() }).await;
    site.allow("s3cret");
    let world = World::with_environment(&[("MY_TOKEN", "s3cret")]);
    let (servers, mut reports) = world.join(&site.table("bearer_token_env_var = 'MY_TOKEN'"));
    reports.until("test", Ready).await;
    assert_eq!(headers(&servers).await["authorization"], "Bearer s3cret");

    let (_servers, mut reports) = world.join(&site.table("bearer_token_env_var = 'OTHER_TOKEN'"));
    let error = reports.until("test", Failed).await.error.unwrap();
    assert!(error.ends_with("environment variable OTHER_TOKEN (bearer_token_env_var) is not set"), "{error}");
}

#[tokio::test]
async fn a_server_that_requires_a_login_fails_with_not_signed_in() {
    let site = Site::start(Habits { guarded: true, ..Habits::default() }).await;
    let world = World::new();
    let (_servers, mut reports) = world.join(&site.table(""));
    let error = reports.until("test", Failed).await.error.unwrap();
    assert_eq!(error, "MCP client for `test` failed to start: not signed in");
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_its_url() {
    let world = World::new();
    let (_servers, mut reports) = world.join("[mcp_servers.test]\nurl = 'http://127.0.0.1:1/s3cret'");
    let error = reports.until("test", Failed).await.error.unwrap();
    assert!(error.contains("the server cannot be reached") && error.contains("refused"), "{error}");
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn a_redirect_to_the_trailing_slash_is_followed() {
    let site = Site::start(Habits { redirects: true, ..Habits::default() }).await;
    let world = World::new();
    let (servers, mut reports) = world.join(&site.table(""));
    reports.until("test", Ready).await;
    assert_eq!(headers(&servers).await["mcp-session-id"], "session-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn progress_arrives_as_events() {
    let site = Site::start(Habits::default()).await;
    let world = World::new();
    let (servers, _reports) = world.join(&site.table(""));
    let seen: Arc<Mutex<Vec<ToolProgress>>> = Arc::default();
    let sink = seen.clone();
    let counted = McpCall {
        progress: Some(Arc::new(move |progress| sink.lock().push(progress))),
        ..call("count", json!({}))
    };
    let outcome = soon(servers.call(counted)).await.unwrap();
    assert_eq!(text(&outcome), "counted");
    assert!(matches!(outcome.for_model(), ModelOutput::Text(_)));
    let texts: Vec<String> = seen.lock().iter().map(ToolProgress::text).collect();
    assert_eq!(texts, ["1", "2", "3"]);
}

#[tokio::test]
async fn elicitation_requests_arrive_as_events_of_their_call() {
    let site = Site::start(Habits::default()).await;
    let world = World::new();
    let (one, _reports) = world.join(&site.table(""));
    let (two, _reports) = world.join(&site.table(""));
    let ada = Person::silent();
    let ben = Person::accepting();
    let (hang, begun) = hanging();
    let hang = McpCall { elicitor: Some(ada.clone()), ..hang };
    let cancel = hang.cancel.clone();
    let question = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
    let ask = McpCall { elicitor: Some(ben.clone()), ..call("ask", json!({ "params": question })) };
    let (hung, answered) = soon(async {
        tokio::join!(one.call(hang), async {
            begun.notified().await;
            let answered = two.call(ask).await;
            cancel.cancel();
            answered
        })
    })
    .await;
    assert_eq!(text(&answered.unwrap()), r#"{"action":"accept","content":{}}"#);
    assert_eq!(hung.unwrap_err(), CallError::Cancelled);
    assert!(ada.questions().is_empty());
    assert_eq!(ben.questions().len(), 1);
}

#[tokio::test]
async fn a_lost_session_is_replaced() {
    let site = Site::start(Habits::default()).await;
    let world = World::new();
    let (servers, mut reports) = world.join(&site.table(""));
    reports.until("test", Ready).await;
    assert_eq!(headers(&servers).await["mcp-session-id"], "session-1");
    site.forget_sessions();
    assert_eq!(headers(&servers).await["mcp-session-id"], "session-2");
}

#[tokio::test]
async fn a_long_or_invalid_response_fails_only_its_own_call() {
    let site = Site::start(Habits::default()).await;
    let world = World::new();
    let (servers, _reports) = world.join(&site.table(""));
    for tool in ["huge", "huge_event"] {
        let error = soon(servers.call(call(tool, json!({})))).await.unwrap_err();
        assert!(error.to_string().contains("larger than 16 MiB"), "{tool}: {error}");
    }
    let error = soon(servers.call(call("broken", json!({})))).await.unwrap_err();
    assert_eq!(error.to_string(), "the server's response is not a valid message");
    assert_eq!(headers(&servers).await["mcp-session-id"], "session-1");
}

#[tokio::test]
async fn a_truncated_response_is_an_error() {
    let site = Site::start(Habits::default()).await;
    let world = World::new();
    let (servers, _reports) = world.join(&site.table("tool_timeout_sec = 30"));
    let error = soon(servers.call(call("cut", json!({})))).await.unwrap_err();
    assert!(!matches!(error, CallError::TimedOut(_)), "{error}");
}
