//! Tool calls: results, progress, errors, cancellation, timeouts and crashes.

use std::{sync::Arc, time::Duration};

use codicil_mcp::{CallError, MESSAGE_BYTES, McpCall, ToolProgress};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{World, ask_for, call, hanging, server, soon, text};

#[tokio::test]
async fn a_call_returns_its_result() {
    let world = World::new();
    let servers = world.plain().await;
    let outcome = soon(servers.call(call("echo", json!({ "text": "hi" })))).await.unwrap();
    assert_eq!(text(&outcome), "echo: hi");
    assert!(!outcome.is_error);

    let outcome = soon(servers.call(call("fail", Value::Null))).await.unwrap();
    assert!(outcome.is_error);

    let outcome = soon(servers.call(call("odd", json!({})))).await.unwrap();
    assert_eq!(outcome.result.content, [json!({ "type": "hologram", "depth": 3 })]);
}

#[tokio::test]
async fn metadata_is_sent() {
    let world = World::new();
    let servers = world.plain().await;
    let call = McpCall { meta: Some(json!({ "turn": 7 })), ..call("meta", json!({})) };
    let meta: Value = serde_json::from_str(&text(&soon(servers.call(call)).await.unwrap())).unwrap();
    assert_eq!(meta["turn"], 7);
    assert!(!meta["progressToken"].is_null());
}

#[tokio::test]
async fn errors_name_their_cause() {
    let world = World::new();
    let servers = world.plain().await;
    let error = soon(servers.call(call("refuse", json!({})))).await.unwrap_err();
    assert_eq!(error, CallError::Server { code: -32602, message: "no such thing".to_owned(), data: None });
    assert_eq!(error.to_item_error().message, "tool call error: MCP error -32602: no such thing");

    let error = soon(servers.call(call("echo", json!("no object")))).await.unwrap_err();
    assert_eq!(error, CallError::Arguments);

    let other = McpCall { server: "other".to_owned(), ..call("echo", json!({})) };
    assert_eq!(soon(servers.call(other)).await.unwrap_err(), CallError::UnknownServer("other".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn progress_comes_in_order_and_before_the_result() {
    let world = World::new();
    let servers = world.plain().await;
    let seen: Arc<Mutex<Vec<ToolProgress>>> = Arc::default();
    let sink = seen.clone();
    let counted = McpCall {
        progress: Some(Arc::new(move |progress| sink.lock().push(progress))),
        ..call("count", json!({ "to": 500 }))
    };
    soon(servers.call(counted)).await.unwrap();
    let seen = seen.lock();
    let texts: Vec<String> = seen.iter().map(ToolProgress::text).collect();
    let expected: Vec<String> = (1..=500).map(|step| format!("step {step}")).collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once_and_the_server_is_notified() {
    let world = World::new();
    let servers = world.plain().await;
    let (hang, begun) = hanging();
    let cancel = hang.cancel.clone();
    let (result, ()) = soon(async {
        tokio::join!(servers.call(hang), async {
            begun.notified().await;
            cancel.cancel();
        })
    })
    .await;
    assert_eq!(result.unwrap_err(), CallError::Cancelled);
    until_cancelled(&servers, 1).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled() {
    let world = World::new();
    let servers = world.plain().await;
    let (hang, begun) = hanging();
    soon(async {
        tokio::select! {
            result = servers.call(hang) => panic!("{result:?}"),
            () = begun.notified() => {}
        }
    })
    .await;
    until_cancelled(&servers, 1).await;
}

/// Polls the server until it has received the cancellations, which are sent in the background.
async fn until_cancelled(servers: &codicil_mcp::ThreadServers, times: usize) {
    soon(async {
        loop {
            let ids: Vec<Value> = serde_json::from_str(&ask_for(servers, "cancelled").await).unwrap();
            if ids.len() == times {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_call_has_a_deadline() {
    let world = World::new();
    let (hasty, _reports) = world.join(&server("test", "plain", "tool_timeout_sec = 0.2"));
    let patient = world.plain().await;
    let error = soon(hasty.call(call("hang", json!({})))).await.unwrap_err();
    assert_eq!(error, CallError::TimedOut(Duration::from_millis(200)));
    until_cancelled(&patient, 1).await;
}

#[tokio::test]
async fn a_crashed_server_fails_its_calls_and_restarts_with_the_next() {
    let world = World::new();
    let servers = world.plain().await;
    let pid = ask_for(&servers, "pid").await;
    let (hang, begun) = hanging();
    let (hung, died) = soon(async {
        tokio::join!(servers.call(hang), async {
            begun.notified().await;
            servers.call(call("die", json!({}))).await
        })
    })
    .await;
    let closed = CallError::Closed("the server exited with code 7".to_owned());
    assert_eq!((hung.unwrap_err(), died.unwrap_err()), (closed.clone(), closed));
    assert_ne!(ask_for(&servers, "pid").await, pid);
}

#[tokio::test]
async fn a_response_that_is_too_long_fails_only_its_own_call() {
    let world = World::new();
    let servers = world.plain().await;
    let pid = ask_for(&servers, "pid").await;
    let (huge, small) = soon(async {
        tokio::join!(
            servers.call(call("huge", json!({ "bytes": MESSAGE_BYTES }))),
            servers.call(call("echo", json!({ "text": "still here" })))
        )
    })
    .await;
    assert!(huge.unwrap_err().to_string().contains("larger than 16 MiB"));
    assert_eq!(text(&small.unwrap()), "echo: still here");
    assert_eq!(ask_for(&servers, "pid").await, pid);

    let large = soon(servers.call(call("huge", json!({ "bytes": 8 << 20 })))).await.unwrap();
    assert_eq!(text(&large).len(), 8 << 20);
}
