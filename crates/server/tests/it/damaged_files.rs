//! Threads whose files are damaged: intact records are served, other files are refused, and other threads are not
//! affected.

use std::fs;

use codicil_protocol::{
    Thread, ThreadList, ThreadRead, ThreadReadParams, ThreadResume, TurnStatus, rpc::ErrorObject,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::json;

/// Returns a thread of two turns whose file was changed while the server was stopped, and another thread of one turn.
async fn damaged(change: impl FnOnce(String) -> String) -> (App, Thread, Thread) {
    let mut app = App::start(Script::new().repeat(Reply::new().say("Hello"))).await;
    let thread = app.start_thread().await;
    let other = app.start_thread().await;
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

/// Checks that the thread is read and resumed with this many turns, and that its next turn works.
async fn assert_goes_on(app: &mut App, thread: &Thread, turns: usize) {
    assert_eq!(app.read(thread).await.turns.len(), turns);
    assert_eq!(app.resume(thread).await.turns.len(), turns);
    assert_eq!(app.run_turn(thread, "next").await.status, TurnStatus::Completed);
    app.rest().await;
    assert_eq!(app.restart().await.read(thread).await.turns.len(), turns + 1);
}

/// Checks that reading and resuming are refused. Returns the error of resuming.
async fn assert_refused(app: &mut App, thread: &Thread) -> ErrorObject {
    let params = ThreadReadParams { thread_id: thread.id.clone(), include_turns: true };
    app.try_call::<ThreadRead>(params).await.map(|_| ()).unwrap_err();
    let params = serde_json::from_value(json!({ "threadId": thread.id })).unwrap();
    app.try_call::<ThreadResume>(params).await.map(|_| ()).unwrap_err()
}

/// Checks that another thread is not affected.
async fn assert_others_go_on(app: &mut App, other: &Thread) {
    assert!(app.call::<ThreadList>(Default::default()).await.data.iter().any(|found| found.id == other.id));
    assert_goes_on(app, other, 1).await;
}

#[tokio::test]
async fn a_torn_last_line_is_dropped() {
    let (mut app, thread, other) = damaged(|text| text + "{\"v\":1,\"ordinal\":99,\"timest").await;
    assert_goes_on(&mut app, &thread, 2).await;
    assert_others_go_on(&mut app, &other).await;
}

#[tokio::test]
async fn a_damaged_line_is_skipped() {
    let garbage = |text: String| {
        let at = text.lines().position(|line| line.contains("\"two\"")).unwrap();
        let mut lines: Vec<_> = text.lines().collect();
        lines.insert(at, "\u{0}\u{1}garbage {{{");
        lines.join("\n") + "\n"
    };
    let (mut app, thread, other) = damaged(garbage).await;
    assert_goes_on(&mut app, &thread, 2).await;
    assert_others_go_on(&mut app, &other).await;
}

#[tokio::test]
async fn an_empty_file_is_refused() {
    let (mut app, thread, other) = damaged(|_| String::new()).await;
    let error = assert_refused(&mut app, &thread).await;
    assert!(error.message.contains("is not a stored thread"), "{error:?}");
    assert_others_go_on(&mut app, &other).await;
}

/// A later version may add kinds of records. The known ones apply.
#[tokio::test]
async fn records_of_a_later_version_are_read_as_far_as_known() {
    let later = |text: String| {
        let text = text.replace("{\"v\":1,", "{\"v\":99,");
        text + "{\"v\":99,\"ordinal\":99,\"timestamp\":\"2031-01-01T00:00:00.000Z\",\"type\":\"hologram\"}\n"
    };
    let (mut app, thread, other) = damaged(later).await;
    assert_goes_on(&mut app, &thread, 2).await;
    let text = fs::read_to_string(thread.path.as_deref().unwrap()).unwrap();
    assert!(text.contains("hologram"), "unknown records are kept");
    assert_others_go_on(&mut app, &other).await;
}

#[tokio::test]
async fn an_unknown_format_is_refused_and_not_changed() {
    let (mut app, thread, other) =
        damaged(|text| text.replace("\"type\":\"meta\"", "\"type\":\"head\"")).await;
    let before = fs::read(thread.path.as_deref().unwrap()).unwrap();
    let error = assert_refused(&mut app, &thread).await;
    assert!(error.message.contains("is not a stored thread"), "{error:?}");
    assert_eq!(fs::read(thread.path.as_deref().unwrap()).unwrap(), before);
    assert_others_go_on(&mut app, &other).await;
}
