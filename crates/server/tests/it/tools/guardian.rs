//! The guardian, a model that answers approvals instead of the user.

use codicil_protocol::{
    AutoApprovalReviewCompleted, AutoApprovalReviewStarted, CommandExecutionStatus,
    GuardianApprovalReviewStatus as Status,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::json;

use super::{call_output, command_end, thread};

/// Starts a turn with an escalated command, and scripts the reply of the guardian.
async fn guarded(guardian: Reply) -> App {
    let call = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated" });
    let script = Script::new()
        .call("exec_command", call)
        .call_id("c")
        .then()
        .reply(guardian.when(|request| request.header("x-openai-subagent") == Some("guardian")))
        .say("Done");
    let config = "[features]\nguardian_approval = true\n";
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = thread(&mut app, json!({ "approvalsReviewer": "guardian_subagent" })).await;
    app.start_turn(&thread, "Make the file").await;
    app
}

fn assessment(score: u8) -> Reply {
    let said = json!({ "risk_level": "low", "risk_score": score, "rationale": "it is what it is",
        "evidence": [] });
    Reply::new().say(said.to_string())
}

#[tokio::test]
async fn a_low_risk_command_runs_without_a_question() {
    let mut app = guarded(assessment(5)).await;
    let begun = app.until::<AutoApprovalReviewStarted>().await;
    let judged = app.until::<AutoApprovalReviewCompleted>().await;
    assert!(!judged.review_id.is_empty());
    assert_eq!((&judged.review_id, judged.started_at_ms), (&begun.review_id, begun.started_at_ms));
    assert!(judged.completed_at_ms >= judged.started_at_ms);
    assert_eq!((judged.review.status, judged.review.risk_score), (Status::Approved, Some(5)));
    assert_eq!(judged.action.unwrap()["tool"], "exec_command");

    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Completed);
    app.rest().await;
    assert!(app.workspace().join("made").exists());
    let asked = app.model().requests()[1].body().to_string();
    assert!(asked.contains("Make the file") && asked.contains("risk_score"), "{asked}");
}

#[tokio::test]
async fn a_high_risk_command_does_not_run_and_the_model_gets_the_reason() {
    let mut app = guarded(assessment(80)).await;
    assert_eq!(app.until::<AutoApprovalReviewCompleted>().await.review.status, Status::Denied);

    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Declined);
    app.rest().await;
    assert!(!app.workspace().join("made").exists());
    assert!(
        call_output(&app, "c").ends_with("refused as too risky: it is what it is"),
        "{}",
        call_output(&app, "c")
    );
}

#[tokio::test]
async fn a_guardian_without_an_answer_declines() {
    for guardian in [Reply::new().say("I would rather not say"), Reply::status(500)] {
        let mut app = guarded(guardian).await;
        let review = app.until::<AutoApprovalReviewCompleted>().await.review;
        assert_eq!((review.status, review.risk_score), (Status::Denied, Some(100)));
        app.rest().await;
        assert!(!app.workspace().join("made").exists());
    }
}
