//! Failures of models, providers and disks: the turn ends once, with an error, and the next turn works.

use std::time::{Duration, Instant};

use codicil_protocol::{
    CodexErrorInfo, ErrorReported, Thread, ThreadStart, ThreadStartParams, TurnCompleted, TurnStart,
    TurnStarted, TurnStatus,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::json;

/// Makes params of a thread whose provider has another limit.
fn provider_with(key: &str, value: u32) -> ThreadStartParams {
    let config = [(format!("model_providers.mock.{key}"), json!(value))].into_iter().collect();
    ThreadStartParams { config: Some(config), ..ThreadStartParams::default() }
}

/// Runs a turn that fails and one that does not. Returns the first.
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
async fn http_errors_have_an_error_code() {
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
async fn a_broken_stream_keeps_the_partial_message() {
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
async fn an_unreachable_provider_fails_the_turn() {
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
async fn the_error_names_a_model_that_the_provider_does_not_have() {
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

    // The next turn may name another model.
    let text = json!([{ "type": "text", "text": "again" }]);
    let params = json!({ "threadId": thread.id, "input": text, "model": "another" });
    app.call::<TurnStart>(serde_json::from_value(params).unwrap()).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert_eq!(app.model().requests()[1].model(), Some("another"));
    app.rest().await;
}

#[tokio::test]
async fn a_retry_after_header_is_respected() {
    let later = || Reply::status(429).header("retry-after", "1");
    let mut app = App::start(Script::from(later()).say("fine")).await;
    let thread = app.start_thread_with(provider_with("stream_max_retries", 1)).await;
    let began = Instant::now();
    app.start_turn(&thread, "hi").await;
    assert!(app.until::<ErrorReported>().await.will_retry);
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert!(began.elapsed() >= Duration::from_secs(1), "retried after {:?}", began.elapsed());

    // The number of retries is limited.
    app.model().push(Script::from(later()).reply(later()));
    let error = app.run_turn(&thread, "again").await.error.unwrap();
    let expected = CodexErrorInfo::ResponseTooManyFailedAttempts { http_status_code: Some(429) };
    assert_eq!(error.codex_error_info, Some(expected));
    assert!(error.message.starts_with("exceeded retry limit, last status: 429 Too Many Requests: "));
    app.rest().await;
}

#[tokio::test]
async fn the_error_of_a_missing_key_names_the_variable() {
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
async fn a_broken_stream_is_retried_and_clients_are_notified() {
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

/// Makes every further write to the thread's file fail.
fn break_disk_of(thread: &Thread) {
    let path = thread.path.as_deref().unwrap();
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir(path).unwrap();
}

#[tokio::test]
async fn a_failed_write_refuses_a_turn_of_its_own_thread_only() {
    let mut app = App::start(Script::new().say("Hello")).await;
    let broken = app.start_thread().await;
    let other = app.start_thread().await;
    break_disk_of(&broken);

    let params = json!({ "threadId": broken.id, "input": [{ "type": "text", "text": "Hi" }] });
    let error = app.try_call::<TurnStart>(serde_json::from_value(params).unwrap()).await.unwrap_err();
    assert_eq!(error.code, -32603);
    assert!(error.message.contains("Is a directory"), "{}", error.message);

    assert_eq!(app.run_turn(&other, "Hi").await.status, TurnStatus::Completed);
    app.rest().await;
}

#[tokio::test]
async fn a_failed_write_fails_the_running_turn() {
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

/// Simulates a home that cannot be written, even by root.
#[tokio::test]
async fn a_read_only_home_refuses_threads_and_serves_other_requests() {
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
