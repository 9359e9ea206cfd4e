//! What the user has read of threads.

use codicil_protocol::{
    CommandExecutionApproval, Thread, ThreadFork, ThreadList, ThreadRead, ThreadReadState,
    ThreadReadStateChanged, ThreadReadStateUpdate, ThreadUnreadPosition, TurnCompleted, TurnInterrupt,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

fn of<T: serde::de::DeserializeOwned>(thread: &Thread, mut params: Value) -> T {
    params["threadId"] = json!(thread.id);
    from_value(params).unwrap()
}

async fn update(app: &mut App, thread: &Thread, revision: &str, operation: &str) -> ThreadReadState {
    let params = json!({ "expectedRevision": revision, "operation": { "type": operation } });
    app.call::<ThreadReadStateUpdate>(of(thread, params)).await.read_state
}

async fn read_state(app: &mut App, thread: &Thread) -> Option<ThreadReadState> {
    app.call::<ThreadRead>(of(thread, json!({}))).await.read_state
}

#[tokio::test]
async fn turns_are_unread_until_the_user_has_read_them() {
    let script = Script::new().say("one").then().say("two");
    let mut app = App::builder().experimental().later_client().script(script).start().await;
    let thread = app.start_thread().await;
    assert_eq!(read_state(&mut app, &thread).await, None);
    let first = app.start_turn(&thread, "one").await;
    let unread = app.until::<ThreadReadStateChanged>().await.read_state;
    let at_first = Some(ThreadUnreadPosition::Turn { turn_id: first.id });
    assert_eq!(unread.first_unread, at_first);
    app.until::<TurnCompleted>().await;
    assert_eq!(read_state(&mut app, &thread).await, Some(unread.clone()));
    app.start_turn(&thread, "two").await;
    let again = app.until::<ThreadReadStateChanged>().await.read_state;
    assert_eq!(again.first_unread, at_first);
    assert_ne!(again.revision, unread.revision);
    app.until::<TurnCompleted>().await;

    let stale = json!({ "expectedRevision": unread.revision, "operation": { "type": "read" } });
    let refused = app.try_call::<ThreadReadStateUpdate>(of(&thread, stale)).await.unwrap_err();
    assert_eq!(refused.message, "read state changed");
    assert_eq!(refused.data, Some(json!({ "reason": "readStateConflict", "readState": again })));
    let read = update(&mut app, &thread, &again.revision, "read").await;
    assert_eq!(read.first_unread, None);
    assert_eq!(app.until::<ThreadReadStateChanged>().await.read_state, read);
    let list = app.call::<ThreadList>(from_value(json!({})).unwrap()).await;
    assert_eq!(list.read_states.unwrap().get(&*thread.id), Some(&read));
    app.rest().await;

    app.restart().await;
    assert_eq!(read_state(&mut app, &thread).await, Some(read.clone()));
    let unread = update(&mut app, &thread, &read.revision, "unread").await;
    assert_eq!(unread.first_unread, Some(ThreadUnreadPosition::ThreadStart));
    assert_eq!(read_state(&mut app, &thread).await, Some(unread));
    app.ignore_rest();
}

#[tokio::test]
async fn older_clients_are_not_told_about_read_states() {
    let mut app = App::start(Script::new().say("one")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    assert!(!app.rest().await.contains("readState"));
}

#[tokio::test]
async fn a_copy_has_a_read_state_of_its_own() {
    let script = Script::new().say("one").then().say("two");
    let mut app = App::builder().experimental().later_client().script(script).start().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let copy = app.call::<ThreadFork>(of(&thread, json!({}))).await.thread;
    assert_eq!(read_state(&mut app, &copy).await.unwrap().first_unread, None);
    let turn = app.start_turn(&copy, "two").await;
    app.until::<TurnCompleted>().await;
    let unread = read_state(&mut app, &copy).await.unwrap();
    assert_eq!(unread.first_unread, Some(ThreadUnreadPosition::Turn { turn_id: turn.id }));
    app.rest().await;
    app.restart().await;
    assert_eq!(read_state(&mut app, &copy).await, Some(unread));
    app.ignore_rest();
}

/// There is nothing to read in a turn without a message.
#[tokio::test]
async fn a_turn_without_a_message_is_not_unread() {
    let line = json!({ "cmd": "true > made", "sandbox_permissions": "require_escalated" });
    let script = Script::new().say("one").then().call("exec_command", line).call_id("c");
    let mut app = App::builder().experimental().later_client().script(script).start().await;
    let fresh = app.start_thread().await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let before = read_state(&mut app, &thread).await.unwrap();
    app.rest().await;

    app.start_turn(&thread, "two").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&question, from_value(json!({ "decision": "cancel" })).unwrap()).await;
    assert!(!app.rest().await.contains("readState"));
    assert_eq!(read_state(&mut app, &thread).await, Some(before));
    assert_eq!(read_state(&mut app, &fresh).await, None);
}

/// A message is there to be read, however its turn ended.
#[tokio::test]
async fn an_interrupted_turn_is_unread_if_it_has_a_message() {
    let line = json!({ "cmd": "true > made", "sandbox_permissions": "require_escalated" });
    let script =
        Script::new().say("Look").call("exec_command", line).call_id("c").then().gate("never").say("No");
    let mut app = App::builder().experimental().later_client().script(script).start().await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "one").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&question, from_value(json!({ "decision": "cancel" })).unwrap()).await;
    app.until::<TurnCompleted>().await;
    let unread = read_state(&mut app, &thread).await.unwrap();
    assert_eq!(unread.first_unread, Some(ThreadUnreadPosition::Turn { turn_id: turn.id }));

    let turn = app.start_turn(&thread, "two").await;
    app.call::<TurnInterrupt>(of(&thread, json!({ "turnId": turn.id }))).await;
    app.until::<TurnCompleted>().await;
    assert_eq!(read_state(&mut app, &thread).await, Some(unread));
    app.rest().await;
}
