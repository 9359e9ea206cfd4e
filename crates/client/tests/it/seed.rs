//! The nine unit tests that the specification of the TypeScript client lists, by number.

use codicil_client::{Client, ClientBuilder, ClientError, DisconnectCause, fork, protocol::*, resume, turn};
use serde_json::json;

use crate::{
    fake::{connected, message, running, server},
    soon,
};

/// 1
#[tokio::test]
async fn connecting_sends_initialize_with_id_0_and_then_initialized() {
    let (mut fake, endpoint) = server();
    let builder = Client::builder().name("my-app", "1.2").title("My App");
    let connecting = tokio::spawn(builder.connect(endpoint));

    let hello = fake.expect("initialize").await;
    assert_eq!(hello["id"], 0);
    assert_eq!(
        hello["params"],
        json!({
            "clientInfo": { "name": "my-app", "title": "My App", "version": "1.2" },
            "capabilities": { "experimentalApi": true },
        })
    );
    assert_eq!(hello.get("jsonrpc"), None);
    fake.reply(&hello, json!({ "userAgent": "fake/1.0", "codexHome": "/home", "platformFamily": "unix", "platformOs": "linux" }))
        .await;
    let initialized = fake.expect("initialized").await;
    assert_eq!(initialized.get("id"), None);

    let client = soon(connecting).await.unwrap().unwrap();
    assert_eq!(client.server().unwrap().user_agent, "fake/1.0");
}

/// 2
#[tokio::test]
async fn start_thread_sends_thread_start_with_the_defaults_and_returns_the_thread() {
    let (mut fake, client) = connected(Client::builder()).await;
    let starting = tokio::spawn(async move { client.start_thread(Default::default()).await });

    let request = fake.expect("thread/start").await;
    assert_eq!(request["id"], 1);
    let params = &request["params"];
    assert_eq!((&params["approvalPolicy"], &params["sandbox"]), (&json!("never"), &json!("workspace-write")));
    assert_eq!(params["cwd"], std::env::current_dir().unwrap().to_str().unwrap());
    assert_eq!(params.get("model"), None, "the server chooses the model");
    fake.reply(&request, json!({ "thread": { "id": "thr_1", "preview": "hello" } })).await;

    let thread = soon(starting).await.unwrap().unwrap();
    assert_eq!((&*thread.id, &*thread.preview), ("thr_1", "hello"));
}

/// 3
#[tokio::test]
async fn resume_thread_sends_thread_resume_with_the_id() {
    let (mut fake, client) = connected(Client::builder()).await;
    let resuming = tokio::spawn(async move { client.resume_thread(resume(&"thr_1".into())).await });
    let request = fake.expect("thread/resume").await;
    assert_eq!(request["params"], json!({ "threadId": "thr_1", "persistExtendedHistory": false }));
    fake.reply(&request, json!({ "thread": { "id": "thr_1" } })).await;
    assert_eq!(&*soon(resuming).await.unwrap().unwrap().id, "thr_1");
}

#[tokio::test]
async fn resuming_and_forking_may_change_settings() {
    let (mut fake, client) = connected(Client::builder()).await;
    let opening = tokio::spawn(async move {
        let personality = Some(Personality::Friendly);
        client.resume_thread(ThreadResumeParams { personality, ..resume(&"thr_1".into()) }).await?;
        let model = Some("m".to_owned());
        client.fork_thread(ThreadForkParams { model, ..fork(&"thr_1".into()) }).await
    });
    let request = fake.expect("thread/resume").await;
    assert_eq!(
        (&request["params"]["threadId"], &request["params"]["personality"]),
        (&json!("thr_1"), &json!("friendly"))
    );
    fake.reply(&request, json!({ "thread": { "id": "thr_1" } })).await;
    let request = fake.expect("thread/fork").await;
    assert_eq!((&request["params"]["threadId"], &request["params"]["model"]), (&json!("thr_1"), &json!("m")));
    fake.reply(&request, json!({ "thread": { "id": "thr_2" } })).await;
    assert_eq!(&*soon(opening).await.unwrap().unwrap().id, "thr_2");
}

/// The table of options.
#[tokio::test]
async fn the_openclaw_preset_has_the_defaults_of_the_specification() {
    let (mut fake, endpoint) = server();
    let connecting = tokio::spawn(ClientBuilder::openclaw().connect(endpoint));
    let hello = fake.expect("initialize").await;
    assert_eq!(hello["params"]["clientInfo"], json!({ "name": "openclaw", "version": "0.1.0" }));
    assert_eq!(hello["params"]["capabilities"]["experimentalApi"], true);
    fake.reply(&hello, json!({ "userAgent": "fake/1.0" })).await;
    fake.expect("initialized").await;
    let client = soon(connecting).await.unwrap().unwrap();
    let starting = tokio::spawn(async move { client.start_thread(Default::default()).await });
    let request = fake.expect("thread/start").await;
    let params = &request["params"];
    assert_eq!(params["model"], "gpt-5.3-codex");
    assert_eq!(params["cwd"], std::env::current_dir().unwrap().to_str().unwrap());
    assert_eq!((&params["approvalPolicy"], &params["sandbox"]), (&json!("never"), &json!("workspace-write")));
    fake.reply(&request, json!({ "thread": { "id": "thr_1" } })).await;
    soon(starting).await.unwrap().unwrap();
}

/// 4
#[tokio::test]
async fn start_turn_sends_turn_start_and_returns_the_turn() {
    let (mut fake, client) = connected(Client::builder()).await;
    let starting = tokio::spawn(async move { client.start_turn(turn(&"thr_1".into(), "Hi")).await });
    let request = fake.take_turn("thr_1", "turn_1").await;
    assert_eq!(request["params"]["input"], json!([{ "type": "text", "text": "Hi", "text_elements": [] }]));
    let turn = soon(starting).await.unwrap().unwrap();
    assert_eq!((&*turn.id, turn.status), ("turn_1", TurnStatus::InProgress));
}

/// 5
#[tokio::test]
async fn run_turn_collects_everything() {
    let (mut fake, client) = connected(Client::builder()).await;
    let running_turn = tokio::spawn(async move { client.run_turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    let command = json!({
        "type": "commandExecution", "id": "i0", "command": "ls", "cwd": "/", "status": "completed",
        "commandActions": [], "aggregatedOutput": "a\n", "exitCode": 0, "source": "agent",
    });
    fake.notify("turn/started", json!({ "threadId": "t", "turn": running("u") })).await;
    fake.item("t", "u", command).await;
    fake.notify("item/started", json!({ "threadId": "t", "turnId": "u", "item": message("i1", "") })).await;
    let delta = json!({ "threadId": "t", "turnId": "u", "itemId": "i1", "delta": "Hello" });
    fake.notify("item/agentMessage/delta", delta).await;
    fake.item("t", "u", message("i1", "Hello")).await;
    let plan = json!([{ "step": "one", "status": "completed" }]);
    fake.notify("turn/plan/updated", json!({ "threadId": "t", "turnId": "u", "plan": plan })).await;
    fake.notify("turn/diff/updated", json!({ "threadId": "t", "turnId": "u", "diff": "--- a" })).await;
    fake.complete("t", "u").await;

    let done = soon(running_turn).await.unwrap().unwrap();
    assert_eq!(done.agent_message, "Hello");
    assert_eq!(done.items.len(), 2);
    assert!(matches!(&done.items[0], ThreadItem::CommandExecution { command, .. } if command == "ls"));
    assert_eq!((&*done.turn.id, &done.turn.status), ("u", &TurnStatus::Completed));
    assert_eq!(done.diff.as_deref(), Some("--- a"));
    assert_eq!(done.plan.len(), 1);
    assert_eq!((done.session_id().as_str(), done.omitted_items), ("t-u", 0));
}

/// 6
#[tokio::test]
async fn steer_turn_names_the_turn_it_expects() {
    let (mut fake, client) = connected(Client::builder()).await;
    let steering =
        tokio::spawn(async move { client.steer_turn(&"t".into(), &"u".into(), "Also this").await });
    let request = fake.expect("turn/steer").await;
    assert_eq!(request["params"]["expectedTurnId"], "u");
    assert_eq!(request["params"]["input"][0]["text"], "Also this");
    fake.reply(&request, json!({ "turnId": "u" })).await;
    assert_eq!(&*soon(steering).await.unwrap().unwrap(), "u");
}

/// 7
#[tokio::test]
async fn interrupt_turn_sends_turn_interrupt() {
    let (mut fake, client) = connected(Client::builder()).await;
    let stopping = tokio::spawn(async move { client.interrupt_turn(&"t".into(), &"u".into()).await });
    let request = fake.expect("turn/interrupt").await;
    assert_eq!(request["params"], json!({ "threadId": "t", "turnId": "u" }));
    fake.reply(&request, json!({})).await;
    soon(stopping).await.unwrap().unwrap();
}

/// 8
#[tokio::test]
async fn an_error_response_keeps_code_message_and_data() {
    let (mut fake, client) = connected(Client::builder()).await;
    let listing = tokio::spawn(async move { client.list_models(Default::default()).await });
    let request = fake.expect("model/list").await;
    let error = json!({ "code": -32602, "message": "no", "data": { "limit": 1 } });
    fake.send(json!({ "id": request["id"], "error": error })).await;
    let failed = soon(listing).await.unwrap().unwrap_err();
    assert_eq!(failed.name(), "response_error");
    assert_eq!(failed.to_string(), "model/list failed: no (code -32602)");
    let error = failed.response_error().unwrap();
    assert_eq!((error.code, &*error.message, &error.data), (-32602, "no", &Some(json!({ "limit": 1 }))));
}

/// 9
#[tokio::test]
async fn the_end_of_the_connection_fails_everything_that_is_pending() {
    let (mut fake, client) = connected(Client::builder()).await;
    let mut events = client.events();
    let call = client.call::<ModelList>(Default::default());
    let other = client.call::<ThreadList>(Default::default());
    let turn_client = client.clone();
    let running_turn = tokio::spawn(async move { turn_client.run_turn(turn(&"t".into(), "Hi")).await });
    fake.expect("model/list").await;
    fake.expect("thread/list").await;
    fake.take_turn("t", "u").await;
    drop(fake);

    for failed in [soon(call).await.unwrap_err(), soon(other).await.unwrap_err()] {
        let ClientError::Disconnected(reason) = failed else { panic!("{failed}") };
        assert_eq!(reason.cause, DisconnectCause::ClosedByServer(String::new()));
    }
    assert_eq!(soon(running_turn).await.unwrap().unwrap_err().name(), "port_exit");
    assert_eq!(soon(events.next()).await, None);
    let late = soon(client.call::<ModelList>(Default::default())).await.unwrap_err();
    assert_eq!(late.name(), "port_exit", "calls after the end fail at once");
    assert!(!client.is_connected());
    assert_eq!(soon(client.events().next()).await, None);
}

#[tokio::test]
async fn a_failed_turn_rejects_with_its_error() {
    let (mut fake, client) = connected(Client::builder()).await;
    let running_turn = tokio::spawn(async move { client.run_turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    fake.item("t", "u", message("i", "So far")).await;
    let error = json!({ "message": "quota used up", "codexErrorInfo": "usageLimitExceeded", "additionalDetails": null });
    let turn = json!({ "id": "u", "items": [], "status": "failed", "error": error });
    fake.notify("turn/completed", json!({ "threadId": "t", "turn": turn })).await;
    let failed = soon(running_turn).await.unwrap().unwrap_err();
    assert_eq!(failed.to_string(), "the turn failed: quota used up");
    let unfinished = failed.unfinished().unwrap();
    let info = unfinished.error.as_ref().unwrap().codex_error_info.as_ref();
    assert_eq!(info, Some(&CodexErrorInfo::UsageLimitExceeded));
    assert_eq!(unfinished.so_far.agent_message, "So far");
}
