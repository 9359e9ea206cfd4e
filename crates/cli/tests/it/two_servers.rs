//! Two server processes on one home, and what a killed one leaves behind.
//!
//! `CODICIL_KILLS=1000` kills a thousand servers instead of ten, `CODICIL_SEED` repeats a run; the seed is printed.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};

use codicil_protocol::{
    AgentMessageDelta, AskForApproval, SandboxPolicy, ServerNotification, Thread, ThreadResume,
    ThreadRollback, TurnCompleted, TurnStart, TurnStatus,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script, ServerBeside, TestTransport};
use fastrand::Rng;
use serde_json::{Value, from_value, json};

use crate::killed_during_tools::{number, seed};

fn check_store(home: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.args(["store", "check", "--json", "--home"]).arg(home).env_remove("RUST_LOG").output().unwrap()
}

/// Returns the records of a thread's file.
fn records(thread: &Thread) -> Vec<Value> {
    let text = fs::read_to_string(thread.path.as_deref().unwrap()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn settled_ends(thread: &Thread) -> usize {
    records(thread).iter().filter(|record| record["cause"] == "serverRestart").count()
}

fn user_texts(request: &RecordedRequest) -> Vec<String> {
    let users = request.input().iter().filter(|item| item["role"] == "user");
    let parts = users.flat_map(|item| item["content"].as_array().into_iter().flatten());
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.filter(|text| !text.starts_with(['<', '#'])).map(str::to_owned).collect()
}

fn turn_params(thread: &Thread, text: &str) -> Value {
    json!({ "threadId": thread.id, "input": [{ "type": "text", "text": text }] })
}

#[tokio::test]
async fn a_killed_turn_is_settled_once_and_its_thread_keeps_its_settings() {
    let script = Script::new().say("begun").hang().then().say("and on");
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    let start = json!({ "approvalPolicy": "on-request", "sandbox": "read-only", "personality": "friendly" });
    let thread = app.start_thread_with(from_value(start).unwrap()).await;
    let mut turn = turn_params(&thread, "one");
    let changes = json!({
        "approvalPolicy": "untrusted", "model": "another", "effort": "high", "summary": "detailed", "cwd": "/",
        "sandboxPolicy": { "type": "workspaceWrite", "networkAccess": true },
    });
    turn.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    app.call::<TurnStart>(from_value(turn).unwrap()).await;
    app.until::<AgentMessageDelta>().await;
    app.process().kill();
    app.process().wait().await;

    let report: Value = serde_json::from_slice(&check_store(app.home()).stdout).unwrap();
    assert_eq!(report["ok"], true, "{report}");
    assert_eq!(report["findings"][0]["kind"], "unfinishedTurn");
    assert!(report["findings"][0]["message"].as_str().unwrap().contains("is over"), "{report}");

    for _ in 0..2 {
        app.revive().await;
        assert_eq!(app.read(&thread).await.turns[0].status, TurnStatus::Interrupted);
        let resumed = app.call::<ThreadResume>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
        assert_eq!(resumed.thread.turns[0].status, TurnStatus::Interrupted);
        assert_eq!(settled_ends(&thread), 1, "settled before the answer, once");
        assert_eq!(resumed.approval_policy, AskForApproval::Untrusted);
        assert_eq!((resumed.model.as_str(), resumed.cwd.as_str()), ("another", "/"));
        assert_eq!(serde_json::to_value(&resumed.reasoning_effort).unwrap(), "high");
        let SandboxPolicy::WorkspaceWrite { network_access: true, .. } = resumed.sandbox else {
            panic!("{:?}", resumed.sandbox);
        };
        app.process().kill();
        app.process().wait().await;
    }
    app.revive().await;
    app.resume(&thread).await;
    assert_eq!(app.run_turn(&thread, "two").await.status, TurnStatus::Completed);
    let request = app.model().requests().pop().unwrap();
    assert_eq!(user_texts(&request), ["one", "two"]);
    assert_eq!(request.body()["model"], "another");
    assert_eq!(request.body()["reasoning"], app.model().requests()[0].body()["reasoning"]);
    assert!(
        request.body().to_string().contains("<turn_aborted>"),
        "the model learns that the turn was cut off"
    );
    let report: Value = serde_json::from_slice(&check_store(app.home()).stdout).unwrap();
    assert_eq!((&report["ok"], &report["findings"]), (&json!(true), &json!([])), "{report}");
    let files: Vec<_> = fs::read_dir(app.home().join("servers")).unwrap().flatten().collect();
    assert_eq!(files.len(), 2, "the locks and marks of killed servers are gone: {files:?}");
    let is_lock = |file: &fs::DirEntry| file.path().extension().is_some_and(|name| name == "lock");
    let locks: Vec<_> = files.into_iter().filter(is_lock).collect();
    assert_eq!(locks[0].metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let lock: Value = serde_json::from_slice(&fs::read(locks[0].path()).unwrap()).unwrap();
    assert_eq!(lock["pid"], app.process().id());
    app.ignore_rest();
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_is_done_or_killed() {
    let script = Script::new().gate("go").say("one").then().gate("held").hang().then().say("three");
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "first").await;
    app.model().reached("go").await;
    let mut second = app.another_server().await;
    second.resume(&thread).await;
    let pid = app.process().id();
    let refused = second.try_call::<TurnStart>(from_value(turn_params(&thread, "no")).unwrap()).await;
    let refused = refused.map(drop).unwrap_err();
    assert!(refused.message.contains(&format!("is in use: process {pid}, started ")), "{}", refused.message);
    assert_eq!(refused.data.unwrap()["pid"], pid);
    app.model().release("go");
    app.until::<TurnCompleted>().await;

    // The second process runs a turn, and is killed.
    second.start_turn(&thread, "second").await;
    app.model().reached("held").await;
    let rollback = json!({ "threadId": thread.id, "numTurns": 1 });
    let refused = app.try_call::<ThreadRollback>(from_value(rollback).unwrap()).await.map(drop).unwrap_err();
    assert!(refused.message.contains(&format!("process {}", second.process().id())), "{}", refused.message);
    second.process().kill();
    second.process().wait().await;
    assert_eq!(app.run_turn(&thread, "third").await.status, TurnStatus::Completed);
    assert_eq!(user_texts(app.model().requests().last().unwrap()), ["first", "second", "third"]);
    assert_eq!(settled_ends(&thread), 1);
    second.ignore_rest();
    app.ignore_rest();
}

/// Starts a turn and kills the server after a number of its messages, at the latest after the turn.
async fn kill_during_turn(server: &mut ServerBeside, thread: &Thread, text: &str, messages: usize) {
    server.start_turn(thread, text).await;
    for _ in 0..messages {
        if let Some(ServerNotification::TurnCompleted(_)) = server.next_notification().await {
            break;
        }
    }
    server.process().kill();
    server.process().wait().await;
    server.ignore_rest();
}

#[tokio::test]
async fn two_processes_never_diverge_when_they_are_killed() {
    let kills = number("CODICIL_KILLS").unwrap_or(10);
    let seed = seed();
    println!("CODICIL_SEED={seed} CODICIL_KILLS={kills}");
    let mut random = Rng::with_seed(seed);
    let script = Script::new().respond_with(|_: &RecordedRequest| Reply::new().say("one").say("two"));
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    let mut thread = app.start_thread().await;
    app.run_turn(&thread, "begin").await;
    let mut texts = vec!["begin".to_owned()];
    let mut servers = [app.another_server().await, app.another_server().await];
    for round in 0..kills {
        if round % 25 == 24 {
            thread = app.start_thread().await;
            app.run_turn(&thread, "begin").await;
            texts = vec!["begin".to_owned()];
        }
        let victim = random.usize(0..2);
        for server in &mut servers {
            server.resume(&thread).await;
        }
        let text = format!("killed {round}");
        kill_during_turn(&mut servers[victim], &thread, &text, random.usize(0..12)).await;
        texts.push(text);
        let survivor = &mut servers[1 - victim];
        let text = format!("after {round}");
        assert_eq!(survivor.run_turn(&thread, &text).await.status, TurnStatus::Completed);
        texts.push(text);
        assert_eq!(user_texts(app.model().requests().last().unwrap()), texts, "round {round}");
        for (ordinal, record) in records(&thread).iter().enumerate() {
            assert_eq!(record["ordinal"], ordinal, "round {round}");
        }
        servers[victim] = app.another_server().await;
    }
    let report: Value = serde_json::from_slice(&check_store(app.home()).stdout).unwrap();
    assert_eq!((&report["ok"], &report["findings"]), (&json!(true), &json!([])), "{report}");
    servers.iter_mut().for_each(|server| server.ignore_rest());
    app.ignore_rest();
}
