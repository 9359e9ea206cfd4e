//! Approvals decided by a second agent: `item/autoApprovalReview/*`, sent on threads whose approvals
//! reviewer is the guardian. They stand beside the life of the item that is judged, and can come before it
//! starts. The shape is not settled, and may change with any version of the protocol.

use serde_json::Value;

use crate::{ThreadId, TurnId, wire};

/// How far a review is, and what it found.
#[wire]
pub struct GuardianApprovalReview {
    pub status: GuardianApprovalReviewStatus,
    /// From 0, harmless, to 100. Null while in progress, like what follows.
    pub risk_score: Option<u8>,
    pub risk_level: Option<GuardianRiskLevel>,
    /// The guardian's reasons, in prose.
    pub rationale: Option<String>,
}

/// The course of a review. One that fails to come to a verdict ends as denied.
#[wire(open)]
#[derive(Eq)]
pub enum GuardianApprovalReviewStatus {
    InProgress,
    Approved,
    Denied,
    Aborted,
}

/// The risk score in a word.
#[wire(open)]
#[derive(Eq)]
pub enum GuardianRiskLevel {
    Low,
    Medium,
    High,
}

/// The guardian has been asked, in place of the client.
#[wire]
pub struct ItemGuardianApprovalReviewStartedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The item that waits for the verdict.
    pub target_item_id: String,
    pub review: GuardianApprovalReview,
    /// What is judged: a tool with its command and directory, or with the files it would change.
    pub action: Option<Value>,
}

/// The guardian has spoken, and the item goes on or is declined.
#[wire]
pub struct ItemGuardianApprovalReviewCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The item that waited for the verdict.
    pub target_item_id: String,
    pub review: GuardianApprovalReview,
    /// The same as when the review started.
    pub action: Option<Value>,
}
