//! Thread files that another process has locked or replaced.

use std::{
    fs::{self, File},
    process::Command,
    time::{Duration, Instant},
};

use codicil_protocol::{
    Thread, ThreadFork, ThreadList, ThreadListParams, ThreadRead, ThreadResume, ThreadStatus, TurnCompleted,
    TurnStart, TurnStatus,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{from_value, json};

/// How long the store waits for a locked file.
const LOCK_DEADLINE: Duration = Duration::from_secs(5);

/// Scripts a model that answers every request.
fn always_ok() -> Script {
    Script::new().respond_with(|_: &RecordedRequest| Reply::new().say("Ok"))
}

/// Locks the file of a thread, as another process would.
fn lock_file(thread: &Thread) -> File {
    let file = File::open(thread.path.as_ref().unwrap()).unwrap();
    file.lock().unwrap();
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_file_fails_the_turn_of_its_own_thread_only() {
    let mut app = App::start(always_ok()).await;
    let mut locked = Vec::new();
    // More threads than the store appends to at the same time.
    for _ in 0..12 {
        let thread = app.start_thread().await;
        app.run_turn(&thread, "one").await;
        locked.push(thread);
    }
    let free = app.start_thread().await;
    let holders: Vec<_> = locked.iter().map(lock_file).collect();
    let begun = Instant::now();
    let mut waiting = Vec::new();
    for thread in &locked {
        let params = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "two" }] });
        waiting.push(app.send::<TurnStart>(from_value(params).unwrap()).await);
    }

    let mut other = app.another_client().await;
    let new = other.start_thread().await;
    assert_eq!(other.run_turn(&new, "hi").await.status, TurnStatus::Completed);
    assert_eq!(app.run_turn(&free, "hi").await.status, TurnStatus::Completed);
    let listed = other.call::<ThreadList>(ThreadListParams::default()).await.data;
    assert_eq!(listed.len(), locked.len() + 2);
    assert!(begun.elapsed() < LOCK_DEADLINE, "other threads waited for the locks: {:?}", begun.elapsed());

    for (turn, thread) in waiting.into_iter().zip(&locked) {
        let refused = app.answer::<TurnStart>(turn).await.unwrap_err();
        let path = thread.path.as_deref().unwrap();
        assert!(refused.message.contains("is locked by another process"), "{}", refused.message);
        assert!(refused.message.contains(path), "{}", refused.message);
    }
    let thread = &locked[0];
    let read = app.call::<ThreadRead>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    assert_eq!(read.thread.id, thread.id);

    drop(holders);
    for thread in &locked {
        assert_eq!(app.run_turn(thread, "three").await.status, TurnStatus::Completed);
        assert_eq!(app.read(thread).await.turns.len(), 2);
    }
    other.ignore_rest();
    app.ignore_rest();
}

/// The thread cannot serve its mailbox while its first record waits for the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_thread_does_not_delay_the_list_of_threads() {
    let mut app = App::start(Script::new().say("Ok").then().say("Ok")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let lock = lock_file(&thread);
    let params = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "two" }] });
    let turn = app.send::<TurnStart>(from_value(params).unwrap()).await;
    let read = app.send::<ThreadRead>(from_value(json!({ "threadId": thread.id })).unwrap()).await;

    let listed = app.call::<ThreadList>(ThreadListParams::default()).await.data;

    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].status, ThreadStatus::Idle, "the turn has not been accepted");
    drop(lock);
    app.answer::<TurnStart>(turn).await.expect("the list came before the store's deadline");
    let read = app.answer::<ThreadRead>(read).await.unwrap();
    assert_eq!(read.thread.status, ThreadStatus::Active { active_flags: Vec::new() });
    app.until::<TurnCompleted>().await;
    app.ignore_rest();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_whose_file_gets_locked_fails_and_the_thread_goes_on() {
    let mut app = App::start(Script::new().gate("held").say("Ok").then().say("Ok")).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "one").await;
    app.model().reached("held").await;
    let holder = lock_file(&thread);
    app.model().release("held");
    let completed = app.until::<TurnCompleted>().await;
    assert_eq!(completed.turn.status, TurnStatus::Failed);
    drop(holder);
    assert_eq!(app.run_turn(&thread, "two").await.status, TurnStatus::Completed);
    let stored = app.restart().await.read(&thread).await;
    let statuses: Vec<_> = stored.turns.iter().map(|turn| turn.status.clone()).collect();
    assert_eq!(
        statuses,
        [TurnStatus::Failed, TurnStatus::Completed],
        "the end of the first turn is stored with the second"
    );
    app.ignore_rest();
}

#[tokio::test]
async fn a_named_pipe_in_place_of_a_thread_file_is_refused_and_not_listed() {
    let mut app = App::builder().experimental().script(always_ok()).start().await;
    let thread = app.start_thread().await;
    let piped = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.run_turn(&piped, "one").await;
    app.rest().await;
    app.restart().await;
    let path = piped.path.as_deref().unwrap();
    fs::remove_file(path).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    fs::remove_file(app.home().join("codicil_index.sqlite")).ok();

    let listed = app.call::<ThreadList>(ThreadListParams::default()).await.data;
    assert_eq!(listed.iter().map(|found| &found.id).collect::<Vec<_>>(), [&thread.id]);
    let same = json!({ "threadId": piped.id });
    let by_path = json!({ "threadId": piped.id, "path": path });
    let errors = [
        app.try_call::<ThreadRead>(from_value(same.clone()).unwrap()).await.unwrap_err(),
        app.try_call::<ThreadResume>(from_value(same.clone()).unwrap()).await.unwrap_err(),
        app.try_call::<ThreadResume>(from_value(by_path).unwrap()).await.unwrap_err(),
        app.try_call::<ThreadFork>(from_value(same).unwrap()).await.unwrap_err(),
    ];
    for error in errors {
        assert!(error.message.contains("not a regular file"), "{}", error.message);
    }
    assert_eq!(app.resume(&thread).await.id, thread.id);
    app.ignore_rest();
}
