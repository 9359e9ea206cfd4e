//! The guardian: a second model that reviews the risk of an action in the user's place.
//!
//! It reads before it decides: `guardian/assessment.rs` runs its requests and the commands with which it gathers context. A
//! review without a usable result counts as a refusal. Clients see the review as `item/autoApprovalReview/*`, and
//! nothing of the commands in between.

mod assessment;

use std::time::Duration;

use codicil_config::Feature;
use codicil_protocol::{
    ApprovalsReviewer, AutoApprovalReviewCompleted, AutoApprovalReviewStarted, AutoReviewDecisionSource,
    Frame, GuardianApprovalReview, GuardianApprovalReviewStatus, GuardianRiskLevel,
    ItemGuardianApprovalReviewCompletedNotification, ItemGuardianApprovalReviewStartedNotification, ItemId,
};
use serde_json::{Value, json};

use super::{TurnTools, builtin::BuiltinTool, call::TurnCancelled, command::ExecCommand};
use crate::{clock::unix_now_ms, ids::new_item_id, turn_channel::TurnEvent};
use assessment::{RiskAssessment, RiskLevel, assess};

/// The lowest risk score that is refused.
const REFUSED_SCORE: u8 = 80;
/// The time for a review with everything that the guardian reads.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(90);

/// The result of a review; the error says why the action is refused.
pub(super) type GuardianRuling = Result<(), String>;

/// Whether the guardian decides in the user's place.
pub(super) fn is_enabled(turn: &TurnTools) -> bool {
    let chosen = turn.thread.turn_reviewer(&turn.turn_id);
    let reviewer = chosen.as_ref().unwrap_or(&turn.settings.approvals_reviewer);
    *reviewer == ApprovalsReviewer::GuardianSubagent
        && turn.config.features.enabled(Feature::GuardianApproval)
}

/// Has the guardian review an action, and notifies clients of the review.
pub(super) async fn review(
    turn: &TurnTools,
    item: &ItemId,
    action: Value,
) -> Result<GuardianRuling, TurnCancelled> {
    let started = ItemGuardianApprovalReviewStartedNotification {
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        review_id: new_item_id().to_string(),
        started_at_ms: unix_now_ms(),
        target_item_id: item.to_string(),
        review: wire_review(GuardianApprovalReviewStatus::InProgress, None),
        action: Some(action.clone()),
    };
    let later = ItemGuardianApprovalReviewStartedNotification {
        action: Some(later_action(&action)),
        ..started.clone()
    };
    let frame = Frame::notification::<AutoApprovalReviewStarted>(&started)
        .with_later_params::<AutoApprovalReviewStarted>(&later);
    turn.reporter.report_one(TurnEvent::Notification(frame)).await;
    let assessed = tokio::time::timeout(REVIEW_TIMEOUT, assess(turn, &action));
    let Some(assessed) = turn.cancel.run_until_cancelled(assessed).await else {
        let aborted = wire_review(GuardianApprovalReviewStatus::Aborted, None);
        emit_completed(turn, started, aborted).await;
        return Err(TurnCancelled);
    };
    let assessment = assessed.ok().flatten().unwrap_or_else(|| RiskAssessment {
        risk_level: RiskLevel::High,
        risk_score: 100,
        rationale: "the review came to no result".to_owned(),
    });
    let is_approved = assessment.risk_score < REFUSED_SCORE;
    let ruling =
        if is_approved { Ok(()) } else { Err(format!("refused as too risky: {}", assessment.rationale)) };
    let status = if is_approved {
        GuardianApprovalReviewStatus::Approved
    } else {
        GuardianApprovalReviewStatus::Denied
    };
    emit_completed(turn, started, wire_review(status, Some(assessment))).await;
    Ok(ruling)
}

async fn emit_completed(
    turn: &TurnTools,
    started: ItemGuardianApprovalReviewStartedNotification,
    review: GuardianApprovalReview,
) {
    let completed = ItemGuardianApprovalReviewCompletedNotification {
        thread_id: started.thread_id,
        turn_id: started.turn_id,
        review_id: started.review_id,
        started_at_ms: started.started_at_ms,
        completed_at_ms: unix_now_ms(),
        decision_source: AutoReviewDecisionSource::Agent,
        target_item_id: started.target_item_id,
        review,
        action: started.action,
    };
    let later = ItemGuardianApprovalReviewCompletedNotification {
        action: completed.action.as_ref().map(later_action),
        ..completed.clone()
    };
    let frame = Frame::notification::<AutoApprovalReviewCompleted>(&completed)
        .with_later_params::<AutoApprovalReviewCompleted>(&later);
    turn.reporter.report_one(TurnEvent::Notification(frame)).await;
}

/// Returns an action in the form of 0.166, which has a type for each kind. The kinds are told apart by what only they have.
fn later_action(action: &Value) -> Value {
    let member = |name: &str| action.get(name).cloned().unwrap_or_default();
    if action.get("command").is_some() {
        let is_session = member("tool") == ExecCommand.name();
        let source = if is_session { "unifiedExec" } else { "shell" };
        json!({ "type": "command", "command": member("command"), "cwd": member("cwd"), "source": source })
    } else if action.get("files").is_some() {
        json!({ "type": "applyPatch", "cwd": member("cwd"), "files": member("files") })
    } else if action.get("chars").is_some() {
        json!({
            "type": "writeStdin",
            "approvalId": member("call_id"),
            "processId": member("session"),
            "cwd": member("cwd"),
            "stdin": member("chars"),
        })
    } else if action.get("host").is_some() {
        json!({
            "type": "networkAccess",
            "host": member("host"),
            "port": member("port"),
            "protocol": member("protocol"),
            "target": member("target"),
        })
    } else if let Some(permissions) = action.get("permissions") {
        let permissions = json!({
            "network": permissions.get("network"),
            "fileSystem": permissions.get("file_system"),
        });
        json!({ "type": "requestPermissions", "permissions": permissions, "reason": member("reason") })
    } else {
        json!({ "type": "mcpToolCall", "server": member("server"), "toolName": member("tool_name") })
    }
}

fn wire_review(
    status: GuardianApprovalReviewStatus,
    assessment: Option<RiskAssessment>,
) -> GuardianApprovalReview {
    let Some(RiskAssessment { risk_level, risk_score, rationale }) = assessment else {
        return GuardianApprovalReview {
            status,
            risk_score: None,
            risk_level: None,
            user_authorization: None,
            rationale: None,
        };
    };
    let risk_level = match risk_level {
        RiskLevel::Low => GuardianRiskLevel::Low,
        RiskLevel::Medium => GuardianRiskLevel::Medium,
        RiskLevel::High => GuardianRiskLevel::High,
    };
    GuardianApprovalReview {
        status,
        risk_score: Some(risk_score),
        risk_level: Some(risk_level),
        user_authorization: None,
        rationale: Some(rationale),
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::GuardianApprovalReviewAction as Action;

    use super::*;

    #[test]
    fn every_action_has_a_form_of_0_166() {
        let check = |action: Value, kind: &str| {
            let later = later_action(&action);
            assert_eq!(later["type"], kind, "{action}");
            let read: Action = serde_json::from_value(later.clone()).unwrap();
            assert!(!matches!(read, Action::Unrecognized(_)), "{later}");
        };
        check(json!({ "tool": "exec_command", "command": "ls", "cwd": "/" }), "command");
        check(json!({ "tool": "shell", "command": "ls", "cwd": "/" }), "command");
        check(json!({ "tool": "apply_patch", "cwd": "/", "files": ["/a"], "change_count": 1 }), "applyPatch");
        let input =
            json!({ "tool": "write_stdin", "call_id": "c", "session": "1", "chars": "y", "cwd": "/" });
        check(input, "writeStdin");
        let host = json!({ "tool": "network_access", "target": "https://a:1", "host": "a", "protocol": "https",
            "port": 1 });
        check(host, "networkAccess");
        let permissions = json!({ "network": { "enabled": true }, "file_system": null });
        let asked = json!({ "tool": "request_permissions", "permissions": permissions, "reason": "r" });
        check(asked, "requestPermissions");
        let call = json!({ "tool": "mcp_tool_call", "server": "s", "tool_name": "t", "arguments": {} });
        check(call, "mcpToolCall");
    }
}
