//! A command ends when it is told to, and with its connection and its server; with everything it started.

use serde_json::json;

use super::{app, shell, start, terminate, until_marked, until_none_is_marked};

/// A tree: children, grandchildren, and in a process group of its own what `timeout` starts.
const TREE: &str = "sleep 1000 & (sleep 1000 & sleep 1000) & timeout 1000 sleep 1000";

/// How many processes of the tree there are at least.
const TREE_SIZE: usize = 5;

fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[tokio::test]
async fn a_terminated_command_is_gone_with_its_whole_tree() {
    let mut app = app().await;
    let mark = mark("terminated");
    let more = json!({ "processId": "p", "env": { "COMMAND_MARK": mark }, "disableTimeout": true });
    let tree = start(&mut app, shell(TREE, more)).await;
    until_marked(&mark, TREE_SIZE).await;
    terminate(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(tree).await.unwrap().exit_code, 137);
    until_none_is_marked(&mark).await;
    let gone = "-32600 no active command/exec for process id \"p\"";
    assert_eq!(terminate(&mut app, "p").await.unwrap_err(), gone);
}

#[tokio::test]
async fn a_command_and_its_end_sent_together_meet_in_that_order() {
    let mut app = app().await;
    for round in 0..100 {
        let sleep = start(&mut app, shell("sleep 1000", json!({ "processId": "p" }))).await;
        terminate(&mut app, "p").await.unwrap();
        assert_eq!(app.answer(sleep).await.unwrap().exit_code, 137, "round {round}");
    }
}

#[tokio::test]
async fn a_command_that_times_out_takes_its_tree_along() {
    let mut app = app().await;
    let mark = mark("late");
    let more = json!({ "env": { "COMMAND_MARK": mark }, "timeoutMs": 500 });
    assert_eq!(super::exec(&mut app, shell(TREE, more)).await.exit_code, 124);
    until_none_is_marked(&mark).await;
}

#[tokio::test]
async fn what_a_command_leaves_behind_goes_with_it() {
    let mut app = app().await;
    let mark = mark("left");
    let more = json!({ "env": { "COMMAND_MARK": mark } });
    let line = "timeout 1000 sleep 1000 >/dev/null 2>&1 & echo done";
    assert_eq!(super::exec(&mut app, shell(line, more)).await.stdout, "done\n");
    until_none_is_marked(&mark).await;
}

#[tokio::test]
async fn commands_end_with_their_connection_and_not_with_another() {
    let mut app = app().await;
    let mut other = app.another_client().await;
    let (mine, theirs) = (mark("mine"), mark("theirs"));
    let more = |mark: &str| {
        json!({ "processId": "p", "env": { "COMMAND_MARK": mark }, "disableTimeout": true,
            "streamStdoutStderr": true })
    };
    let my_tree = start(&mut app, shell(TREE, more(&mine))).await;
    let _their_tree = start(&mut other, shell(TREE, more(&theirs))).await;
    until_marked(&mine, TREE_SIZE).await;
    until_marked(&theirs, TREE_SIZE).await;

    other.disconnect();
    until_none_is_marked(&theirs).await;
    assert!(super::marked(&mine).len() >= TREE_SIZE, "the other connection's commands go on");
    terminate(&mut app, "p").await.unwrap();
    assert_eq!(app.answer(my_tree).await.unwrap().exit_code, 137);
    until_none_is_marked(&mine).await;
}

#[tokio::test]
async fn commands_end_with_the_server() {
    let mut app = app().await;
    let mark = mark("server");
    let more = json!({ "env": { "COMMAND_MARK": mark }, "disableTimeout": true });
    let _tree = start(&mut app, shell(TREE, more)).await;
    until_marked(&mark, TREE_SIZE).await;
    app.restart().await;
    until_none_is_marked(&mark).await;
}
