//! Errors: their phases and details.

use codicil_agents::evaluate::{
    ClientConfig, ConfigError, EvaluateError, EvaluationCause, EvaluationPhase, Evaluator, ModelConfig,
    Prompt, Tool, ToolContext,
};
use serde_json::{Value, json};

use super::{Recording, fake::evaluator, soon};

/// Returns the error of an evaluation whose turn ends like this.
async fn ended(status: &str, error: Value) -> EvaluateError {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        fake.end(status, error).await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
    answer.unwrap_err()
}

/// Returns the error of a turn that fails with this `codexErrorInfo`.
async fn failed_with(info: Value) -> EvaluateError {
    ended("failed", json!({ "message": "it broke", "codexErrorInfo": info, "additionalDetails": "a cause" }))
        .await
}

#[tokio::test]
async fn every_row_of_the_turn_failure_table() {
    let status = |name: &str| json!({ name: { "httpStatusCode": 500 } });
    let rows = [
        (json!("contextWindowExceeded"), EvaluationPhase::Response),
        (json!("usageLimitExceeded"), EvaluationPhase::Budget),
        (status("httpConnectionFailed"), EvaluationPhase::Request),
        (json!("unauthorized"), EvaluationPhase::Request),
        (json!("badRequest"), EvaluationPhase::Request),
        (json!("sandboxError"), EvaluationPhase::Tool),
        (status("responseTooManyFailedAttempts"), EvaluationPhase::Request),
        (status("responseStreamConnectionFailed"), EvaluationPhase::Request),
        (status("responseStreamDisconnected"), EvaluationPhase::Request),
        (json!("threadRollbackFailed"), EvaluationPhase::Response),
        (json!("internalServerError"), EvaluationPhase::Response),
        (json!({ "modelCap": { "model": "m", "reset_after_seconds": 60 } }), EvaluationPhase::Budget),
        (json!("other"), EvaluationPhase::Response),
        (json!("fromTheFuture"), EvaluationPhase::Response),
        (Value::Null, EvaluationPhase::Response),
    ];
    for (info, phase) in rows {
        let error = failed_with(info.clone()).await;
        assert_eq!(error.phase(), Some(phase), "{info}");
        let failed = error.failed().unwrap();
        let turn = failed.turn_error().unwrap();
        assert_eq!((&*turn.message, turn.additional_details.as_deref()), ("it broke", Some("a cause")));
        assert_eq!(json!(failed.codex_error_info()), info);
        assert_eq!(error.to_string(), format!("{phase}: the turn failed: it broke"));
    }
}

#[tokio::test]
async fn a_refused_request_is_an_error_of_the_request_phase() {
    for step in ["initialize", "thread/start", "turn/start"] {
        let (evaluator, mut servers) = evaluator(ClientConfig::default());
        let prompt = Prompt::text("Hi");
        let serving = async {
            let mut fake = servers.next().await;
            let hello = fake.expect("initialize").await;
            if step == "initialize" {
                return fake.refuse(&hello, "not today").await;
            }
            fake.reply(&hello, json!({})).await;
            fake.expect("initialized").await;
            if step == "turn/start" {
                fake.start_thread().await;
            }
            let request = fake.expect(step).await;
            fake.refuse(&request, "not today").await;
        };
        let (answer, ()) = soon(async { tokio::join!(evaluator.evaluate(&prompt).text(), serving) }).await;
        let error = answer.unwrap_err();
        assert_eq!(error.phase(), Some(EvaluationPhase::Request), "{step}");
        assert_eq!(error.to_string(), format!("request: {step} failed: not today (code -32600)"));
    }
}

#[tokio::test]
async fn a_turn_interrupted_by_another_client_is_an_error_of_the_response_phase() {
    let error = ended("interrupted", Value::Null).await;
    assert!(matches!(error.failed().unwrap().cause, EvaluationCause::Interrupted), "{error}");
    assert_eq!(error.phase(), Some(EvaluationPhase::Response));
}

#[tokio::test]
async fn a_disconnect_is_an_error_of_the_request_phase() {
    let (evaluator, mut servers) = evaluator(ClientConfig::default());
    let prompt = Prompt::text("Hi");
    let recording = Recording::new();
    let evaluating = evaluator.evaluate(&prompt).session(&recording.session).text();
    let serving = async {
        let mut fake = servers.accept().await;
        fake.start_thread().await;
        fake.start_turn().await;
        fake.item(json!({ "type": "webSearch", "id": "i", "query": "x" })).await;
    };
    let (answer, ()) = soon(async { tokio::join!(evaluating, serving) }).await;
    let error = answer.unwrap_err();
    assert_eq!(error.to_string(), "request: the server closed the connection");
    assert_eq!(recording.names(), ["PromptRendered", "ToolInvoked"]);
}

#[tokio::test]
async fn an_invalid_configuration_is_refused_before_anything_starts() {
    let relative = ClientConfig { cwd: Some("work".into()), ..ClientConfig::default() };
    let error = Evaluator::new(relative, ModelConfig::default()).unwrap_err();
    assert_eq!(error, ConfigError::RelativeCwd("work".into()));

    let (evaluator, _servers) = evaluator(ClientConfig::default());
    let tool = || Tool::new("twice", "", |_: (), _: ToolContext| async { Ok("") });
    let prompt = Prompt::text("Hi").tool(tool()).tool(tool());
    let error = soon(evaluator.evaluate(&prompt).text()).await.unwrap_err();
    assert_eq!(error.to_string(), "request: two tools are named \"twice\"");
}

#[tokio::test]
async fn a_missing_program_is_named() {
    for program in ["no-such-program-anywhere", "/no/such/place/codex"] {
        let config = ClientConfig { program: program.into(), ..ClientConfig::default() };
        let evaluator = Evaluator::new(config, ModelConfig::default()).unwrap();
        let error = soon(evaluator.evaluate(&Prompt::text("Hi")).text()).await.unwrap_err();
        let expected = format!(
            "request: cannot start {program}: there is no such program; install it, or set `program`"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let cwd = Some("/no/such/place".into());
    let config = ClientConfig { program: "sh".into(), cwd, ..ClientConfig::default() };
    let evaluator = Evaluator::new(config, ModelConfig::default()).unwrap();
    let error = soon(evaluator.evaluate(&Prompt::text("Hi")).text()).await.unwrap_err();
    assert!(matches!(error.failed().unwrap().cause, EvaluationCause::Cwd(_)), "{error}");
    assert_eq!(error.phase(), Some(EvaluationPhase::Request));
}
