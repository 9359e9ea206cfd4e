//! Replies of a model that are too long: the turn fails, and the thread and the server go on.

use codicil_protocol::{CodexErrorInfo, ThreadItem, TurnCompleted, TurnStatus};
use codicil_testkit::{App, Reply, Script};
use serde_json::json;

const MIB: usize = 1 << 20;

fn pieces(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|_| "x".repeat(MIB))
}

/// Sends a reply that is too long, and checks that the turn fails with this error and that the next one works.
async fn assert_fails(reply: Reply, reason: &str) -> (App, codicil_protocol::Thread) {
    let mut app = App::start(Script::new().reply(reply).reply(Reply::new().say("Hello"))).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "talk").await;
    let done = app.until::<TurnCompleted>().await.turn;
    assert_eq!(done.status, TurnStatus::Failed);
    let error = done.error.unwrap();
    assert_eq!(error.message, format!("the model's response is too large: {reason}"));
    assert_eq!(error.codex_error_info, Some(CodexErrorInfo::Other));
    app.ignore_rest();
    assert_eq!(app.run_turn(&thread, "again").await.status, TurnStatus::Completed);
    (app, thread)
}

#[tokio::test]
async fn an_endless_message_is_cut_off_and_kept() {
    let reply = Reply::new().say_deltas(pieces(12));
    let (mut app, thread) = assert_fails(reply, "one of its items has more than 8 MiB").await;
    let read = app.read(&thread).await;
    let kept = read.turns[0].items.iter().find_map(|item| match item {
        ThreadItem::AgentMessage { text, .. } => Some(text.len()),
        _ => None,
    });
    assert_eq!((kept, &read.turns[0].status), (Some(8 * MIB), &TurnStatus::Failed));
    app.ignore_rest();
}

#[tokio::test]
async fn a_call_whose_arguments_are_too_long_is_not_run() {
    let arguments = json!({ "cmd": format!("touch made; : {}", "x".repeat(9 * MIB)) });
    let (app, _) =
        assert_fails(Reply::new().call("exec_command", arguments), "one of its items has more than 8 MiB")
            .await;
    assert!(!app.workspace().join("made").exists());
}

#[tokio::test]
async fn too_many_calls_are_not_run() {
    let calls = (0..1100).fold(Reply::new(), |reply, at| {
        reply.call("exec_command", json!({ "cmd": format!("touch made-{at}") }))
    });
    let (app, _) = assert_fails(calls, "it has more than 1024 items").await;
    assert_eq!(std::fs::read_dir(app.workspace()).unwrap().count(), 0);
}
