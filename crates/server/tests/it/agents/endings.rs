//! Agents end with the thread that spawned them.

use codicil_protocol::{
    Thread, ThreadArchive, ThreadArchived, ThreadClosed, ThreadLoadedList, ThreadRead, ThreadReadParams,
    ThreadSourceKind, ThreadStartParams, ThreadUnsubscribe, TurnStatus,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::{from_value, json};

use super::{is_agent, is_main, listed, main_done, next_call, spawn};

/// Returns a main thread whose turn is over and its agent, which hangs in the middle of a message.
async fn app_with_busy_agent() -> (App, Thread, Thread) {
    let script = Script::new()
        .reply(spawn("long task").when(is_main))
        .reply(Reply::new().say("delegated").when(is_main))
        .reply(Reply::new().say("Let me").unfinished().gate("never").hang().when(is_agent));
    let mut app = App::start(script).await;
    let main = app.start_thread().await;
    app.start_turn(&main, "delegate").await;
    let agent = next_call(&mut app).await.receivers.remove(0);
    main_done(&mut app, &main).await;
    app.model().reached("never").await;
    let agent = Thread { id: agent, ..main.clone() };
    (app, main, agent)
}

#[tokio::test]
async fn unsubscribing_from_a_thread_ends_its_agents() {
    let (mut app, main, agent) = app_with_busy_agent().await;
    let mut other = app.another_client().await;
    app.call::<ThreadUnsubscribe>(from_value(json!({ "threadId": main.id })).unwrap()).await;

    let closed = [other.until::<ThreadClosed>().await, other.until::<ThreadClosed>().await];
    assert_eq!(closed.map(|closed| closed.thread_id), [main.id.clone(), agent.id.clone()]);
    assert_eq!(other.call::<ThreadLoadedList>(Default::default()).await.data, []);
    assert_eq!(other.read(&agent).await.turns[0].status, TurnStatus::Interrupted);
    other.ignore_rest();
    app.ignore_rest();
}

#[tokio::test]
async fn archiving_a_thread_ends_its_agents() {
    let (mut app, main, agent) = app_with_busy_agent().await;
    app.call::<ThreadArchive>(from_value(json!({ "threadId": main.id })).unwrap()).await;
    app.until::<ThreadArchived>().await;

    assert_eq!(app.call::<ThreadLoadedList>(Default::default()).await.data, []);
    assert_eq!(app.read(&agent).await.turns[0].status, TurnStatus::Interrupted);
    app.ignore_rest();
}

#[tokio::test]
async fn stopping_the_server_interrupts_agents() {
    let (mut app, main, agent) = app_with_busy_agent().await;
    app.restart().await;

    let stored = app.read(&agent).await;
    assert_eq!(stored.turns[0].status, TurnStatus::Interrupted);
    assert_eq!(app.read(&main).await.turns[0].status, TurnStatus::Completed);
    app.ignore_rest();
}

#[tokio::test]
async fn agents_stay_while_another_client_is_subscribed() {
    let (mut app, main, agent) = app_with_busy_agent().await;
    let mut other = app.another_client().await;
    other.resume(&main).await;
    app.call::<ThreadUnsubscribe>(from_value(json!({ "threadId": main.id })).unwrap()).await;

    let loaded = other.call::<ThreadLoadedList>(Default::default()).await.data;
    assert_eq!(loaded, [main.id.clone(), agent.id.clone()]);
    other.ignore_rest();
    app.ignore_rest();
}

#[tokio::test]
async fn agents_of_an_ephemeral_thread_are_ephemeral() {
    let script = Script::new()
        .reply(spawn("a task").when(is_main))
        .reply(Reply::new().say("answer").when(is_agent))
        .repeat(Reply::new().say("done"));
    let mut app = App::start(script).await;
    let params = ThreadStartParams { ephemeral: Some(true), ..ThreadStartParams::default() };
    let main = app.start_thread_with(params).await;
    app.start_turn(&main, "delegate").await;
    let agent = next_call(&mut app).await.receivers.remove(0);
    app.rest().await;

    let read = ThreadReadParams { thread_id: agent.clone(), include_turns: false };
    assert!(app.call::<ThreadRead>(read).await.thread.ephemeral);
    assert!(listed(&mut app, Some(vec![ThreadSourceKind::SubAgent])).await.is_empty());
    app.restart().await;
    let read = ThreadReadParams { thread_id: agent, include_turns: false };
    assert!(app.try_call::<ThreadRead>(read).await.is_err());
}
