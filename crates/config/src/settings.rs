//! The typed settings.
//!
//! [`ConfigSettings`] is read from one merged table, so that wrong values are found in one place and reported by their keys. It
//! contains the keys that Codicil uses. All others stay in the table (`EffectiveConfig::value`) and are errors only in strict
//! mode, see `catalogue.rs`.

use std::{collections::BTreeMap, path::Path};

use codicil_protocol::{
    AnalyticsConfig, ApprovalsReviewer, AppsConfig, AskForApproval, ForcedChatgptWorkspaceIds,
    ForcedLoginMethod, Inspect, InspectFindings, Personality, ReasoningEffort, ReasoningSummary, SandboxMode,
    SandboxWorkspaceWrite, ServiceTier, Verbosity, WebSearchMode,
};
use serde::{Deserialize, Deserializer, de::Error as _};
use toml::Table;

use crate::{
    codicil_settings::CodicilSettings,
    error::{ConfigError, ConfigProblem},
    files::read_regular,
    foreign_tables::{McpServerShape, ModelProviderShape},
    otel_settings::OtelSettings,
    permission_profiles::PermissionProfile,
    tables::{
        CredentialsStore, FeatureToggles, FeedbackSettings, HistorySettings, MarketplaceSettings,
        PluginSettings, ProjectEntry, SandboxLimits, ShellEnvironmentPolicy, SkillSettings, ToolSettings,
    },
};

/// The settings of a merged configuration. `None`: not set. The code that uses a setting knows its default, unless a method here
/// returns it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ConfigSettings {
    pub model: Option<String>,
    pub review_model: Option<String>,
    pub model_provider: Option<String>,
    pub model_context_window: Option<i64>,
    pub model_auto_compact_token_limit: Option<i64>,
    pub model_reasoning_effort: Option<ReasoningEffort>,
    pub plan_mode_reasoning_effort: Option<ReasoningEffort>,
    #[serde(deserialize_with = "closed")]
    pub model_reasoning_summary: Option<ReasoningSummary>,
    pub model_supports_reasoning_summaries: Option<bool>,
    #[serde(deserialize_with = "closed")]
    pub model_verbosity: Option<Verbosity>,
    pub personality: Option<Personality>,
    /// The older name of `personality`.
    model_personality: Option<Personality>,
    pub service_tier: Option<ServiceTier>,

    #[serde(deserialize_with = "closed")]
    pub approval_policy: Option<AskForApproval>,
    #[serde(deserialize_with = "closed")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(deserialize_with = "closed")]
    pub sandbox_mode: Option<SandboxMode>,
    pub sandbox_workspace_write: Option<SandboxWorkspaceWrite>,
    pub sandbox_limits: SandboxLimits,
    /// The selected entry of `permissions`.
    pub default_permissions: Option<String>,
    pub permissions: BTreeMap<String, PermissionProfile>,
    pub shell_environment_policy: ShellEnvironmentPolicy,
    pub allow_login_shell: Option<bool>,

    /// The instructions, or the content of the instructions file.
    pub instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub(crate) model_instructions_file: Option<String>,
    /// The older name of `model_instructions_file`.
    pub(crate) experimental_instructions_file: Option<String>,
    /// The compaction prompt, or the content of its file.
    pub compact_prompt: Option<String>,
    pub(crate) experimental_compact_prompt_file: Option<String>,
    pub project_doc_max_bytes: Option<u64>,
    pub project_doc_fallback_filenames: Vec<String>,
    pub project_root_markers: Option<Vec<String>>,

    #[serde(deserialize_with = "closed")]
    pub web_search: Option<WebSearchMode>,
    pub tools: ToolSettings,
    /// The older name of `tools.view_image`.
    tools_view_image: Option<bool>,
    pub include_apply_patch_tool: Option<bool>,
    pub experimental_use_freeform_apply_patch: Option<bool>,
    pub experimental_use_unified_exec_tool: Option<bool>,
    pub tool_output_token_limit: Option<u64>,
    pub background_terminal_max_timeout: Option<u64>,
    pub features: FeatureToggles,

    pub show_raw_agent_reasoning: Option<bool>,
    /// Whether threads start without a warning about features under development.
    pub suppress_unstable_features_warning: Option<bool>,
    pub hide_agent_reasoning: Option<bool>,
    pub notify: Option<Vec<String>>,
    pub history: HistorySettings,

    pub profile: Option<String>,
    pub(crate) profiles: BTreeMap<String, ProfileShape>,
    pub projects: BTreeMap<String, ProjectEntry>,

    #[serde(deserialize_with = "closed")]
    pub forced_login_method: Option<ForcedLoginMethod>,
    pub forced_chatgpt_workspace_id: Option<ForcedChatgptWorkspaceIds>,
    pub chatgpt_base_url: Option<String>,
    pub openai_base_url: Option<String>,
    pub cli_auth_credentials_store: Option<CredentialsStore>,
    pub mcp_oauth_credentials_store: Option<CredentialsStore>,
    pub mcp_oauth_callback_port: Option<u16>,
    pub mcp_oauth_callback_url: Option<String>,

    pub otel: OtelSettings,
    pub feedback: FeedbackSettings,
    pub analytics: Option<AnalyticsConfig>,
    pub apps: Option<AppsConfig>,
    pub plugins: BTreeMap<String, PluginSettings>,
    pub marketplaces: BTreeMap<String, MarketplaceSettings>,
    pub skills: SkillSettings,

    pub(crate) model_providers: BTreeMap<String, ModelProviderShape>,
    pub(crate) mcp_servers: BTreeMap<String, McpServerShape>,

    pub codicil: CodicilSettings,
}

impl ConfigSettings {
    /// Reads a table. The error contains the key; the caller knows the file.
    pub(crate) fn read(table: &Table) -> Result<Self, ConfigProblem> {
        Self::deserialize(table.clone()).map_err(|error| ConfigProblem::of(&error))
    }

    /// Checks conditions that apply to the merged layers only, because one file can complete another.
    pub(crate) fn check_whole(&self) -> Result<(), ConfigProblem> {
        for (name, server) in &self.mcp_servers {
            server.check().map_err(|reason| ConfigProblem::new(format!("mcp_servers.{name}"), reason))?;
        }
        Ok(())
    }

    /// Reads the prompts that are given as files. A file takes precedence over the text of instructions, but the text of a
    /// compaction prompt over its file, as in the reference server.
    pub(crate) fn read_prompts(&mut self) -> Result<(), ConfigError> {
        if let Some(path) = self.instructions_file() {
            self.instructions = Some(prompt(Path::new(path))?);
        }
        if let (None, Some(path)) = (&self.compact_prompt, &self.experimental_compact_prompt_file) {
            self.compact_prompt = Some(prompt(Path::new(path))?);
        }
        Ok(())
    }

    fn instructions_file(&self) -> Option<&str> {
        self.model_instructions_file.as_deref().or(self.experimental_instructions_file.as_deref())
    }

    pub fn personality(&self) -> Option<Personality> {
        self.personality.or(self.model_personality)
    }

    pub fn view_image(&self) -> bool {
        self.tools.view_image.or(self.tools_view_image).unwrap_or(true)
    }

    /// Returns whether the model may show a plan.
    pub fn update_plan(&self) -> bool {
        self.tools.update_plan.enabled.unwrap_or(true)
    }

    /// Returns whether the model may ask the user.
    pub fn request_user_input(&self) -> bool {
        self.tools.experimental_request_user_input.enabled.unwrap_or(true)
    }

    /// Returns whether feedback is enabled.
    pub fn feedback_enabled(&self) -> bool {
        self.feedback.enabled.unwrap_or(true)
    }

    /// Returns the markers of a project root; `.git` by default.
    pub fn project_root_markers(&self) -> Vec<String> {
        self.project_root_markers.clone().unwrap_or_else(|| vec![".git".to_owned()])
    }
}

/// Reads a prompt. An empty file is an error.
fn prompt(path: &Path) -> Result<String, ConfigError> {
    let text = read_regular(path).map_err(|error| ConfigError::unreadable(path, error))?;
    match text.trim() {
        "" => Err(ConfigError::unreadable(path, "the file is empty")),
        text => Ok(text.to_owned()),
    }
}

/// The members of `[profiles.NAME]`, for checking their types. A selected profile is merged as a table.
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
    service_tier: Option<ServiceTier>,
    model_reasoning_effort: Option<ReasoningEffort>,
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

/// Reads a type that keeps unknown values, and rejects them. Unknown values in messages come from newer peers; in a configuration
/// they are mistakes.
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
