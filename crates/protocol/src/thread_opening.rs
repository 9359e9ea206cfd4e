//! How a thread is opened: `thread/start`, `thread/resume` and `thread/fork`.
//!
//! All three take the same settings and answer with those that hold. The members are written out for each of
//! them: the published schema has them flat, in an order of its own for each.

use serde_json::{Map, Value};

use crate::{
    ActivePermissionProfile, ApprovalsReviewer, AskForApproval, DynamicToolEntry, Patch, Personality,
    ReasoningEffort, ResponseItem, SandboxMode, SandboxPolicy, ServiceTier, Thread, ThreadId,
    ThreadResumeInitialTurnsPageParams, ThreadTurnsListResponse, TurnId, wire,
};

/// Opens a fresh thread and subscribes the caller to it. Whatever is left out comes from the configuration.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadStartParams {
    pub model: Option<String>,
    pub model_provider: Option<String>,
    /// Null overrides the configuration with the provider's ordinary tier.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    /// The server's own directory when left out; need not exist.
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(default, deserialize_with = "crate::policy::mode_or_policy")]
    pub sandbox: Option<SandboxMode>,
    /// A permission profile by its id, instead of a sandbox mode. Servers of the 0.118 generation know none.
    #[experimental("thread/start.permissions")]
    pub permissions: Option<String>,
    /// Any other settings, under their dotted keys.
    pub config: Option<Map<String, Value>>,
    /// A label for metrics.
    pub service_name: Option<String>,
    /// Replaces the instructions that come with the model.
    pub base_instructions: Option<String>,
    /// Added to them.
    pub developer_instructions: Option<String>,
    pub personality: Option<Personality>,
    /// Keep the thread in memory only.
    pub ephemeral: Option<bool>,
    /// Tools that the client runs itself, called by `item/tool/call`.
    #[experimental("thread/start.dynamicTools")]
    pub dynamic_tools: Option<Vec<DynamicToolEntry>>,
    /// Does nothing; there to try the gate.
    #[experimental("thread/start.mockExperimentalField")]
    pub mock_experimental_field: Option<String>,
    /// Send `rawResponseItem/completed` too.
    #[experimental("thread/start.experimentalRawEvents")]
    #[serde(default)]
    pub experimental_raw_events: bool,
    /// Store every kind of item. Servers of the 0.118 generation store only some without it.
    #[experimental("thread/start.persistFullHistory")]
    #[serde(default)]
    pub persist_extended_history: bool,
}

/// The new thread, and the settings that its first turn will have.
#[wire]
pub struct ThreadStartResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Set when the policy comes from a profile.
    #[omit]
    #[schemars(skip)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// Null for the model's own default.
    pub reasoning_effort: Option<ReasoningEffort>,
}

/// Loads a stored thread, or joins one that is loaded, and subscribes the caller to it.
///
/// The settings are those of [`ThreadStartParams`]. Model and effort default to what the thread used last,
/// unless either is given here. For a thread that is loaded already, settings are ignored.
#[wire(sparse)]
pub struct ThreadResumeParams {
    pub thread_id: ThreadId,
    /// Opens a new thread with this history instead of a stored one; must not be empty.
    #[experimental("thread/resume.history")]
    pub history: Option<Vec<ResponseItem>>,
    /// Opens the thread in this file instead of looking it up by id.
    #[experimental("thread/resume.path")]
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub path: Option<String>,
    pub model: Option<String>,
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(default, deserialize_with = "crate::policy::mode_or_policy")]
    pub sandbox: Option<SandboxMode>,
    /// A permission profile by its id, instead of a sandbox mode. Servers of the 0.118 generation know none.
    #[experimental("thread/resume.permissions")]
    pub permissions: Option<String>,
    pub config: Option<Map<String, Value>>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub personality: Option<Personality>,
    #[experimental("thread/resume.persistFullHistory")]
    #[serde(default)]
    pub persist_extended_history: bool,
    /// Answer without the turns, for clients that read them page by page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_turns: bool,
    /// Answer with a page of turns besides.
    #[schemars(skip)]
    pub initial_turns_page: Option<ThreadResumeInitialTurnsPageParams>,
}

impl ThreadResumeParams {
    /// A stored thread with the settings it had.
    pub fn new(thread_id: ThreadId) -> Self {
        Self {
            thread_id,
            history: None,
            path: None,
            model: None,
            model_provider: None,
            service_tier: Patch::Missing,
            cwd: None,
            approval_policy: None,
            approvals_reviewer: None,
            sandbox: None,
            config: None,
            base_instructions: None,
            developer_instructions: None,
            personality: None,
            persist_extended_history: false,
            permissions: None,
            exclude_turns: false,
            initial_turns_page: None,
        }
    }
}

/// The thread with its turns, and the settings that its next turn will have.
#[wire]
pub struct ThreadResumeResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Set when the policy comes from a profile.
    #[omit]
    #[schemars(skip)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Set when it was asked for.
    #[omit]
    #[schemars(skip)]
    pub initial_turns_page: Option<ThreadTurnsListResponse>,
}

/// Copies a thread's history into a new thread and subscribes the caller to that. A turn that is running
/// is copied as interrupted. The settings are those of [`ThreadStartParams`].
#[wire(sparse)]
pub struct ThreadForkParams {
    pub thread_id: ThreadId,
    /// Copies the thread in this file instead of looking it up by id.
    #[experimental("thread/fork.path")]
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub path: Option<String>,
    /// Copies up to this turn and including it, instead of everything.
    pub last_turn_id: Option<TurnId>,
    /// Copies up to this turn, without it.
    #[experimental("thread/fork.beforeTurnId")]
    pub before_turn_id: Option<TurnId>,
    pub model: Option<String>,
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(default, deserialize_with = "crate::policy::mode_or_policy")]
    pub sandbox: Option<SandboxMode>,
    /// A permission profile by its id, instead of a sandbox mode. Servers of the 0.118 generation know none.
    #[experimental("thread/fork.permissions")]
    pub permissions: Option<String>,
    pub config: Option<Map<String, Value>>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// Keep the copy in memory only.
    pub ephemeral: Option<bool>,
    #[experimental("thread/fork.persistFullHistory")]
    #[serde(default)]
    pub persist_extended_history: bool,
    /// Answer without the turns, for clients that read them page by page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_turns: bool,
}

impl ThreadForkParams {
    /// A copy of a thread with the configured settings.
    pub fn new(thread_id: ThreadId) -> Self {
        Self {
            thread_id,
            path: None,
            last_turn_id: None,
            before_turn_id: None,
            model: None,
            model_provider: None,
            service_tier: Patch::Missing,
            cwd: None,
            approval_policy: None,
            approvals_reviewer: None,
            sandbox: None,
            config: None,
            base_instructions: None,
            developer_instructions: None,
            ephemeral: None,
            persist_extended_history: false,
            permissions: None,
            exclude_turns: false,
        }
    }
}

/// The copy with its turns, which keep their ids, and the settings that its next turn will have.
#[wire]
pub struct ThreadForkResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Set when the policy comes from a profile.
    #[omit]
    #[schemars(skip)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub reasoning_effort: Option<ReasoningEffort>,
}
