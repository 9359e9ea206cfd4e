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
    GuardianApprovalReview, GuardianApprovalReviewStatus, GuardianRiskLevel,
    ItemGuardianApprovalReviewCompletedNotification, ItemGuardianApprovalReviewStartedNotification, ItemId,
};
use serde_json::Value;

use super::{TurnTools, call::TurnCancelled};
use crate::{clock::unix_now_ms, ids::new_item_id};
use assessment::{RiskAssessment, RiskLevel, assess};

/// The lowest risk score that is refused.
const REFUSED_SCORE: u8 = 80;
/// The time for a review with everything that the guardian reads.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(90);

/// The result of a review; the error says why the action is refused.
pub(super) type GuardianRuling = Result<(), String>;

/// Whether the guardian decides in the user's place.
pub(super) fn is_enabled(turn: &TurnTools) -> bool {
    turn.settings.approvals_reviewer == ApprovalsReviewer::GuardianSubagent
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
    turn.notify::<AutoApprovalReviewStarted>(&started).await;
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
    turn.notify::<AutoApprovalReviewCompleted>(&completed).await;
}

fn wire_review(
    status: GuardianApprovalReviewStatus,
    assessment: Option<RiskAssessment>,
) -> GuardianApprovalReview {
    let Some(RiskAssessment { risk_level, risk_score, rationale }) = assessment else {
        return GuardianApprovalReview { status, risk_score: None, risk_level: None, rationale: None };
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
        rationale: Some(rationale),
    }
}
