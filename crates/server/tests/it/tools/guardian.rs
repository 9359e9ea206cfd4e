//! The guardian, a model that answers approvals instead of the user.

use codicil_protocol::{
    AutoApprovalReviewCompleted, AutoApprovalReviewStarted, CommandExecutionApproval,
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalResponse, CommandExecutionStatus,
    ConfigWarning, GuardianApprovalReviewStatus as Status, TurnCompleted, TurnSettingsUpdate,
    TurnSettingsUpdateStatus,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::{call_output, command_end, thread};

/// Starts a turn with an escalated command, and scripts the reply of the guardian.
async fn guarded(guardian: Reply) -> App {
    guarded_by([guardian]).await
}

/// Starts a turn with an escalated command, and scripts the replies of the guardian.
async fn guarded_by(replies: impl IntoIterator<Item = Reply>) -> App {
    let call = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated" });
    let script = Script::new().call("exec_command", call).call_id("c").then();
    let script = replies.into_iter().fold(script, |script, reply| script.reply(reply.when(is_guardian)));
    let config = "[features]\nguardian_approval = true\n";
    let mut app = App::builder().config(config).script(script.say("Done")).start().await;
    std::fs::write(app.workspace().join("plan.txt"), "remove nothing").unwrap();
    let thread = thread(&mut app, json!({ "approvalsReviewer": "guardian_subagent" })).await;
    app.start_turn(&thread, "Make the file").await;
    app
}

fn is_guardian(request: &RecordedRequest) -> bool {
    request.header("x-openai-subagent") == Some("guardian")
}

fn guardian_requests(app: &App) -> Vec<RecordedRequest> {
    app.model().requests().into_iter().filter(is_guardian).collect()
}

fn reads(command: &str, id: &str) -> Reply {
    Reply::new().call("exec_command", json!({ "cmd": command })).call_id(id)
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
async fn the_answer_may_be_in_a_code_block() {
    let said = "```json\n{ \"risk_level\": \"low\", \"risk_score\": 5, \"rationale\": \"fine\" }\n```";
    let mut app = guarded(Reply::new().say(said)).await;
    assert_eq!(app.until::<AutoApprovalReviewCompleted>().await.review.status, Status::Approved);
    app.rest().await;
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

#[tokio::test]
async fn the_guardian_reads_before_it_decides() {
    let replies = [reads("cat plan.txt", "r1"), reads("touch written; cat missing", "r2"), assessment(10)];
    let mut app = guarded_by(replies).await;
    assert_eq!(app.until::<AutoApprovalReviewCompleted>().await.review.status, Status::Approved);
    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Completed);
    app.rest().await;

    let requests = guardian_requests(&app);
    assert_eq!(requests.len(), 3);
    let tools: Vec<_> =
        requests[0].body()["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(tools, ["exec_command"]);
    assert_eq!(requests[1].tool_output("r1").unwrap(), "remove nothing[exit code 0]");
    let second = requests[2].tool_output("r2").unwrap();
    assert!(second.contains("written") && second.ends_with("[exit code 1]"), "{second}");
    assert!(!app.workspace().join("written").exists(), "the guardian cannot write");
    let last = app.model().requests().pop().unwrap();
    assert_eq!(last.tool_output("r1"), None, "its commands are not part of the thread");
}

#[tokio::test]
async fn the_guardian_has_to_answer_in_the_end() {
    let replies = (0..8).map(|number| reads("cat plan.txt", &format!("r{number}")));
    let mut app = guarded_by(replies).await;
    let review = app.until::<AutoApprovalReviewCompleted>().await.review;
    assert_eq!((review.status, review.risk_score), (Status::Denied, Some(100)));
    app.rest().await;
    let requests = guardian_requests(&app);
    let has_tools =
        |request: &RecordedRequest| request.body()["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    assert_eq!(requests.len(), 8);
    assert!(requests[..7].iter().all(has_tools) && !has_tools(&requests[7]));
}

/// Runs a turn in which the model requests permissions and then writes outside of its workspace.
async fn permissions(score: u8) -> (App, Value) {
    let outside = tempfile::tempdir().unwrap();
    let wanted = json!({ "file_system": { "write": [outside.path()] } });
    let script = Script::new()
        .call("request_permissions", json!({ "permissions": wanted, "reason": "To write" }))
        .call_id("p")
        .then()
        .reply(assessment(score).when(is_guardian))
        .call("exec_command", json!({ "cmd": format!("touch {}/made", outside.path().display()) }))
        .then()
        .say("Done");
    let config = "[features]\nguardian_approval = true\nrequest_permissions_tool = true\n";
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = thread(&mut app, json!({ "approvalsReviewer": "auto_review" })).await;
    app.start_turn(&thread, "Write there").await;
    let judged = app.until::<AutoApprovalReviewCompleted>().await;
    let action = judged.action.unwrap();
    assert_eq!((action["tool"].as_str(), judged.target_item_id.as_str()), (Some("request_permissions"), "p"));
    assert_eq!(action["permissions"]["file_system"]["write"], json!([outside.path()]));
    assert_eq!(action["reason"], "To write");
    let (status, ..) = command_end(&mut app).await;
    assert_eq!(status == CommandExecutionStatus::Completed, outside.path().join("made").exists());
    app.rest().await;
    (app, json!(status))
}

#[tokio::test]
async fn permissions_are_reviewed_and_granted_for_the_turn() {
    let (app, status) = permissions(5).await;
    assert_eq!(status, "completed");
    let granted: Value = serde_json::from_str(&call_output(&app, "p")).unwrap();
    assert_eq!(granted["scope"], "turn");
    assert!(granted["permissions"]["file_system"]["write"].is_array(), "{granted}");
}

#[tokio::test]
async fn refused_permissions_come_with_the_reason() {
    let (app, status) = permissions(90).await;
    assert_ne!(status, "completed");
    assert_eq!(call_output(&app, "p"), "permissions refused as too risky: it is what it is");
}

#[tokio::test]
async fn a_reviewer_without_its_feature_is_reported_once() {
    let call = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated" });
    let script = Script::new().call("exec_command", call).then().say("Done").then().say("Again");
    let mut app = App::start(script).await;
    let thread = thread(&mut app, json!({ "approvalsReviewer": "guardian_subagent" })).await;
    app.start_turn(&thread, "Make the file").await;

    let warning = app.until::<ConfigWarning>().await;
    assert!(warning.summary.contains("`guardian_approval` is disabled"), "{}", warning.summary);
    let asked = app.expect_request::<CommandExecutionApproval>().await;
    let decision = CommandExecutionApprovalDecision::Accept;
    app.reply(&asked, CommandExecutionRequestApprovalResponse { decision }).await;
    app.rest().await;
    app.start_turn(&thread, "And again").await;
    let transcript = app.rest().await;
    assert!(!transcript.contains("configWarning"), "{transcript}");
}

#[tokio::test]
async fn the_reviewer_of_a_running_turn_can_be_changed() {
    let call = json!({ "cmd": "touch made", "sandbox_permissions": "require_escalated" });
    let script = Script::new().gate("g").call("exec_command", call).then();
    let script = script.reply(assessment(5).when(is_guardian)).say("Done");
    let config = "[features]\nguardian_approval = true\n";
    let builder = App::builder().config(config).experimental().later_client();
    let mut app = builder.script(script).start().await;
    let thread = thread(&mut app, json!({})).await;
    let turn = app.start_turn(&thread, "Make the file").await;
    app.model().reached("g").await;
    let change = json!({ "threadId": thread.id, "turnId": turn.id, "approvalsReviewer": "auto_review" });
    let applied = app.call::<TurnSettingsUpdate>(serde_json::from_value(change).unwrap()).await;
    assert_eq!(applied.status, TurnSettingsUpdateStatus::Applied);
    app.model().release("g");
    let judged = app.until::<AutoApprovalReviewCompleted>().await;
    assert_eq!(judged.action.unwrap()["type"], "command");
    app.until::<TurnCompleted>().await;
    assert!(app.workspace().join("made").exists());
    app.ignore_rest();
}
