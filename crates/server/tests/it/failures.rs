//! Whatever fails, a turn ends once, with an error that says what happened; and the next one works.

use std::time::{Duration, Instant};

use codicil_protocol::{
    CodexErrorInfo, ErrorReported, Thread, ThreadStart, ThreadStartParams, TurnCompleted, TurnStart,
    TurnStarted, TurnStatus,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::json;

/// A thread whose provider has another limit.
fn provider_with(key: &str, value: u32) -> ThreadStartParams {
    let config = [(format!("model_providers.mock.{key}"), json!(value))].into_iter().collect();
    ThreadStartParams { config: Some(config), ..ThreadStartParams::default() }
}

/// Runs a turn that fails and one that does not. Returns how the first ended.
async fn fails_then_works(reply: impl Into<Script>) -> (Option<CodexErrorInfo>, String) {
    let mut app = App::start(reply).await;
    app.model().push(Script::new().say("fine again"));
    let thread = app.start_thread().await;
    let failed = app.run_turn(&thread, "hi").await;
    assert_eq!(failed.status, TurnStatus::Failed);
    let error = failed.error.clone().unwrap();
    assert_eq!(app.run_turn(&thread, "again").await.status, TurnStatus::Completed);

    app.rest().await;
    let stored = app.restart().await.read(&thread).await;
    assert_eq!((stored.turns[0].error.clone(), stored.turns.len()), (failed.error, 2));
    (error.codex_error_info, error.message)
}

#[tokio::test]
async fn http_errors_are_told_by_their_kind() {
    let check = async |status: u16, expected: CodexErrorInfo| {
        let reply = Reply::status(status).body(json!({ "error": { "message": "the reason" } }));
        let (info, message) = fails_then_works(reply).await;
        assert_eq!(info, Some(expected), "{status}: {message}");
    };
    check(400, CodexErrorInfo::BadRequest).await;
    check(401, CodexErrorInfo::Unauthorized).await;
    check(403, CodexErrorInfo::Unauthorized).await;
    check(404, CodexErrorInfo::BadRequest).await;
    check(429, CodexErrorInfo::ResponseTooManyFailedAttempts { http_status_code: Some(429) }).await;
    check(500, CodexErrorInfo::InternalServerError).await;
    check(503, CodexErrorInfo::HttpConnectionFailed { http_status_code: Some(503) }).await;
}

#[tokio::test]
async fn a_cut_stream_keeps_what_was_said() {
    let mut app = App::start(Script::new().say("half an ans").unfinished().cut()).await;
    let thread = app.start_thread().await;
    let turn = app.run_turn(&thread, "hi").await;

    let info = turn.error.and_then(|error| error.codex_error_info);
    assert_eq!(info, Some(CodexErrorInfo::ResponseStreamDisconnected { http_status_code: None }));
    let stored = app.read(&thread).await;
    assert!(format!("{:?}", stored.turns[0].items).contains("half an ans"));
    app.rest().await;
}

#[tokio::test]
async fn a_stalled_stream_ends_at_its_deadline() {
    let script = Script::new().say("Let me").unfinished().hang();
    let mut app = App::start(script).await;
    let thread = app.start_thread_with(provider_with("stream_idle_timeout_ms", 100)).await;
    let turn = app.run_turn(&thread, "hi").await;

    let info = turn.error.and_then(|error| error.codex_error_info);
    assert_eq!(info, Some(CodexErrorInfo::ResponseStreamDisconnected { http_status_code: None }));
    app.rest().await;
}

#[tokio::test]
async fn a_provider_that_is_not_there_fails_the_turn() {
    let dead = "model_provider = \"dead\"\n[model_providers.dead]\nname = \"dead\"\n\
                base_url = \"http://127.0.0.1:9/v1\"\nrequest_max_retries = 0\nstream_max_retries = 0\n";
    let mut app = App::builder().config(dead).start().await;
    let thread = app.start_thread().await;
    let turn = app.run_turn(&thread, "hi").await;

    let info = turn.error.and_then(|error| error.codex_error_info);
    assert_eq!(info, Some(CodexErrorInfo::HttpConnectionFailed { http_status_code: None }));
    app.rest().await;
}

#[tokio::test]
async fn a_model_that_the_provider_does_not_have_is_named() {
    let message = "The model `no-such-model` does not exist";
    let body = json!({ "error": { "message": message, "code": "model_not_found" } });
    let script = Script::from(Reply::status(404).body(body)).say("fine again");
    let mut app = App::start(script).await;
    let params = ThreadStartParams { model: Some("no-such-model".to_owned()), ..Default::default() };
    let thread = app.start_thread_with(params).await;
    let failed = app.run_turn(&thread, "hi").await.error.unwrap();
    assert_eq!(failed.codex_error_info, Some(CodexErrorInfo::BadRequest));
    assert!(failed.message.contains(message), "{}", failed.message);
    assert_eq!(app.model().requests()[0].model(), Some("no-such-model"));

    // The next turn may name another one.
    let text = json!([{ "type": "text", "text": "again" }]);
    let params = json!({ "threadId": thread.id, "input": text, "model": "another" });
    app.call::<TurnStart>(serde_json::from_value(params).unwrap()).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert_eq!(app.model().requests()[1].model(), Some("another"));
    app.rest().await;
}

#[tokio::test]
async fn a_provider_that_asks_for_patience_is_given_it() {
    let later = || Reply::status(429).header("retry-after", "1");
    let mut app = App::start(Script::from(later()).say("fine")).await;
    let thread = app.start_thread_with(provider_with("stream_max_retries", 1)).await;
    let began = Instant::now();
    app.start_turn(&thread, "hi").await;
    assert!(app.until::<ErrorReported>().await.will_retry);
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert!(began.elapsed() >= Duration::from_secs(1), "it asked again after {:?}", began.elapsed());

    // But not for ever.
    app.model().push(Script::from(later()).reply(later()));
    let error = app.run_turn(&thread, "again").await.error.unwrap();
    let expected = CodexErrorInfo::ResponseTooManyFailedAttempts { http_status_code: Some(429) };
    assert_eq!(error.codex_error_info, Some(expected));
    assert_eq!(error.message, "exceeded retry limit, last status: 429 Too Many Requests");
    app.rest().await;
}

#[tokio::test]
async fn a_missing_key_says_what_to_set() {
    let locked = "model_provider = \"locked\"\n[model_providers.locked]\nname = \"locked\"\n\
                  base_url = \"http://127.0.0.1:9/v1\"\nenv_key = \"NO_SUCH_KEY_HERE\"\n";
    let mut app = App::builder().config(locked).start().await;
    let thread = app.start_thread().await;
    let turn = app.run_turn(&thread, "hi").await;

    let error = turn.error.unwrap();
    assert_eq!(error.codex_error_info, Some(CodexErrorInfo::Unauthorized));
    assert!(error.message.contains("NO_SUCH_KEY_HERE"), "{}", error.message);
    app.rest().await;
}

#[tokio::test]
async fn a_broken_stream_is_asked_for_again_and_clients_are_told() {
    let script = Script::new().cut().say("whole");
    let mut app = App::start(script).await;
    let thread = app.start_thread_with(provider_with("stream_max_retries", 2)).await;
    app.start_turn(&thread, "hi").await;

    let error = app.until::<ErrorReported>().await;
    assert!(error.will_retry);
    assert_eq!(error.error.message, "Reconnecting... 1/2");
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    app.rest().await;
}

/// Every write to the thread's file fails from now on.
fn break_disk_of(thread: &Thread) {
    let path = thread.path.as_deref().unwrap();
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir(path).unwrap();
}

#[tokio::test]
async fn a_disk_that_takes_nothing_refuses_a_turn_and_leaves_other_threads_alone() {
    let mut app = App::start(Script::new().say("Hello")).await;
    let (broken, other) = (app.start_thread().await, app.start_thread().await);
    break_disk_of(&broken);

    let params = json!({ "threadId": broken.id, "input": [{ "type": "text", "text": "Hi" }] });
    let error = app.try_call::<TurnStart>(serde_json::from_value(params).unwrap()).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("Is a directory"), "{}", error.message);

    assert_eq!(app.run_turn(&other, "Hi").await.status, TurnStatus::Completed);
    app.rest().await;
}

#[tokio::test]
async fn a_disk_that_breaks_ends_the_turn_with_its_error() {
    let mut app = App::start(Script::new().gate("broken").say("Hello")).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "Hi").await;
    app.until::<TurnStarted>().await;
    break_disk_of(&thread);
    app.model().release("broken");

    let ended = app.until_where::<TurnCompleted>(|ended| ended.turn.id == turn.id).await.turn;
    assert_eq!(ended.status, TurnStatus::Failed);
    let error = ended.error.unwrap().message;
    assert!(error.contains("Is a directory"), "{error}");
    app.rest().await;
}

/// What a home looks like that cannot be written, also to root.
#[tokio::test]
async fn a_home_that_cannot_be_written_refuses_threads_and_serves_the_rest() {
    let mut app = App::start(Script::new()).await;
    let sessions = app.home().join("sessions");
    let _ = std::fs::remove_dir_all(&sessions);
    std::fs::write(&sessions, "in the way").unwrap();

    let error = app.try_call::<ThreadStart>(Default::default()).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("sessions"), "it names the place: {}", error.message);

    let params = serde_json::from_value(json!({ "ephemeral": true })).unwrap();
    assert!(app.start_thread_with(params).await.ephemeral);
    app.rest().await;
}
