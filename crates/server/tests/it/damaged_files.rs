//! A thread whose file is damaged: what is whole is served and goes on, what is not is refused by name, and
//! neither is in the way of other threads.

use std::fs;

use codicil_protocol::{
    Thread, ThreadList, ThreadRead, ThreadReadParams, ThreadResume, TurnStatus, rpc::ErrorObject,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::json;

/// A thread of two turns whose file was changed while the server was away, and another thread of one.
async fn damaged(change: impl FnOnce(String) -> String) -> (App, Thread, Thread) {
    let mut app = App::start(Script::new().repeat(Reply::new().say("Hello"))).await;
    let (thread, other) = (app.start_thread().await, app.start_thread().await);
    for (thread, text) in [(&thread, "one"), (&thread, "two"), (&other, "three")] {
        app.run_turn(thread, text).await;
    }
    app.rest().await;
    let path = thread.path.clone().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    app.restart().await;
    fs::write(&path, change(text)).unwrap();
    (app, thread, other)
}

/// The thread is read and resumed with so many turns, and the next one works.
async fn goes_on(app: &mut App, thread: &Thread, turns: usize) {
    assert_eq!(app.read(thread).await.turns.len(), turns);
    assert_eq!(app.resume(thread).await.turns.len(), turns);
    assert_eq!(app.run_turn(thread, "next").await.status, TurnStatus::Completed);
    app.rest().await;
    assert_eq!(app.restart().await.read(thread).await.turns.len(), turns + 1);
}

/// Reading and resuming are refused; the reason of the latter.
async fn is_refused(app: &mut App, thread: &Thread) -> ErrorObject {
    let params = ThreadReadParams { thread_id: thread.id.clone(), include_turns: true };
    app.try_call::<ThreadRead>(params).await.map(|_| ()).unwrap_err();
    let params = serde_json::from_value(json!({ "threadId": thread.id })).unwrap();
    app.try_call::<ThreadResume>(params).await.map(|_| ()).unwrap_err()
}

/// Other threads do not notice.
async fn others_go_on(app: &mut App, other: &Thread) {
    assert!(app.call::<ThreadList>(Default::default()).await.data.iter().any(|found| found.id == other.id));
    goes_on(app, other, 1).await;
}

#[tokio::test]
async fn a_torn_tail_costs_what_was_never_told() {
    let (mut app, thread, other) = damaged(|text| text + "{\"v\":1,\"ordinal\":99,\"timest").await;
    goes_on(&mut app, &thread, 2).await;
    others_go_on(&mut app, &other).await;
}

#[tokio::test]
async fn garbage_in_the_middle_costs_its_line() {
    let garbage = |text: String| {
        let at = text.lines().position(|line| line.contains("\"two\"")).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.insert(at, "\u{0}\u{1}garbage {{{");
        lines.join("\n") + "\n"
    };
    let (mut app, thread, other) = damaged(garbage).await;
    goes_on(&mut app, &thread, 2).await;
    others_go_on(&mut app, &other).await;
}

#[tokio::test]
async fn an_empty_file_is_no_thread() {
    let (mut app, thread, other) = damaged(|_| String::new()).await;
    let error = is_refused(&mut app, &thread).await;
    assert!(error.message.contains("is not a stored thread"), "{error:?}");
    others_go_on(&mut app, &other).await;
}

/// A later version adds kinds of records; what this one knows of it holds.
#[tokio::test]
async fn a_later_version_is_read_as_far_as_it_is_known() {
    let later = |text: String| {
        let text = text.replace("{\"v\":1,", "{\"v\":99,");
        text + "{\"v\":99,\"ordinal\":99,\"timestamp\":\"2031-01-01T00:00:00.000Z\",\"type\":\"hologram\"}\n"
    };
    let (mut app, thread, other) = damaged(later).await;
    goes_on(&mut app, &thread, 2).await;
    let text = fs::read_to_string(thread.path.as_deref().unwrap()).unwrap();
    assert!(text.contains("hologram"), "what is not known is kept");
    others_go_on(&mut app, &other).await;
}

#[tokio::test]
async fn another_format_is_refused_and_kept() {
    let (mut app, thread, other) =
        damaged(|text| text.replace("\"type\":\"meta\"", "\"type\":\"head\"")).await;
    let before = fs::read(thread.path.as_deref().unwrap()).unwrap();
    let error = is_refused(&mut app, &thread).await;
    assert!(error.message.contains("is not a stored thread"), "{error:?}");
    assert_eq!(fs::read(thread.path.as_deref().unwrap()).unwrap(), before);
    others_go_on(&mut app, &other).await;
}
