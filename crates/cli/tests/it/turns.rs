//! A turn of the real binary, over each of its transports.

use codicil_protocol::{AgentMessageDelta, ThreadStarted, TurnStatus};
use codicil_testkit::{App, Script, TestTransport};
use serde_json::json;

use crate::raw_server::RawServer;

async fn run_and_store_a_turn(transport: TestTransport) {
    let script = Script::new().say_deltas(["Hel", "lo"]);
    let mut app = App::builder().script(script).over(transport).start().await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "Hi").await;
    app.until::<AgentMessageDelta>().await;
    let rest = app.rest().await;
    assert!(rest.contains("← item/completed agentMessage <Hello>"), "{rest}");
    assert!(rest.ends_with("← turn/completed completed"), "{rest}");

    let stored = app.restart().await.read(&thread).await;
    assert_eq!(stored.turns.len(), 1);
    assert_eq!((&stored.turns[0].id, &stored.turns[0].status), (&turn.id, &TurnStatus::Completed));
}

#[tokio::test]
async fn over_stdio() {
    run_and_store_a_turn(TestTransport::Stdio).await;
}

#[tokio::test]
async fn over_a_websocket() {
    run_and_store_a_turn(TestTransport::WebSocket).await;
}

#[tokio::test]
async fn websocket_clients_share_a_thread() {
    let mut app =
        App::builder().script(Script::new().say("Hello")).over(TestTransport::WebSocket).start().await;
    let mut other = app.another_client().await;
    let thread = app.start_thread().await;
    assert_eq!(other.until::<ThreadStarted>().await.thread.id, thread.id);
    other.resume(&thread).await;
    other.rest().await;
    app.run_turn(&thread, "Hi").await;
    let seen = other.rest().await;
    assert!(seen.contains("← item/completed agentMessage <Hello>"), "{seen}");
    assert!(seen.ends_with("← turn/completed completed"), "{seen}");
    app.rest().await;
}

#[tokio::test]
async fn without_a_key_a_turn_fails_and_no_other_model_answers() {
    let home = tempfile::tempdir().unwrap();
    let mut server = RawServer::start(home.path(), |command| {
        for name in ["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"] {
            command.env_remove(name);
        }
    })
    .await;
    let started = server.call("thread/start", json!({ "cwd": home.path() })).await;
    let thread = &started["result"]["thread"]["id"];
    assert_eq!(started["result"]["modelProvider"], "openai");
    let input = json!([{ "type": "text", "text": "Hi" }]);
    server.send("turn/start", json!({ "threadId": thread, "input": input })).await;

    let mut kinds = Vec::new();
    let turn = loop {
        let message = server.next().await.expect("the server is running");
        match message["method"].as_str() {
            Some("turn/completed") => break message["params"]["turn"].clone(),
            Some("item/completed") => kinds.push(message["params"]["item"]["type"].clone()),
            _ => {}
        }
    };
    assert_eq!(
        (&turn["status"], &turn["error"]["codexErrorInfo"]),
        (&json!("failed"), &json!("unauthorized"))
    );
    assert_eq!(kinds, ["userMessage"]);
}
