//! The settings of a thread between turns: `thread/settings/update` and `thread/settings/updated`. Newer clients use
//! these methods; they are not part of the published schema.

use crate::{
    AbsolutePathBuf, ActivePermissionProfile, ApprovalsReviewer, AskForApproval, CollaborationMode,
    MultiAgentMode, Patch, Personality, ReasoningEffort, ReasoningSummary, SandboxPolicy, ServiceTier,
    ThreadId, wire,
};

/// Changes the settings for the next turns without starting one. Absent settings are kept.
#[wire(sparse)]
pub struct ThreadSettingsUpdateParams {
    pub thread_id: ThreadId,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox_policy: Option<SandboxPolicy>,
    /// The id of a permission profile, as an alternative to `sandboxPolicy`.
    pub permissions: Option<String>,
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub collaboration_mode: Option<CollaborationMode>,
    pub personality: Option<Personality>,
    /// When the agent may start other agents. Modes other than the default have no effect; the user is warned.
    pub multi_agent_mode: Option<MultiAgentMode>,
    /// The plugins to disable for this thread. Refused unless it is empty.
    pub disabled_plugin_ids: Option<Vec<String>>,
}

/// The settings are changed; `thread/settings/updated` follows.
#[wire]
pub struct ThreadSettingsUpdateResponse {}

/// The settings for the next turns of a thread changed. Sent to its subscribers.
#[wire]
pub struct ThreadSettingsUpdatedNotification {
    pub thread_id: ThreadId,
    pub thread_settings: ThreadSettings,
}

/// The settings for the next turns of a thread.
#[wire]
pub struct ThreadSettings {
    #[serde(default)]
    pub disabled_plugin_ids: Vec<String>,
    #[in_166(AbsolutePathBuf)]
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox_policy: SandboxPolicy,
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
    pub collaboration_mode: CollaborationMode,
    /// Always `explicitRequestOnly`: subagents are started on explicit request only.
    #[serde(default)]
    pub multi_agent_mode: MultiAgentMode,
    pub personality: Option<Personality>,
}
