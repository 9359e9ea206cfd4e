//! Approvals of commands.

use codicil_protocol::{
    CommandExecutionApproval, CommandExecutionApprovalDecision as Decision,
    CommandExecutionRequestApprovalResponse, CommandExecutionStatus, TurnStatus,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, json};

use super::{call_output, command_end, thread};

fn escalated(line: &str) -> Value {
    json!({ "cmd": line, "sandbox_permissions": "require_escalated", "justification": "May I?" })
}

fn response(decision: Decision) -> CommandExecutionRequestApprovalResponse {
    CommandExecutionRequestApprovalResponse { decision }
}

/// Starts a turn that waits for the approval of a command. The script ends there.
async fn asked(line: &str) -> (App, codicil_protocol::Thread) {
    let (app, thread) = asked_then(line, |script| script.then().say("Done")).await;
    (app, thread)
}

async fn asked_then(line: &str, go_on: impl Fn(Script) -> Script) -> (App, codicil_protocol::Thread) {
    let script = go_on(Script::new().call("exec_command", escalated(line)).call_id("c"));
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = thread(&mut app, json!({})).await;
    app.start_turn(&thread, "run").await;
    (app, thread)
}

#[tokio::test]
async fn a_command_runs_outside_the_sandbox_only_after_approval() {
    let (mut app, _) = asked("touch made").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(question.params.reason.as_deref(), Some("May I?"));
    assert_eq!(question.params.command.as_deref().map(|line| line.ends_with("-c 'touch made'")), Some(true));
    assert!(!app.workspace().join("made").exists());

    app.reply(&question, response(Decision::Accept)).await;

    let rest = app.rest().await;
    let resolved = rest.find("← serverRequest/resolved").unwrap();
    let active = rest.find("← thread/status/changed active").unwrap();
    let ended = rest.find("completed exit 0").unwrap();
    assert!(resolved < active && active < ended, "{rest}");
    assert!(app.workspace().join("made").exists());
}

#[tokio::test]
async fn a_declined_command_does_not_run_and_the_turn_goes_on() {
    let (mut app, _) = asked("touch made").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&question, response(Decision::Decline)).await;

    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Declined);
    assert!(app.rest().await.ends_with("← turn/completed completed"));
    assert!(!app.workspace().join("made").exists());
    assert!(call_output(&app, "c").ends_with(": rejected by user"), "{}", call_output(&app, "c"));
}

#[tokio::test]
async fn a_cancelled_command_ends_the_turn() {
    let (mut app, _) = asked_then("touch made", |script| script).await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&question, response(Decision::Cancel)).await;

    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Declined);
    assert!(app.rest().await.ends_with("← turn/completed interrupted"));
    assert!(!app.workspace().join("made").exists());
}

#[tokio::test]
async fn a_command_accepted_for_the_session_is_asked_about_once() {
    let (mut app, thread) = asked("touch made").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&question, response(Decision::AcceptForSession)).await;
    app.rest().await;
    std::fs::remove_file(app.workspace().join("made")).unwrap();

    app.model().push(Script::new().call("exec_command", escalated("touch made")).then().say("Again"));
    app.run_turn(&thread, "again").await;

    assert!(app.workspace().join("made").exists());
    app.rest().await;
}

#[tokio::test]
async fn an_amendment_becomes_a_rule_for_every_thread() {
    let (mut app, _) = asked("touch made").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let words = question.params.proposed_execpolicy_amendment.clone().unwrap();
    let decision = Decision::AcceptWithExecpolicyAmendment { execpolicy_amendment: words };
    app.reply(&question, response(decision)).await;
    app.rest().await;

    let rules = std::fs::read_to_string(app.home().join("rules/default.rules")).unwrap();
    assert_eq!(rules, "prefix_rule(pattern=[\"touch\", \"made\"], decision=\"allow\")\n");
    let other = thread(&mut app, json!({})).await;
    app.model().push(Script::new().call("exec_command", escalated("touch made again")).then().say("Ok"));
    app.run_turn(&other, "run").await;
    assert!(app.workspace().join("again").exists());
    app.rest().await;
}

#[tokio::test]
async fn a_command_that_the_sandbox_stopped_may_run_again_without_it() {
    let script = Script::new().call("exec_command", json!({ "cmd": "touch made" })).then().say("Done");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "on-failure" })).await;
    app.start_turn(&thread, "run").await;

    let question = app.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(question.params.reason.as_deref(), Some("command failed; retry without sandbox?"));
    app.reply(&question, response(Decision::Accept)).await;

    let (status, code, _) = command_end(&mut app).await;
    assert_eq!((status, code), (CommandExecutionStatus::Completed, Some(0)));
    assert!(app.workspace().join("made").exists());
    app.rest().await;
}

#[tokio::test]
async fn a_later_subscriber_gets_the_question_and_the_first_answer_counts() {
    let (mut app, thread) = asked("touch made").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let mut other = app.another_client().await;
    other.resume(&thread).await;
    let same = other.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(same.id, question.id);

    other.reply(&same, response(Decision::Accept)).await;
    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Completed);
    app.reply(&question, response(Decision::Decline)).await;

    assert!(app.rest().await.ends_with("← turn/completed completed"));
    assert!(other.rest().await.contains("← serverRequest/resolved"));
}

#[tokio::test]
async fn an_interrupt_resolves_the_question() {
    let (mut app, thread) = asked_then("touch made", |script| script).await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let params = json!({ "threadId": thread.id, "turnId": question.params.turn_id });
    app.call::<codicil_protocol::TurnInterrupt>(serde_json::from_value(params).unwrap()).await;

    let ended = app.until::<codicil_protocol::TurnCompleted>().await;
    assert_eq!(ended.turn.status, TurnStatus::Interrupted);
    let resolved = app.until::<codicil_protocol::ServerRequestResolved>().await;
    assert_eq!(resolved.request_id, question.id);
    // The answer comes too late and is ignored.
    app.reply(&question, response(Decision::Accept)).await;
    app.rest().await;
    assert!(!app.workspace().join("made").exists());
}

#[tokio::test]
async fn an_error_as_answer_fails_the_command_only() {
    let (mut app, _) = asked("touch made").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.refuse(&question, -32000, "no dialog").await;

    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Failed);
    assert!(app.rest().await.ends_with("← turn/completed completed"));
}

#[tokio::test]
async fn without_approvals_an_escalated_command_is_refused() {
    let script = Script::new().call("exec_command", escalated("touch made")).call_id("c").then().say("Ok");
    let mut app = App::start(script).await;
    let thread = thread(&mut app, json!({ "approvalPolicy": "never" })).await;
    app.start_turn(&thread, "run").await;

    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Declined);
    app.rest().await;
    assert!(call_output(&app, "c").contains("the approval policy is `never`"), "{}", call_output(&app, "c"));
}
