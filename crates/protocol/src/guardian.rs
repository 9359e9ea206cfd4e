//! Approvals by a second agent, the guardian: `item/autoApprovalReview/*`, sent for threads whose approvals reviewer is the
//! guardian.
//!
//! The notifications are independent of those of the reviewed item and can precede them. Their format is unstable and can
//! change with every version of the protocol.

use serde_json::Value;

use crate::{
    AbsolutePathBuf, LegacyAppPathString, NetworkApprovalProtocol, RequestPermissionProfile, ThreadId,
    TurnId, wire,
};

/// The state and result of a review.
#[wire]
pub struct GuardianApprovalReview {
    pub status: GuardianApprovalReviewStatus,
    /// From 0 (harmless) to 100. Null while in progress, like the following members.
    #[until("0.118")]
    pub risk_score: Option<u8>,
    pub risk_level: Option<GuardianRiskLevel>,
    /// Never set: the guardian does not assess it.
    #[omit]
    #[since("0.166")]
    pub user_authorization: Option<GuardianUserAuthorization>,
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
    #[since("0.166")]
    TimedOut,
    Aborted,
}

/// The risk level that corresponds to the score.
#[wire(open)]
#[derive(Eq)]
pub enum GuardianRiskLevel {
    Low,
    Medium,
    High,
    #[since("0.166")]
    Critical,
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
    #[since("0.166", required)]
    pub review_id: String,
    /// Unix milliseconds.
    #[since("0.166", required)]
    pub started_at_ms: i64,
    /// The item that waits for the review.
    #[in_166(Option<String>)]
    pub target_item_id: String,
    pub review: GuardianApprovalReview,
    /// The reviewed action: a tool with its command and directory, or with the files to change.
    #[in_166(GuardianApprovalReviewAction)]
    pub action: Option<Value>,
}

/// A review by the guardian ended. The item continues or is declined.
#[wire]
pub struct ItemGuardianApprovalReviewCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The id of the review, the same in both notifications.
    #[since("0.166", required)]
    pub review_id: String,
    /// Unix milliseconds.
    #[since("0.166", required)]
    pub started_at_ms: i64,
    /// Unix milliseconds.
    #[since("0.166", required)]
    pub completed_at_ms: i64,
    /// The origin of the decision: always `agent`.
    #[since("0.166", required)]
    pub decision_source: AutoReviewDecisionSource,
    /// The reviewed item.
    #[in_166(Option<String>)]
    pub target_item_id: String,
    pub review: GuardianApprovalReview,
    /// The same as in the notification of the start.
    #[in_166(GuardianApprovalReviewAction)]
    pub action: Option<Value>,
}

/// The reviewed action.
#[wire(open, tag = "type")]
pub enum GuardianApprovalReviewAction {
    Command {
        command: String,
        cwd: LegacyAppPathString,
        source: GuardianCommandSource,
    },
    Execve {
        argv: Vec<String>,
        cwd: AbsolutePathBuf,
        program: String,
        source: GuardianCommandSource,
    },
    WriteStdin {
        approval_id: String,
        process_id: String,
        cwd: LegacyAppPathString,
        stdin: String,
    },
    ApplyPatch {
        cwd: LegacyAppPathString,
        files: Vec<LegacyAppPathString>,
    },
    NetworkAccess {
        host: String,
        port: u16,
        protocol: NetworkApprovalProtocol,
        target: String,
    },
    McpToolCall {
        server: String,
        tool_name: String,
        connector_id: Option<String>,
        connector_name: Option<String>,
        tool_title: Option<String>,
    },
    RequestPermissions {
        permissions: RequestPermissionProfile,
        reason: Option<String>,
    },
}

/// The tool with which a command runs.
#[wire(open)]
#[derive(Eq)]
pub enum GuardianCommandSource {
    Shell,
    UnifiedExec,
}

/// How clearly the user permitted an action.
#[wire(open)]
#[derive(Eq)]
pub enum GuardianUserAuthorization {
    Unknown,
    Low,
    Medium,
    High,
}

/// The guardian warns about something that happened in a thread.
#[wire]
pub struct GuardianWarningNotification {
    pub thread_id: ThreadId,
    pub message: String,
}

/// Every action of a turn is reviewed from now on.
#[wire]
pub struct StrictReviewRequiredNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// Unix milliseconds.
    pub started_at_ms: i64,
}

/// Permits an action that the guardian denied.
#[wire]
pub struct ThreadApproveGuardianDeniedActionParams {
    pub thread_id: ThreadId,
    /// The review that ended in the denial.
    pub event: Value,
}

/// The agent is told that the action is permitted.
#[wire]
#[derive(Default)]
pub struct ThreadApproveGuardianDeniedActionResponse {}

/// Limits of automatic reviews.
#[wire]
pub struct AutoReviewRequirements {
    pub ignore_rules: Option<Vec<String>>,
    pub required_on_models: Option<Vec<String>>,
}
