//! `/metrics`: who may read it, and that the numbers follow what happens.

use std::{collections::BTreeMap, fs};

use codicil_protocol::TurnStatus;
use codicil_testkit::{App, Script, ServerProcess, TestTransport};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{codicil, soon, text, websocket::listener};

/// Sends a GET request. Returns the status and the whole response.
async fn get(address: &str, path: &str, headers: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    soon(stream.read_to_string(&mut response)).await.unwrap();
    (response[9..12].parse().unwrap(), response)
}

/// Returns the numbers by their names with labels.
async fn numbers(address: &str) -> BTreeMap<String, f64> {
    let (status, response) = get(address, "/metrics", "").await;
    assert_eq!(status, 200, "{response}");
    assert!(response.contains("content-type: application/openmetrics-text; version=1.0.0"), "{response}");
    assert!(response.ends_with("# EOF\n"), "{response}");
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect()
}

/// Returns the address of a listener for metrics alone.
async fn metrics_address(process: &mut ServerProcess) -> String {
    let line = process.stderr_line("metrics: http://").await;
    line.trim_end_matches("/metrics").rsplit("http://").next().unwrap().to_owned()
}

#[tokio::test]
async fn numbers_follow_turns_tools_and_records() {
    let script = Script::new()
        .call("update_plan", json!({ "plan": [{ "step": "Look", "status": "pending" }] }))
        .usage(100, 40, 20, 5)
        .then()
        .say("Done")
        .usage(200, 50, 30, 0)
        .then()
        .say("Let me look")
        .hang();
    let mut app = App::builder()
        .script(script)
        .over(TestTransport::WebSocket)
        .arguments(["--metrics", "127.0.0.1:0"])
        .start()
        .await;
    let address = metrics_address(app.process()).await;
    let before = numbers(&address).await;
    assert_eq!(before["codicil_connections"], 1.0);
    assert_eq!(before["codicil_threads_loaded"], 0.0);

    let thread = app.start_thread().await;
    assert_eq!(app.run_turn(&thread, "Plan it").await.status, TurnStatus::Completed);
    let turn = app.start_turn(&thread, "Again").await;
    app.until::<codicil_protocol::AgentMessageDelta>().await;
    let running = numbers(&address).await;
    assert_eq!(running["codicil_threads_loaded"], 1.0);
    assert_eq!(running["codicil_threads_running"], 1.0);
    app.interrupt(&turn).await;
    app.rest().await;

    let after = numbers(&address).await;
    for (name, expected) in [
        ("codicil_turns_total{end=\"completed\",cause=\"done\"}", 1.0),
        ("codicil_turns_total{end=\"interrupted\",cause=\"client\"}", 1.0),
        ("codicil_turns_total{end=\"failed\",cause=\"other\"}", 0.0),
        ("codicil_turn_seconds_count", 2.0),
        ("codicil_first_token_seconds_count", 3.0),
        ("codicil_model_requests_total{outcome=\"completed\"}", 2.0),
        ("codicil_model_requests_total{outcome=\"cancelled\"}", 1.0),
        ("codicil_tokens_total{kind=\"input\"}", 300.0),
        ("codicil_tokens_total{kind=\"cached_input\"}", 90.0),
        ("codicil_tokens_total{kind=\"output\"}", 50.0),
        ("codicil_tokens_total{kind=\"reasoning\"}", 5.0),
        ("codicil_tool_calls_total{kind=\"builtin\",outcome=\"ok\"}", 1.0),
        ("codicil_threads_running", 0.0),
        ("codicil_overload_refusals_total{reason=\"busy\"}", 0.0),
    ] {
        assert_eq!(after[name], expected, "{name}");
    }
    for name in [
        "codicil_appends_total{outcome=\"stored\"}",
        "codicil_append_seconds_count",
        "codicil_fsync_seconds_count",
        "codicil_requests_total{outcome=\"ok\"}",
        "process_resident_memory_bytes",
        "process_open_fds",
    ] {
        assert!(after[name] > 0.0, "{name}");
    }
    assert_eq!(get(&address, "/readyz", "").await.0, 200);
    assert_eq!(get(&address, "/other", "").await.0, 404);
    assert_eq!(get(&address, "/metrics", "Origin: http://localhost\r\n").await.0, 403);
}

#[tokio::test]
async fn a_failed_turn_and_a_replay_are_counted_over_stdio() {
    let script = Script::new().fail("context_length_exceeded", "too long");
    let mut app = App::builder()
        .script(script)
        .cursor()
        .over(TestTransport::Stdio)
        .arguments(["--metrics", "127.0.0.1:0"])
        .start()
        .await;
    let address = metrics_address(app.process()).await;
    let thread = app.start_thread().await;
    assert_eq!(app.run_turn(&thread, "Hi").await.status, TurnStatus::Failed);
    app.rest().await;
    let subscribe = json!({ "id": 900, "method": "codicil/subscribe", "params": { "threadId": thread.id } });
    let answer = app.exchange(subscribe).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let after = numbers(&address).await;
    assert_eq!(after["codicil_turns_total{end=\"failed\",cause=\"context_window\"}"], 1.0);
    assert_eq!(after["codicil_snapshots_total"] + after["codicil_replays_total"], 1.0);
    app.ignore_rest();
}

#[tokio::test]
async fn the_listener_of_clients_shows_metrics_only_if_asked_and_to_its_clients() {
    let (mut process, address, _home) = listener(&[]).await;
    assert_eq!(get(&address, "/metrics", "").await.0, 404);
    process.terminate();
    process.expect_success().await;

    let (mut process, address, _home) = listener(&["--metrics"]).await;
    assert!(numbers(&address).await.contains_key("codicil_connections"));
    assert_eq!(get(&address, "/metrics", "Origin: http://localhost\r\n").await.0, 403);
    process.terminate();
    process.expect_success().await;

    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "0123456789abcdef0123456789abcdef").unwrap();
    let token = token.to_str().unwrap();
    let (mut process, address, _home) =
        listener(&["--metrics", "--ws-auth", "capability-token", "--ws-token-file", token]).await;
    assert_eq!(get(&address, "/metrics", "").await.0, 401);
    let bearer = "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n";
    assert_eq!(get(&address, "/metrics", bearer).await.0, 200);
    assert_eq!(get(&address, "/readyz", "").await.0, 200);
    process.terminate();
    process.expect_success().await;
}

#[test]
fn metrics_over_stdio_need_an_address() {
    let output = codicil(&["app-server", "--metrics"]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("--metrics 127.0.0.1:9464"), "{}", text(&output.stderr));
}
