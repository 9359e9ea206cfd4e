//! Turns: `turn/start`, `turn/steer`, `turn/interrupt` and the `turn/*` notifications.
//!
//! The response to `turn/start` says that the turn was accepted. Its work is reported by notifications; the last one is
//! always `turn/completed`.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::{
    AbsolutePathBuf, ApprovalsReviewer, AskForApproval, CollaborationMode, CyberAccessProgram,
    FunctionCallOutputBody, MultiAgentMode, Patch, Personality, ProtocolGeneration, ReasoningEffort,
    ReasoningSummary, SandboxPolicy, ServiceTier, ThreadId, ThreadItem, TurnEnvironmentParams, TurnId,
    TurnItemsView, UserInput, wire,
};

/// Adds user input to a thread and starts a turn.
///
/// All settings are optional. Except for `outputSchema` they also apply to later turns of the thread.
#[wire(sparse)]
pub struct TurnStartParams {
    pub thread_id: ThreadId,
    /// The input; must not be empty, unless there is a `toolOutput`. All texts together have at most 1,048,576 characters.
    pub input: Vec<UserInput>,
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox_policy: Option<SandboxPolicy>,
    /// The id of a permission profile, as an alternative to `sandboxPolicy`.
    #[experimental("turn/start.permissions")]
    #[since("0.166")]
    pub permissions: Option<String>,
    /// The directories of the workspace, which a sandbox that writes to the workspace may write to. Defaults to `cwd`.
    #[experimental("turn/start.runtimeWorkspaceRoots")]
    #[since("0.166")]
    pub runtime_workspace_roots: Option<Vec<AbsolutePathBuf>>,
    /// The environments of the turn. Only `local` is known.
    #[experimental("turn/start.environments")]
    #[since("0.166")]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    /// When the agent may start other agents. Modes other than the default have no effect; the user is warned.
    #[experimental("turn/start.multiAgentMode")]
    #[since("0.166")]
    pub multi_agent_mode: Option<MultiAgentMode>,
    /// The service tier of this turn only.
    #[since("0.166")]
    pub service_tier_for_turn: Option<ServiceTier>,
    pub model: Option<String>,
    /// Null selects the provider's default tier.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub personality: Option<Personality>,
    /// A JSON Schema for the final agent message of this turn.
    pub output_schema: Option<Value>,
    /// Takes precedence over `model` and `effort`.
    #[experimental("turn/start.collaborationMode")]
    pub collaboration_mode: Option<CollaborationMode>,
    /// What the model should know besides the input, by name: a letter, then letters, digits and underscores in lower
    /// case. It stays in the history and is sent again only if it has changed.
    #[experimental("turn/start.additionalContext")]
    #[since("0.166")]
    pub additional_context: Option<BTreeMap<String, AdditionalContextEntry>>,
    /// Comes back as `clientId` of the user message.
    #[since("0.166")]
    pub client_user_message_id: Option<String>,
    /// The output of a tool, instead of `input`.
    #[since("0.166")]
    pub tool_output: Option<TurnToolOutput>,
    /// The plugins to disable for the thread. Refused unless it is empty.
    #[since("0.166")]
    pub disabled_plugin_ids: Option<Vec<String>>,
    /// Labels for the services of OpenAI, without an effect here. So are the members below.
    #[experimental("turn/start.responsesapiClientMetadata")]
    #[since("0.166")]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
    #[experimental("turn/start.responsesapiClientMetadataPatch")]
    #[since("0.166")]
    pub responsesapi_client_metadata_patch: Option<BTreeMap<String, String>>,
    #[experimental("turn/start.cyberAccessProgram")]
    #[since("0.166")]
    pub cyber_access_program: Option<CyberAccessProgram>,
    #[since("0.166")]
    pub root_turn_id: Option<TurnId>,
    #[since("0.166")]
    pub parent_turn_id: Option<TurnId>,
    #[since("0.166")]
    pub turn_trigger: Option<String>,
}

impl TurnStartParams {
    /// Returns params with this input and the thread's settings.
    pub fn new(thread_id: ThreadId, input: Vec<UserInput>) -> Self {
        Self {
            thread_id,
            input,
            cwd: None,
            approval_policy: None,
            approvals_reviewer: None,
            sandbox_policy: None,
            permissions: None,
            runtime_workspace_roots: None,
            environments: None,
            multi_agent_mode: None,
            service_tier_for_turn: None,
            model: None,
            service_tier: Patch::Missing,
            effort: None,
            summary: None,
            personality: None,
            output_schema: None,
            collaboration_mode: None,
            additional_context: None,
            client_user_message_id: None,
            tool_output: None,
            disabled_plugin_ids: None,
            responsesapi_client_metadata: None,
            responsesapi_client_metadata_patch: None,
            cyber_access_program: None,
            root_turn_id: None,
            parent_turn_id: None,
            turn_trigger: None,
        }
    }
}

/// The output of a tool that the model has not called, such as the result of another task.
#[wire(sparse)]
pub struct TurnToolOutput {
    /// The tool's name; must not be empty.
    pub name: String,
    pub namespace: Option<String>,
    pub output: FunctionCallOutputBody,
    /// Whether the output should stay in the model's history. It always does, until the history is compacted.
    pub retain: Option<bool>,
}

/// Context that a client adds to a turn.
#[wire(sparse)]
pub struct AdditionalContextEntry {
    pub kind: AdditionalContextKind,
    pub value: String,
    /// The name that the model sees. Defaults to the key of the entry.
    pub name: Option<String>,
}

/// How far the model may trust context.
#[wire(open)]
#[derive(Eq)]
pub enum AdditionalContextKind {
    /// Content from elsewhere, such as a web page. The model sees it as input.
    Untrusted,
    /// Facts from the client itself. The model sees them as instructions.
    Application,
}

/// The turn that accepted the input: in progress, without items. If a turn was already running, it is that turn.
#[wire]
pub struct TurnStartResponse {
    pub turn: Turn,
}

/// Adds user input to the running turn. The model receives it after its current response.
#[wire(sparse)]
pub struct TurnSteerParams {
    pub thread_id: ThreadId,
    pub input: Vec<UserInput>,
    /// The turn that the client expects to be running. Rejected if it is not.
    pub expected_turn_id: TurnId,
    /// The same as for `turn/start`.
    #[experimental("turn/steer.additionalContext")]
    #[since("0.166")]
    pub additional_context: Option<BTreeMap<String, AdditionalContextEntry>>,
    /// Comes back as `clientId` of the user message.
    #[since("0.166")]
    pub client_user_message_id: Option<String>,
    /// Labels for the services of OpenAI, without an effect here, like the next.
    #[experimental("turn/steer.responsesapiClientMetadata")]
    #[since("0.166")]
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
    #[experimental("turn/steer.responsesapiClientMetadataPatch")]
    #[since("0.166")]
    pub responsesapi_client_metadata_patch: Option<BTreeMap<String, String>>,
}

impl TurnSteerParams {
    /// Returns params with this input.
    pub fn new(thread_id: ThreadId, input: Vec<UserInput>, expected_turn_id: TurnId) -> Self {
        Self {
            thread_id,
            input,
            expected_turn_id,
            additional_context: None,
            client_user_message_id: None,
            responsesapi_client_metadata: None,
            responsesapi_client_metadata_patch: None,
        }
    }
}

/// The turn that accepted the input.
#[wire]
pub struct TurnSteerResponse {
    pub turn_id: TurnId,
}

/// Interrupts a running turn. Its background terminals keep running.
#[wire]
pub struct TurnInterruptParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
}

/// The turn is interrupted; `turn/completed` follows.
#[wire]
#[derive(Default)]
pub struct TurnInterruptResponse {}

/// One round of work: the user input, the resulting items and the outcome.
#[wire]
pub struct Turn {
    pub id: TurnId,
    /// The items, where a thread is returned with its turns. Empty in `turn/started` and `turn/completed`, because items
    /// have their own notifications.
    pub items: Vec<ThreadItem>,
    pub status: TurnStatus,
    /// Set exactly when the status is `failed`.
    pub error: Option<TurnError>,
    /// The turn's own id; of a subagent's turn, the user's turn that it is part of.
    #[since("0.166")]
    pub root_turn_id: Option<TurnId>,
    /// The items that `items` contains.
    #[since("0.166")]
    pub items_view: TurnItemsView,
    /// Unix seconds; null in the response to `turn/start`.
    #[since("0.166")]
    pub started_at: Option<i64>,
    /// Unix seconds; null until the turn has ended.
    #[since("0.166")]
    pub completed_at: Option<i64>,
    /// Null until the turn has ended.
    #[since("0.166")]
    pub duration_ms: Option<i64>,
}

impl Turn {
    /// Returns a turn that is running, without its items.
    pub fn in_progress(id: TurnId) -> Self {
        Self {
            root_turn_id: Some(id.clone()),
            id,
            items: Vec::new(),
            status: TurnStatus::InProgress,
            error: None,
            items_view: TurnItemsView::NotLoaded,
            started_at: None,
            completed_at: None,
            duration_ms: None,
        }
    }
}

/// The state or outcome of a turn.
#[wire(open)]
#[derive(Eq)]
pub enum TurnStatus {
    Completed,
    /// Interrupted by a request or by the exit of the server.
    Interrupted,
    Failed,
    InProgress,
}

/// An error of a turn.
#[wire]
pub struct TurnError {
    /// A human-readable message.
    pub message: String,
    /// A machine-readable classification.
    pub codex_error_info: Option<CodexErrorInfo>,
    /// The cause, if `message` describes only the consequence.
    pub additional_details: Option<String>,
    /// What the provider found, for the kind `misalignmentPolicyViolation`.
    #[since("0.166")]
    #[omit]
    pub misalignment: Option<Box<MisalignmentErrorDetails>>,
}

/// What a provider found when it stopped a model for acting against its instructions.
#[wire]
pub struct MisalignmentErrorDetails {
    pub error_type: Option<String>,
    pub detailed_explanation: Option<String>,
    pub review_target: Option<String>,
    pub steer: Option<MisalignmentSteer>,
}

/// Input with which a provider suggests to go on after a misalignment.
#[wire]
pub struct MisalignmentSteer {
    pub message: String,
}

/// The kind of an error. Some kinds carry the HTTP status of the provider's response; null if there was no response.
#[wire(open, later_variants = "OtherErrorInfo")]
pub enum CodexErrorInfo {
    /// The history exceeds the model's context window; compacting it may help.
    ContextWindowExceeded,
    /// A usage limit is reached.
    UsageLimitExceeded,
    /// The budget of the session is used up.
    #[since("0.166")]
    SessionBudgetExceeded,
    #[since("0.166")]
    RateLimitExceeded,
    /// The service tier `flex` has no capacity.
    #[since("0.166")]
    FlexUnavailable,
    #[since("0.166")]
    ModelNotFound,
    #[since("0.166")]
    PolicyCapacityUnavailable,
    /// The provider rejected the request for its policy about attacks on computers.
    #[since("0.166")]
    CyberPolicy,
    #[since("0.166")]
    MisalignmentPolicyViolation,
    /// Too many actions of the turn were denied.
    #[since("0.166")]
    TooManyDenials,
    /// The provider is overloaded.
    ServerOverloaded,
    /// The provider failed (HTTP 500).
    InternalServerError,
    /// The provider rejected the credentials.
    Unauthorized,
    /// The provider or this server rejected the request.
    BadRequest,
    ThreadRollbackFailed,
    SandboxError,
    Other,
    /// The provider could not be reached or is unavailable.
    HttpConnectionFailed {
        http_status_code: Option<u16>,
    },
    /// The response stream could not be opened.
    ResponseStreamConnectionFailed {
        http_status_code: Option<u16>,
    },
    /// The response stream ended or stalled before it was complete.
    ResponseStreamDisconnected {
        http_status_code: Option<u16>,
    },
    /// All retries failed. The status is that of the last attempt.
    ResponseTooManyFailedAttempts {
        http_status_code: Option<u16>,
    },
    /// The running turn cannot be steered. Used in the error response of `turn/steer`, not in turns.
    ActiveTurnNotSteerable {
        turn_kind: NonSteerableTurnKind,
    },
}

impl CodexErrorInfo {
    /// Returns the kind of an error that has ended a turn, as clients of a generation know it. Stored errors have the HTTP
    /// status that 0.166 shows; in 0.118 the kind says what it means.
    pub fn of_failed_turn(self, generation: ProtocolGeneration) -> Self {
        match (generation, self) {
            (ProtocolGeneration::V118, Self::HttpConnectionFailed { http_status_code: Some(401 | 403) }) => {
                Self::Unauthorized
            }
            (ProtocolGeneration::V118, Self::HttpConnectionFailed { http_status_code: Some(404 | 422) }) => {
                Self::BadRequest
            }
            (ProtocolGeneration::V118, Self::RateLimitExceeded)
            | (ProtocolGeneration::V166, Self::BadRequest | Self::ResponseStreamDisconnected { .. }) => {
                Self::Other
            }
            (_, kind) => kind,
        }
    }
}

impl TurnError {
    /// Returns the error of a failed turn as clients of a generation know it.
    pub fn of_failed_turn(self, generation: ProtocolGeneration) -> Self {
        let codex_error_info = self.codex_error_info.map(|kind| kind.of_failed_turn(generation));
        Self { codex_error_info, ..self }
    }
}

/// The kinds of errors that later versions may add. Exists for its schema only.
pub struct OtherErrorInfo;

impl JsonSchema for OtherErrorInfo {
    fn schema_name() -> Cow<'static, str> {
        "OtherErrorInfo".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "object"] })
    }
}

/// The kinds of turns that accept no input while they run.
#[wire(open)]
#[derive(Eq)]
pub enum NonSteerableTurnKind {
    Review,
    /// Started by `thread/compact/start`.
    Compact,
}

/// A turn started.
#[wire]
pub struct TurnStartedNotification {
    pub thread_id: ThreadId,
    pub turn: Turn,
}

/// A turn ended. Sent exactly once for every started turn, after all its other notifications.
#[wire]
pub struct TurnCompletedNotification {
    pub thread_id: ThreadId,
    pub turn: Turn,
}

/// The file changes of a turn so far. Replaces the previous diff.
#[wire]
pub struct TurnDiffUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// A unified diff of all files, in the format of git.
    pub diff: String,
}

/// The agent created or changed its list of steps. Replaces the previous list and is not stored. Not related to the plan
/// item of plan mode.
#[wire]
pub struct TurnPlanUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The reason for the change.
    pub explanation: Option<String>,
    pub plan: Vec<TurnPlanStep>,
}

/// A step in the agent's list.
#[wire]
pub struct TurnPlanStep {
    pub step: String,
    pub status: TurnPlanStepStatus,
}

/// The progress of a step, as reported by the agent.
#[wire(open)]
#[derive(Eq)]
pub enum TurnPlanStepStatus {
    Pending,
    InProgress,
    Completed,
}

/// The model's history was compacted. For older clients; newer ones use the `contextCompaction` item.
#[wire]
pub struct ContextCompactedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
}

/// Changes the settings of a running turn. Absent settings are kept.
#[wire(sparse, deny_unknown_fields)]
pub struct TurnSettingsUpdateParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub effort: Option<ReasoningEffort>,
    pub model: Option<String>,
    /// Null selects the provider's default tier.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub summary: Option<ReasoningSummary>,
}

/// Whether the settings were changed.
#[wire]
pub struct TurnSettingsUpdateResponse {
    pub status: TurnSettingsUpdateStatus,
}

/// Whether the settings of a turn were changed.
#[wire(open)]
#[derive(Eq)]
pub enum TurnSettingsUpdateStatus {
    Applied,
    TargetUnavailable,
}
