//! The end of a command and its process tree: by request, by timeout, with its connection and with the server.

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_protocol::CommandExecOutputDelta;
use codicil_testkit::TestClient;
use serde_json::{Value, json};

use super::{app, exec, shell, start, terminate};
use crate::processes::{marked, until_none_is_marked};

/// A tree of children and grandchildren, one of them in a process group of its own. Each leaf prints a line.
const TREE: &str = "leaf() { echo up; exec sleep 1000; }; leaf & (leaf & leaf) & timeout 1000 sh -c 'echo up; exec sleep 1000'";

/// The processes of the tree that print a line.
const LEAVES: usize = 4;

/// Params of the tree with a mark, as the process `p`.
fn tree(mark: &str) -> Value {
    let env = json!({ "COMMAND_MARK": mark });
    let more = json!({ "processId": "p", "env": env, "disableTimeout": true, "streamStdoutStderr": true });
    shell(TREE, more)
}

/// Waits until every leaf of the tree has started.
async fn until_tree_started(client: &mut TestClient) {
    let mut output = Vec::new();
    while output.split(|byte| *byte == b'\n').count() <= LEAVES {
        let delta = client.until::<CommandExecOutputDelta>().await;
        output.extend(STANDARD.decode(&delta.delta_base64).unwrap());
    }
}

fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[tokio::test]
async fn terminating_a_command_kills_its_process_tree() {
    let mut app = app().await;
    let mark = mark("terminated");
    let command = start(&mut app, tree(&mark)).await;
    until_tree_started(&mut app).await;
    assert!(marked(&mark).len() > LEAVES, "the leaves and `timeout`");
    terminate(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(command).await.unwrap().exit_code, 137);
    until_none_is_marked(&mark).await;
    let not_running = "-32600 no active command/exec for process id \"p\"";
    assert_eq!(terminate(&mut app, "p").await.unwrap_err(), not_running);
}

#[tokio::test]
async fn a_command_can_be_terminated_right_after_its_request() {
    let mut app = app().await;
    for round in 0..100 {
        let sleep = start(&mut app, shell("sleep 1000", json!({ "processId": "p" }))).await;
        terminate(&mut app, "p").await.unwrap();
        assert_eq!(app.answer(sleep).await.unwrap().exit_code, 137, "round {round}");
    }
}

#[tokio::test]
async fn a_timeout_kills_the_process_tree() {
    let mut app = app().await;
    let mark = mark("late");
    let more = json!({ "env": { "COMMAND_MARK": mark }, "timeoutMs": 500 });
    assert_eq!(exec(&mut app, shell(TREE, more)).await.exit_code, 124);
    until_none_is_marked(&mark).await;
}

#[tokio::test]
async fn background_processes_end_with_their_command() {
    let mut app = app().await;
    let mark = mark("left");
    let more = json!({ "env": { "COMMAND_MARK": mark } });
    let line = "timeout 1000 sleep 1000 >/dev/null 2>&1 & echo done";
    assert_eq!(exec(&mut app, shell(line, more)).await.stdout, "done\n");
    until_none_is_marked(&mark).await;
}

#[tokio::test]
async fn commands_end_with_their_own_connection() {
    let mut app = app().await;
    let mut other = app.another_client().await;
    let mark_of_app = mark("app");
    let mark_of_other = mark("other");
    let command = start(&mut app, tree(&mark_of_app)).await;
    let _command_of_other = start(&mut other, tree(&mark_of_other)).await;
    until_tree_started(&mut app).await;
    until_tree_started(&mut other).await;

    other.disconnect();
    until_none_is_marked(&mark_of_other).await;
    assert!(marked(&mark_of_app).len() > LEAVES, "commands of other connections go on");
    terminate(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(command).await.unwrap().exit_code, 137);
    until_none_is_marked(&mark_of_app).await;
}

#[tokio::test]
async fn commands_end_with_the_server() {
    let mut app = app().await;
    let mark = mark("server");
    let _command = start(&mut app, tree(&mark)).await;
    until_tree_started(&mut app).await;
    app.restart().await;
    until_none_is_marked(&mark).await;
}
