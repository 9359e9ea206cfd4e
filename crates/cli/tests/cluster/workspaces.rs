//! Threads whose workspace is on the disk of one server.

use std::fs;

use codicil_protocol::{
    CodicilRequestAnswer, CodicilRequestList, CommandExecutionApproval, ThreadClosed, ThreadResume,
    ThreadResumeParams, TurnCompleted, TurnStart, TurnStatus,
};
use codicil_testkit::{App, AppBuilder, Reply, Script, TestTransport};
use serde_json::{from_value, json};

use crate::database::TestDatabase;

/// Returns a server with a disk of its own that other servers reach.
fn node(database: &TestDatabase, name: &'static str, script: Script) -> AppBuilder {
    App::builder()
        .script(script)
        .experimental()
        .extension()
        .over(TestTransport::WebSocket)
        .known_port()
        .arguments(["--store", &database.address(), "--node", name])
}

#[tokio::test]
async fn a_thread_returns_to_the_server_with_its_workspace() {
    let Some(database) = TestDatabase::create().await else { return };
    let append = json!({ "cmd": "echo line >> lines", "sandbox_permissions": "require_escalated" });
    let script =
        (Script::new().say("hi").then()).call("exec_command", append).then().repeat(Reply::new().say("done"));
    let mut a = node(&database, "a", script).start().await;
    let mut b = node(&database, "b", Script::new()).start().await;
    let thread = a.start_thread().await;
    a.run_turn(&thread, "hello").await;
    a.start_turn(&thread, "run").await;
    a.expect_request::<CommandExecutionApproval>().await;
    a.process().terminate();
    a.process().wait().await;

    // The other server shows the thread and takes the answer, and runs no turn.
    b.call::<ThreadResume>(ThreadResumeParams::new(thread.id.clone())).await;
    let open = json!({ "threadId": thread.id });
    let listed = b.call::<CodicilRequestList>(from_value(open.clone()).unwrap()).await;
    let listed = serde_json::to_value(&listed).unwrap();
    let request = listed["data"][0]["request"].as_str().unwrap_or_else(|| panic!("{listed}")).to_owned();
    let answer = json!({ "threadId": thread.id, "request": request, "result": { "decision": "accept" } });
    let answered = b.call::<CodicilRequestAnswer>(from_value(answer).unwrap()).await;
    assert_eq!(serde_json::to_value(&answered).unwrap()["status"], "accepted");
    let listed = b.call::<CodicilRequestList>(from_value(open).unwrap()).await;
    assert_eq!(serde_json::to_value(&listed).unwrap()["data"], json!([]));
    let turn = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "more" }] });
    let error = b.try_call::<TurnStart>(from_value(turn).unwrap()).await.unwrap_err();
    let expected = json!({ "code": "workspaceUnavailable", "node": "a" });
    assert_eq!(error.data.unwrap()["codicil"], expected, "{}", error.message);

    // When the server with the workspace is back, it gets the thread and continues the turn with the answer.
    a.revive().await;
    b.until::<ThreadClosed>().await;
    a.resume(&thread).await;
    assert_eq!(a.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert_eq!(fs::read_to_string(a.workspace().join("lines")).unwrap(), "line\n");
    // The other server relays now.
    b.resume(&thread).await;
    assert_eq!(b.run_turn(&thread, "more").await.status, TurnStatus::Completed);
    a.ignore_rest();
    b.ignore_rest();
    drop(b);
    drop(a);
    database.check().await;
}
