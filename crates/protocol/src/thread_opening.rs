//! Opening a thread: `thread/start`, `thread/resume` and `thread/fork`.
//!
//! All three accept the same settings and respond with the resulting ones. The members are repeated for each method
//! because the published schema has them flat and in a different order for each.

use serde_json::{Map, Value};

use crate::{
    AbsolutePathBuf, ActivePermissionProfile, ApprovalsReviewer, AskForApproval, CollaborationMode,
    DynamicToolEntry, LegacyAppPathString, MessageSeq, MultiAgentMode, Patch, Personality, ReasoningEffort,
    ResponseItem, SandboxPolicy, SelectedCapabilityRoot, ServiceTier, Thread, ThreadHistoryMode, ThreadId,
    ThreadResumeInitialTurnsPageParams, ThreadSandbox, ThreadSource, TurnEnvironmentParams, TurnId,
    TurnsPage, wire,
};

/// Starts a new thread and subscribes the caller to it. Absent settings come from the configuration.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadStartParams {
    pub model: Option<String>,
    pub model_provider: Option<String>,
    /// Null selects the provider's default tier, overriding the configuration.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    /// The working directory. Defaults to the server's own; need not exist.
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox: Option<ThreadSandbox>,
    /// The id of a permission profile, as an alternative to `sandbox`.
    #[experimental("thread/start.permissions")]
    #[since("0.166")]
    pub permissions: Option<String>,
    /// The directories of the workspace, which a sandbox that writes to the workspace may write to. Defaults to `cwd`.
    #[experimental("thread/start.runtimeWorkspaceRoots")]
    #[since("0.166")]
    pub runtime_workspace_roots: Option<Vec<AbsolutePathBuf>>,
    /// The environments of the thread. Only `local` is known.
    #[experimental("thread/start.environments")]
    #[since("0.166")]
    pub environments: Option<Vec<TurnEnvironmentParams>>,
    /// When the agent may start other agents. Modes other than the default have no effect; the user is warned.
    #[experimental("thread/start.multiAgentMode")]
    #[since("0.166")]
    pub multi_agent_mode: Option<MultiAgentMode>,
    /// Other configuration values, by dotted key.
    pub config: Option<Map<String, Value>>,
    /// A label for metrics.
    pub service_name: Option<String>,
    /// Replaces the model's built-in instructions.
    pub base_instructions: Option<String>,
    /// Instructions that are added to the base instructions.
    pub developer_instructions: Option<String>,
    pub personality: Option<Personality>,
    /// Keeps the thread in memory only.
    pub ephemeral: Option<bool>,
    #[experimental("thread/start.historyMode")]
    #[since("0.166")]
    pub history_mode: Option<ThreadHistoryMode>,
    /// A label of the client for the thread.
    #[since("0.166")]
    #[in_166(Option<ThreadSource>)]
    pub thread_source: Option<String>,
    /// The project of the thread.
    #[experimental("thread/start.projectId")]
    #[since("0.166")]
    pub project_id: Option<String>,
    /// Tools that the client runs. The server calls them with `item/tool/call`.
    #[experimental("thread/start.dynamicTools")]
    pub dynamic_tools: Option<Vec<DynamicToolEntry>>,
    /// Has no effect. For testing the experimental gate.
    #[experimental("thread/start.mockExperimentalField")]
    pub mock_experimental_field: Option<String>,
    /// Whether the provider may serve another model. Has no effect: `model/rerouted` reports when it does.
    #[experimental("thread/start.allowProviderModelFallback")]
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_provider_model_fallback: bool,
    /// Has no effect: access programs of OpenAI are not supported.
    #[experimental("thread/start.daybreakEnabled")]
    #[since("0.166")]
    pub daybreak_enabled: Option<bool>,
    /// Directories with skills and plugins for this thread. Refused unless it is empty.
    #[experimental("thread/start.selectedCapabilityRoots")]
    #[since("0.166")]
    pub selected_capability_roots: Option<Vec<SelectedCapabilityRoot>>,
    /// Why the thread is started. Hooks get it as their source.
    #[since("0.166")]
    pub session_start_source: Option<ThreadStartSource>,
    /// Enables `rawResponseItem/completed` notifications.
    #[experimental("thread/start.experimentalRawEvents")]
    #[serde(default)]
    pub experimental_raw_events: bool,
    /// Stores items of every kind. Has no effect on this server, which always does; servers of the 0.118 generation store
    /// only some kinds without it.
    #[experimental("thread/start.persistFullHistory")]
    #[serde(default)]
    #[until("0.118")]
    pub persist_extended_history: bool,
}

/// The new thread and the settings of its first turn.
#[wire]
pub struct ThreadStartResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    /// The plugins that are disabled for this thread.
    #[since("0.166")]
    pub disabled_plugin_ids: Vec<String>,
    #[in_166(AbsolutePathBuf)]
    pub cwd: String,
    /// The directories of the workspace.
    #[since("0.166")]
    #[in_166(Vec<AbsolutePathBuf>, optional)]
    pub runtime_workspace_roots: Vec<String>,
    /// The files from which the thread has its instructions.
    #[since("0.166")]
    #[in_166(Vec<LegacyAppPathString>, optional)]
    pub instruction_sources: Vec<String>,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// The permission profile that `sandbox` comes from, if any.
    #[since("0.166")]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// Null: the model's default.
    pub reasoning_effort: Option<ReasoningEffort>,
    #[since("0.166")]
    pub multi_agent_mode: MultiAgentMode,
    /// The position of the thread's last message, for clients with a cursor.
    #[omit]
    #[unpublished]
    pub seq: Option<MessageSeq>,
}

/// Loads a stored thread, or joins one that is loaded, and subscribes the caller to it.
///
/// The settings are those of [`ThreadStartParams`]. Model and effort default to those that the thread used last, unless
/// either is given. A thread that is already loaded keeps its own settings: the response has those, and a `configWarning`
/// names the settings of the request that differ.
#[wire(sparse)]
pub struct ThreadResumeParams {
    pub thread_id: ThreadId,
    /// Starts a new thread with this history instead of loading a stored one; must not be empty.
    #[experimental("thread/resume.history")]
    pub history: Option<Vec<ResponseItem>>,
    /// Loads the thread from this file instead of by id.
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
    pub sandbox: Option<ThreadSandbox>,
    /// The id of a permission profile, as an alternative to `sandbox`.
    #[experimental("thread/resume.permissions")]
    #[since("0.166")]
    pub permissions: Option<String>,
    /// The directories of the workspace, which a sandbox that writes to the workspace may write to. Defaults to `cwd`.
    #[experimental("thread/resume.runtimeWorkspaceRoots")]
    #[since("0.166")]
    pub runtime_workspace_roots: Option<Vec<AbsolutePathBuf>>,
    pub config: Option<Map<String, Value>>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub personality: Option<Personality>,
    #[experimental("thread/resume.persistFullHistory")]
    #[serde(default)]
    #[until("0.118")]
    pub persist_extended_history: bool,
    /// Omits the turns from the response, for clients that read them page by page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[since("0.166")]
    pub exclude_turns: bool,
    /// Adds a page of turns to the response.
    #[experimental("thread/resume.initialTurnsPage")]
    #[since("0.166")]
    pub initial_turns_page: Option<ThreadResumeInitialTurnsPageParams>,
}

impl ThreadResumeParams {
    /// Returns params that load a stored thread with these settings, except for instructions and the service tier.
    pub fn with_settings(thread_id: ThreadId, settings: ThreadStartParams) -> Self {
        Self {
            model: settings.model,
            model_provider: settings.model_provider,
            cwd: settings.cwd,
            approval_policy: settings.approval_policy,
            approvals_reviewer: settings.approvals_reviewer,
            sandbox: settings.sandbox,
            permissions: settings.permissions,
            config: settings.config,
            ..Self::new(thread_id)
        }
    }

    /// Returns params that load a stored thread without overriding settings.
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
            runtime_workspace_roots: None,
            exclude_turns: false,
            initial_turns_page: None,
        }
    }
}

/// The thread with its turns, and the settings of its next turn.
#[wire]
pub struct ThreadResumeResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    /// The plugins that are disabled for this thread.
    #[since("0.166")]
    pub disabled_plugin_ids: Vec<String>,
    #[in_166(AbsolutePathBuf)]
    pub cwd: String,
    /// The directories of the workspace.
    #[since("0.166")]
    #[in_166(Vec<AbsolutePathBuf>, optional)]
    pub runtime_workspace_roots: Vec<String>,
    /// The files from which the thread has its instructions.
    #[since("0.166")]
    #[in_166(Vec<LegacyAppPathString>, optional)]
    pub instruction_sources: Vec<String>,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// The permission profile that `sandbox` comes from, if any.
    #[since("0.166")]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Null for a thread that is not loaded.
    #[since("0.166")]
    pub collaboration_mode: Option<CollaborationMode>,
    /// Null unless `initialTurnsPage` was requested.
    #[since("0.166")]
    pub initial_turns_page: Option<TurnsPage>,
    /// The cursor of `thread/turns/list` that starts at the last turn, newest first; null if there is none.
    #[since("0.166")]
    pub turns_backwards_cursor: Option<String>,
    /// The same for `thread/items/list` and the last item.
    #[since("0.166")]
    pub items_backwards_cursor: Option<String>,
    #[since("0.166")]
    pub multi_agent_mode: MultiAgentMode,
    /// The position of the thread's last message, for clients with a cursor.
    #[omit]
    #[unpublished]
    pub seq: Option<MessageSeq>,
}

/// Copies a thread into a new one and subscribes the caller to the copy. A running turn is copied as interrupted. The
/// settings are those of [`ThreadStartParams`].
#[wire(sparse)]
pub struct ThreadForkParams {
    pub thread_id: ThreadId,
    /// Copies the thread from this file instead of by id.
    #[experimental("thread/fork.path")]
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub path: Option<String>,
    /// The last turn to copy. Absent: all turns.
    #[since("0.166")]
    pub last_turn_id: Option<TurnId>,
    /// The first turn that is not copied.
    #[experimental("thread/fork.beforeTurnId")]
    #[since("0.166")]
    pub before_turn_id: Option<TurnId>,
    pub model: Option<String>,
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox: Option<ThreadSandbox>,
    /// The id of a permission profile, as an alternative to `sandbox`.
    #[experimental("thread/fork.permissions")]
    #[since("0.166")]
    pub permissions: Option<String>,
    /// The directories of the workspace, which a sandbox that writes to the workspace may write to. Defaults to `cwd`.
    #[experimental("thread/fork.runtimeWorkspaceRoots")]
    #[since("0.166")]
    pub runtime_workspace_roots: Option<Vec<AbsolutePathBuf>>,
    pub config: Option<Map<String, Value>>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// Keeps the copy in memory only.
    pub ephemeral: Option<bool>,
    /// A label of the client for the copy.
    #[since("0.166")]
    #[in_166(Option<ThreadSource>)]
    pub thread_source: Option<String>,
    #[experimental("thread/fork.persistFullHistory")]
    #[serde(default)]
    #[until("0.118")]
    pub persist_extended_history: bool,
    /// Omits the turns from the response, for clients that read them page by page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[since("0.166")]
    pub exclude_turns: bool,
    /// Shows the copy as attached to its source. Refused.
    #[experimental("thread/fork.attachToSource")]
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attach_to_source: bool,
    /// Has no effect: a copy has no goal.
    #[experimental("thread/fork.deferGoalContinuation")]
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub defer_goal_continuation: bool,
    /// Has no effect, like the next: there are no predictions.
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub experimental_prediction_mode: bool,
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub experimental_disable_prediction_mcp: bool,
}

impl ThreadForkParams {
    /// Returns params that copy a thread with these settings, except for instructions and the service tier.
    pub fn with_settings(thread_id: ThreadId, settings: ThreadStartParams) -> Self {
        Self {
            model: settings.model,
            model_provider: settings.model_provider,
            cwd: settings.cwd,
            approval_policy: settings.approval_policy,
            approvals_reviewer: settings.approvals_reviewer,
            sandbox: settings.sandbox,
            permissions: settings.permissions,
            config: settings.config,
            ephemeral: settings.ephemeral,
            ..Self::new(thread_id)
        }
    }

    /// Returns params that copy a thread without overriding settings.
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
            thread_source: None,
            persist_extended_history: false,
            permissions: None,
            runtime_workspace_roots: None,
            exclude_turns: false,
            attach_to_source: false,
            defer_goal_continuation: false,
            experimental_prediction_mode: false,
            experimental_disable_prediction_mcp: false,
        }
    }
}

/// The copy with its turns, which keep their ids, and the settings of its next turn.
#[wire]
pub struct ThreadForkResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    /// The plugins that are disabled for this thread.
    #[since("0.166")]
    pub disabled_plugin_ids: Vec<String>,
    #[in_166(AbsolutePathBuf)]
    pub cwd: String,
    /// The directories of the workspace.
    #[since("0.166")]
    #[in_166(Vec<AbsolutePathBuf>, optional)]
    pub runtime_workspace_roots: Vec<String>,
    /// The files from which the thread has its instructions.
    #[since("0.166")]
    #[in_166(Vec<LegacyAppPathString>, optional)]
    pub instruction_sources: Vec<String>,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// The permission profile that `sandbox` comes from, if any.
    #[since("0.166")]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub reasoning_effort: Option<ReasoningEffort>,
    #[since("0.166")]
    pub multi_agent_mode: MultiAgentMode,
    /// The position of the thread's last message, for clients with a cursor.
    #[omit]
    #[unpublished]
    pub seq: Option<MessageSeq>,
}

/// Why a client starts a thread.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadStartSource {
    Startup,
    Clear,
}
