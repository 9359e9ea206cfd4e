//! The settings the rest of the system uses, typed.
//!
//! [`ConfigSettings`] is read from one merged table, so a wrong value is found in one place and named by its
//! key. It knows the keys that Codicil gives a meaning; all others are kept in the table beside it
//! (`EffectiveConfig::value`) and are an error only in strict mode, see `strict.rs`.

use std::collections::BTreeMap;

use codicil_protocol::{
    AnalyticsConfig, ApprovalsReviewer, AppsConfig, AskForApproval, ForcedLoginMethod, Inspect,
    InspectFindings, Personality, ReasoningEffort, ReasoningSummary, SandboxMode, SandboxWorkspaceWrite,
    ServiceTier, Verbosity, WebSearchMode,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use toml::Table;

use crate::{
    error::ConfigProblem,
    limits::CodicilSettings,
    network::PermissionProfile,
    shapes::{McpServerShape, ModelProviderShape},
    tables::{
        CredentialsStore, FeatureToggles, FeedbackSettings, HistorySettings, PluginSettings, ProjectEntry,
        SandboxLimits, ShellEnvironmentPolicy, SkillSettings, ToolSettings,
    },
};

/// A merged configuration. `None` means that nobody said anything; the default is its user's business
/// unless a method here gives it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigSettings {
    pub model: Option<String>,
    pub review_model: Option<String>,
    pub model_provider: Option<String>,
    pub model_context_window: Option<i64>,
    pub model_auto_compact_token_limit: Option<i64>,
    #[serde(deserialize_with = "closed")]
    pub model_reasoning_effort: Option<ReasoningEffort>,
    #[serde(deserialize_with = "closed")]
    pub plan_mode_reasoning_effort: Option<ReasoningEffort>,
    #[serde(deserialize_with = "closed")]
    pub model_reasoning_summary: Option<ReasoningSummary>,
    pub model_supports_reasoning_summaries: Option<bool>,
    #[serde(deserialize_with = "closed")]
    pub model_verbosity: Option<Verbosity>,
    pub personality: Option<Personality>,
    /// An older name of `personality`.
    model_personality: Option<Personality>,
    #[serde(deserialize_with = "closed")]
    pub service_tier: Option<ServiceTier>,

    #[serde(deserialize_with = "closed")]
    pub approval_policy: Option<AskForApproval>,
    #[serde(deserialize_with = "closed")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(deserialize_with = "closed")]
    pub sandbox_mode: Option<SandboxMode>,
    pub sandbox_workspace_write: Option<SandboxWorkspaceWrite>,
    pub sandbox_limits: SandboxLimits,
    /// Which of `permissions` counts.
    pub default_permissions: Option<String>,
    pub permissions: BTreeMap<String, PermissionProfile>,
    pub shell_environment_policy: ShellEnvironmentPolicy,
    pub allow_login_shell: Option<bool>,

    /// Where a file of instructions is named, its content.
    pub instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub(crate) model_instructions_file: Option<String>,
    /// An older name of `model_instructions_file`.
    pub(crate) experimental_instructions_file: Option<String>,
    /// Where only a file with the prompt is named, its content.
    pub compact_prompt: Option<String>,
    pub(crate) experimental_compact_prompt_file: Option<String>,
    pub project_doc_max_bytes: Option<u64>,
    pub project_doc_fallback_filenames: Vec<String>,
    pub project_root_markers: Option<Vec<String>>,

    #[serde(deserialize_with = "closed")]
    pub web_search: Option<WebSearchMode>,
    pub tools: ToolSettings,
    /// An older name of `tools.view_image`.
    tools_view_image: Option<bool>,
    pub include_apply_patch_tool: Option<bool>,
    pub experimental_use_freeform_apply_patch: Option<bool>,
    pub experimental_use_unified_exec_tool: Option<bool>,
    pub tool_output_token_limit: Option<u64>,
    pub background_terminal_max_timeout: Option<u64>,
    pub features: FeatureToggles,

    pub show_raw_agent_reasoning: Option<bool>,
    pub hide_agent_reasoning: Option<bool>,
    pub notify: Option<Vec<String>>,
    pub history: HistorySettings,

    pub profile: Option<String>,
    pub(crate) profiles: BTreeMap<String, ProfileShape>,
    pub projects: BTreeMap<String, ProjectEntry>,

    #[serde(deserialize_with = "closed")]
    pub forced_login_method: Option<ForcedLoginMethod>,
    pub forced_chatgpt_workspace_id: Option<String>,
    pub chatgpt_base_url: Option<String>,
    pub openai_base_url: Option<String>,
    pub cli_auth_credentials_store: Option<CredentialsStore>,
    pub mcp_oauth_credentials_store: Option<CredentialsStore>,
    pub mcp_oauth_callback_port: Option<u16>,
    pub mcp_oauth_callback_url: Option<String>,

    pub feedback: FeedbackSettings,
    pub analytics: Option<AnalyticsConfig>,
    pub apps: Option<AppsConfig>,
    pub plugins: BTreeMap<String, PluginSettings>,
    pub skills: SkillSettings,

    pub(crate) model_providers: BTreeMap<String, ModelProviderShape>,
    pub(crate) mcp_servers: BTreeMap<String, McpServerShape>,

    pub codicil: CodicilSettings,
}

impl ConfigSettings {
    /// Reads a table; an error names the key but not the file, which the caller knows.
    pub(crate) fn read(table: &Table) -> Result<Self, ConfigProblem> {
        Self::deserialize(table.clone()).map_err(|error| ConfigProblem::of(&error))
    }

    /// What only the sum of all layers can break: one file may complete what another began.
    pub(crate) fn check_whole(&self) -> Result<(), ConfigProblem> {
        for (name, server) in &self.mcp_servers {
            server.check().map_err(|reason| ConfigProblem::new(format!("mcp_servers.{name}"), reason))?;
        }
        Ok(())
    }

    pub fn personality(&self) -> Option<Personality> {
        self.personality.or(self.model_personality)
    }

    pub fn view_image(&self) -> bool {
        self.tools.view_image.or(self.tools_view_image).unwrap_or(true)
    }

    /// Whether people can send feedback from here.
    pub fn feedback_enabled(&self) -> bool {
        self.feedback.enabled.unwrap_or(true)
    }

    /// What marks the root of a project: `.git` unless set.
    pub fn project_root_markers(&self) -> Vec<String> {
        self.project_root_markers.clone().unwrap_or_else(|| vec![".git".to_owned()])
    }
}

/// What `[profiles.NAME]` may set. A chosen profile is merged as a table; this only checks its values.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ProfileShape {
    model: Option<String>,
    model_provider: Option<String>,
    #[serde(deserialize_with = "closed")]
    approval_policy: Option<AskForApproval>,
    #[serde(deserialize_with = "closed")]
    approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(deserialize_with = "closed")]
    sandbox_mode: Option<SandboxMode>,
    #[serde(deserialize_with = "closed")]
    service_tier: Option<ServiceTier>,
    #[serde(deserialize_with = "closed")]
    model_reasoning_effort: Option<ReasoningEffort>,
    #[serde(deserialize_with = "closed")]
    plan_mode_reasoning_effort: Option<ReasoningEffort>,
    #[serde(deserialize_with = "closed")]
    model_reasoning_summary: Option<ReasoningSummary>,
    #[serde(deserialize_with = "closed")]
    model_verbosity: Option<Verbosity>,
    #[serde(deserialize_with = "closed")]
    web_search: Option<WebSearchMode>,
    model_context_window: Option<i64>,
    model_auto_compact_token_limit: Option<i64>,
    personality: Option<Personality>,
    chatgpt_base_url: Option<String>,
    developer_instructions: Option<String>,
    model_instructions_file: Option<String>,
    tools: ToolSettings,
    tools_view_image: Option<bool>,
    include_apply_patch_tool: Option<bool>,
    features: FeatureToggles,
    analytics: Option<AnalyticsConfig>,
}

/// Reads a type that keeps values it does not know. That is right for messages of a newer peer; in a
/// configuration it is a typing error.
pub(crate) fn closed<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Inspect,
{
    let value = T::deserialize(from)?;
    match InspectFindings::of(&value).unknown_value() {
        Some(reason) => Err(D::Error::custom(reason)),
        None => Ok(Some(value)),
    }
}
