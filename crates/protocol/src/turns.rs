//! Turns, one round of work each: `turn/start`, `turn/steer`, `turn/interrupt` and the `turn/*`
//! notifications.
//!
//! The answer to `turn/start` only says that the turn was taken. What happens follows as notifications, of
//! which `turn/completed` is the last, however the turn ends.

use serde_json::Value;

use crate::{
    ApprovalsReviewer, AskForApproval, CollaborationMode, Patch, Personality, ReasoningEffort,
    ReasoningSummary, SandboxPolicy, ServiceTier, ThreadId, ThreadItem, TurnId, UserInput, wire,
};

/// Adds input to a thread and starts work on it.
///
/// The settings are all optional. What is given also holds for the thread's later turns, except for
/// `output_schema`.
#[wire(sparse)]
pub struct TurnStartParams {
    pub thread_id: ThreadId,
    /// Not empty; all its texts together have at most 1,048,576 characters.
    pub input: Vec<UserInput>,
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox_policy: Option<SandboxPolicy>,
    /// A permission profile by its id, instead of a sandbox policy.
    #[experimental("turn/start.permissions")]
    pub permissions: Option<String>,
    pub model: Option<String>,
    /// Null goes back to the provider's ordinary tier.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub personality: Option<Personality>,
    /// A JSON Schema for the agent's last message, in this turn only.
    pub output_schema: Option<Value>,
    /// Stronger than `model` and `effort`.
    #[experimental("turn/start.collaborationMode")]
    pub collaboration_mode: Option<CollaborationMode>,
}

impl TurnStartParams {
    /// A turn with this input, and everything else as the thread has it.
    pub fn new(thread_id: ThreadId, input: Vec<UserInput>) -> Self {
        Self {
            thread_id,
            input,
            cwd: None,
            approval_policy: None,
            approvals_reviewer: None,
            sandbox_policy: None,
            permissions: None,
            model: None,
            service_tier: Patch::Missing,
            effort: None,
            summary: None,
            personality: None,
            output_schema: None,
            collaboration_mode: None,
        }
    }
}

/// The turn that took the input: in progress, without items. If one was running already, it is that one.
#[wire]
pub struct TurnStartResponse {
    pub turn: Turn,
}

/// Adds input to the turn that is running. The model sees it when its current response ends.
#[wire]
pub struct TurnSteerParams {
    pub thread_id: ThreadId,
    pub input: Vec<UserInput>,
    /// Refused when another turn, or none, is running.
    pub expected_turn_id: TurnId,
}

/// The turn that took the input.
#[wire]
pub struct TurnSteerResponse {
    pub turn_id: TurnId,
}

/// Stops a running turn. Terminals that it left in the background go on.
#[wire]
pub struct TurnInterruptParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
}

/// The turn has been stopped; its `turn/completed` follows.
#[wire]
#[derive(Default)]
pub struct TurnInterruptResponse {}

/// One round of work: what was asked, what was done, how it ended.
#[wire]
pub struct Turn {
    pub id: TurnId,
    /// Filled when a thread is read with its turns. Empty in `turn/started` and `turn/completed`, where the
    /// items have notifications of their own.
    pub items: Vec<ThreadItem>,
    pub status: TurnStatus,
    /// Set exactly when the status is `failed`.
    pub error: Option<TurnError>,
}

/// Where a turn is, or how it ended.
#[wire(open)]
#[derive(Eq)]
pub enum TurnStatus {
    Completed,
    /// Stopped by a request, or cut off by the end of the server.
    Interrupted,
    Failed,
    InProgress,
}

/// Why a turn failed, or stumbled.
#[wire]
pub struct TurnError {
    /// For people.
    pub message: String,
    /// For programs.
    pub codex_error_info: Option<CodexErrorInfo>,
    /// The cause, when `message` only says what is done about it.
    pub additional_details: Option<String>,
}

/// The kind of an error. Some kinds carry the HTTP status with which the provider answered, null when it
/// did not answer at all.
#[wire(open)]
pub enum CodexErrorInfo {
    /// The history does not fit the model; compacting it may help.
    ContextWindowExceeded,
    /// A quota is used up.
    UsageLimitExceeded,
    /// The provider has no capacity.
    ServerOverloaded,
    /// The provider failed (HTTP 500).
    InternalServerError,
    /// The provider does not accept the credentials.
    Unauthorized,
    /// The provider, or this server, cannot use the request.
    BadRequest,
    ThreadRollbackFailed,
    SandboxError,
    Other,
    /// The provider could not be reached, or is out of order.
    HttpConnectionFailed {
        http_status_code: Option<u16>,
    },
    /// The stream of the response could not be opened.
    ResponseStreamConnectionFailed {
        http_status_code: Option<u16>,
    },
    /// The stream broke off or fell silent before its end.
    ResponseStreamDisconnected {
        http_status_code: Option<u16>,
    },
    /// Every retry was used; the status is that of the last attempt.
    ResponseTooManyFailedAttempts {
        http_status_code: Option<u16>,
    },
    /// In the answer to a request to steer, not in a turn.
    ActiveTurnNotSteerable {
        turn_kind: NonSteerableTurnKind,
    },
}

/// Turns that take no input while they run.
#[wire(open)]
#[derive(Eq)]
pub enum NonSteerableTurnKind {
    Review,
    /// Started by `thread/compact/start`.
    Compact,
}

/// A turn began to run.
#[wire]
pub struct TurnStartedNotification {
    pub thread_id: ThreadId,
    pub turn: Turn,
}

/// A turn ended: the last word on it, sent once for every turn that was started.
#[wire]
pub struct TurnCompletedNotification {
    pub thread_id: ThreadId,
    pub turn: Turn,
}

/// The file changes of a turn so far; replaces the diff sent before.
#[wire]
pub struct TurnDiffUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// Unified, as git writes it, over all files.
    pub diff: String,
}

/// The agent made or changed its list of steps; replaces the list sent before and is not stored. Not
/// the plan item of plan mode.
#[wire]
pub struct TurnPlanUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// Why it changed.
    pub explanation: Option<String>,
    pub plan: Vec<TurnPlanStep>,
}

/// One line of the agent's list.
#[wire]
pub struct TurnPlanStep {
    pub step: String,
    pub status: TurnPlanStepStatus,
}

/// How far the agent says it is with a step.
#[wire(open)]
#[derive(Eq)]
pub enum TurnPlanStepStatus {
    Pending,
    InProgress,
    Completed,
}

/// The history was shortened. Older clients read this; the `contextCompaction` item says the same.
#[wire]
pub struct ContextCompactedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
}
