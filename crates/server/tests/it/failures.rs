//! Whatever fails, a turn ends once, with an error that says what happened; and the next one works.

use codicil_protocol::{CodexErrorInfo, ErrorReported, ThreadStartParams, TurnCompleted, TurnStatus};
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
