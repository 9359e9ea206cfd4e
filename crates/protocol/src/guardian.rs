//! Approvals by a second agent, the guardian: `item/autoApprovalReview/*`, sent for threads whose approvals reviewer is the
//! guardian.
//!
//! The notifications are independent of those of the reviewed item and can precede them. Their format is unstable and can
//! change with every version of the protocol.

use serde_json::Value;

use crate::{ThreadId, TurnId, wire};

/// The state and result of a review.
#[wire]
pub struct GuardianApprovalReview {
    pub status: GuardianApprovalReviewStatus,
    /// From 0 (harmless) to 100. Null while in progress, like the following members.
    pub risk_score: Option<u8>,
    pub risk_level: Option<GuardianRiskLevel>,
    /// The reasons for the decision, as text.
    pub rationale: Option<String>,
}

/// The state of a review. A review without a result ends as `denied`.
#[wire(open)]
#[derive(Eq)]
pub enum GuardianApprovalReviewStatus {
    InProgress,
    Approved,
    Denied,
    Aborted,
}

/// The risk level that corresponds to the score.
#[wire(open)]
#[derive(Eq)]
pub enum GuardianRiskLevel {
    Low,
    Medium,
    High,
}

/// The origin of the guardian's decision.
#[wire(open)]
#[derive(Default, Eq)]
pub enum AutoReviewDecisionSource {
    #[default]
    Agent,
}

/// A review by the guardian started.
#[wire]
pub struct ItemGuardianApprovalReviewStartedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The id of the review, the same in both notifications.
    #[since("0.166")]
    pub review_id: String,
    /// Unix milliseconds.
    #[since("0.166")]
    pub started_at_ms: i64,
    /// The item that waits for the review.
    pub target_item_id: String,
    pub review: GuardianApprovalReview,
    /// The reviewed action: a tool with its command and directory, or with the files to change.
    pub action: Option<Value>,
}

/// A review by the guardian ended. The item continues or is declined.
#[wire]
pub struct ItemGuardianApprovalReviewCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The id of the review, the same in both notifications.
    #[since("0.166")]
    pub review_id: String,
    /// Unix milliseconds.
    #[since("0.166")]
    pub started_at_ms: i64,
    /// Unix milliseconds.
    #[since("0.166")]
    pub completed_at_ms: i64,
    /// The origin of the decision: always `agent`.
    #[since("0.166")]
    pub decision_source: AutoReviewDecisionSource,
    /// The reviewed item.
    pub target_item_id: String,
    pub review: GuardianApprovalReview,
    /// The same as in the notification of the start.
    pub action: Option<Value>,
}
