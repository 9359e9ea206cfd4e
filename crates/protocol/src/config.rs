//! Configuration: `config/read`, `config/value/write` and `config/batchWrite`. `requirements.rs` has the limits of the
//! administrator.
//!
//! [`Config`] and its parts are snake case on the wire, as in `config.toml`. Only the user's file can be written; the
//! other layers are read-only.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    AbsolutePathBuf, AppLinksConfig, ApprovalsReviewer, AskForApproval, AutoCompactTokenLimitScope,
    BrowserUseConfig, ComputerUseConfig, ForcedChatgptWorkspaceIds, ForcedLoginMethod, ReasoningEffort,
    ReasoningSummary, SandboxMode, ServiceTier, ToolExposureSurface, wire,
};

/// Returns the effective configuration.
#[wire(sparse)]
#[derive(Default)]
pub struct ConfigReadParams {
    #[serde(default)]
    pub include_layers: bool,
    /// Includes the configuration of the project in this directory, if it is trusted. Absent: no project.
    pub cwd: Option<String>,
}

/// The effective configuration and the origin of each value.
#[wire]
pub struct ConfigReadResponse {
    pub config: Config,
    /// The layer that determines each value, by dotted path.
    pub origins: BTreeMap<String, ConfigLayerMetadata>,
    /// All layers, in order of precedence; null unless requested.
    pub layers: Option<Vec<ConfigLayer>>,
}

/// Writes one value to the user's file.
#[wire(sparse)]
pub struct ConfigValueWriteParams {
    /// Keys separated by dots. A key that contains a dot is quoted, as in TOML.
    pub key_path: String,
    /// Null removes the key.
    pub value: Value,
    pub merge_strategy: MergeStrategy,
    /// The user's file: the default and the only permitted value.
    pub file_path: Option<String>,
    /// Rejects the write if the file has another version.
    pub expected_version: Option<String>,
}

/// Writes several values to the user's file: all, or none if one is invalid.
#[wire(sparse)]
pub struct ConfigBatchWriteParams {
    pub edits: Vec<ConfigEdit>,
    /// The user's file: the default and the only permitted value.
    pub file_path: Option<String>,
    /// Rejects the write if the file has another version.
    pub expected_version: Option<String>,
    /// Applies the change to loaded threads too. Defaults to false.
    pub reload_user_config: Option<bool>,
}

/// The result of a write.
#[wire]
pub struct ConfigWriteResponse {
    pub status: WriteStatus,
    /// The version of the file, for `expectedVersion` of the next write.
    pub version: String,
    pub file_path: AbsolutePathBuf,
    /// Set if the status is [`WriteStatus::OkOverridden`].
    pub overridden_metadata: Option<OverriddenMetadata>,
}

/// The configuration after all layers are merged. Values that are not set are null. `extra` holds the keys without a
/// member.
#[wire(rename_all = "snake_case")]
#[derive(Default)]
pub struct Config {
    pub model: Option<String>,
    pub review_model: Option<String>,
    /// The size in tokens.
    pub model_context_window: Option<i64>,
    /// The number of tokens at which the history is compacted automatically.
    pub model_auto_compact_token_limit: Option<i64>,
    /// What counts towards the limit. Shown as it is configured, like the other values in raw form.
    #[omit]
    #[since("0.166")]
    #[in_166(Option<AutoCompactTokenLimitScope>)]
    pub model_auto_compact_token_limit_scope: Option<Value>,
    /// A key of the table `model_providers`.
    pub model_provider: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox_mode: Option<SandboxMode>,
    /// Applies only to the mode `workspace-write`.
    pub sandbox_workspace_write: Option<SandboxWorkspaceWrite>,
    #[in_118(Option<String>)]
    pub forced_chatgpt_workspace_id: Option<ForcedChatgptWorkspaceIds>,
    pub forced_login_method: Option<ForcedLoginMethod>,
    pub web_search: Option<WebSearchMode>,
    pub tools: Option<ToolsV2>,
    /// The selected entry of `profiles`.
    #[until("0.118")]
    pub profile: Option<String>,
    #[serde(default)]
    #[until("0.118")]
    pub profiles: BTreeMap<String, ProfileV2>,
    pub instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// The prompt for compacting the history.
    pub compact_prompt: Option<String>,
    pub model_reasoning_effort: Option<ReasoningEffort>,
    pub model_reasoning_summary: Option<ReasoningSummary>,
    pub model_verbosity: Option<Verbosity>,
    pub service_tier: Option<ServiceTier>,
    pub analytics: Option<AnalyticsConfig>,
    #[experimental("config/read.apps")]
    pub apps: Option<AppsConfig>,
    #[omit]
    #[since("0.166")]
    #[in_166(Option<BrowserUseConfig>)]
    pub browser_use: Option<Value>,
    #[omit]
    #[since("0.166")]
    #[in_166(Option<ComputerUseConfig>)]
    pub computer_use: Option<Value>,
    #[omit]
    #[since("0.166")]
    pub desktop: Option<Map<String, Value>>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What commands may do in the sandbox mode `workspace-write`, besides writing to the working directory.
#[wire(rename_all = "snake_case")]
pub struct SandboxWorkspaceWrite {
    #[serde(default)]
    pub writable_roots: Vec<String>,
    #[serde(default)]
    pub network_access: bool,
    /// Makes the directory in `TMPDIR` read-only; otherwise it is writable.
    #[serde(default)]
    pub exclude_tmpdir_env_var: bool,
    /// Makes `/tmp` read-only; otherwise it is writable.
    #[serde(default)]
    pub exclude_slash_tmp: bool,
}

/// Whether and how the model may search the web.
#[wire(open)]
#[derive(Eq)]
pub enum WebSearchMode {
    Disabled,
    /// With pages from the cache of the provider.
    Cached,
    /// With pages from the index of the provider.
    #[since("0.166")]
    Indexed,
    /// With current pages.
    Live,
}

/// Settings of individual tools.
#[wire(rename_all = "snake_case")]
pub struct ToolsV2 {
    pub web_search: Option<WebSearchToolConfig>,
    /// Whether the agent may view image files.
    #[until("0.118")]
    pub view_image: Option<bool>,
}

/// Settings of web searches by the provider.
#[wire(rename_all = "snake_case", deny_unknown_fields)]
#[derive(Default)]
pub struct WebSearchToolConfig {
    pub context_size: Option<WebSearchContextSize>,
    /// If set, results come from these domains only.
    pub allowed_domains: Option<Vec<String>>,
    pub location: Option<WebSearchLocation>,
}

/// The amount of search results that the model receives.
#[wire(open)]
#[derive(Eq)]
pub enum WebSearchContextSize {
    Low,
    Medium,
    High,
}

/// The location for which to search.
#[wire(deny_unknown_fields)]
pub struct WebSearchLocation {
    pub country: Option<String>,
    pub region: Option<String>,
    pub city: Option<String>,
    pub timezone: Option<String>,
}

/// A named set of settings. Its values take precedence over the members of [`Config`] with the same names. `extra` holds
/// the keys without a member.
#[wire(rename_all = "snake_case")]
#[derive(Default)]
pub struct ProfileV2 {
    pub model: Option<String>,
    pub model_provider: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub service_tier: Option<ServiceTier>,
    pub model_reasoning_effort: Option<ReasoningEffort>,
    pub model_reasoning_summary: Option<ReasoningSummary>,
    pub model_verbosity: Option<Verbosity>,
    pub web_search: Option<WebSearchMode>,
    pub tools: Option<ToolsV2>,
    pub chatgpt_base_url: Option<String>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The length of the model's responses.
#[wire(open)]
#[derive(Eq)]
pub enum Verbosity {
    Low,
    Medium,
    High,
}

/// Settings of usage analytics.
#[wire]
#[derive(Default)]
pub struct AnalyticsConfig {
    pub enabled: Option<bool>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Settings of apps (connectors): one entry per app id, and the entry `_default`.
#[wire]
#[derive(Default)]
pub struct AppsConfig {
    #[serde(rename = "_default")]
    pub default: Option<AppsDefaultConfig>,
    #[serde(flatten)]
    pub apps: BTreeMap<String, AppConfig>,
}

/// Defaults for apps.
#[wire(rename_all = "snake_case")]
pub struct AppsDefaultConfig {
    #[serde(default = "crate::yes")]
    pub enabled: bool,
    /// Whether tools that are annotated as destructive are enabled.
    #[serde(default = "crate::yes")]
    pub destructive_enabled: bool,
    /// Whether tools that are annotated as open-world are enabled.
    #[serde(default = "crate::yes")]
    pub open_world_enabled: bool,
    /// Has no effect: calls of apps are reviewed like other calls.
    #[omit]
    #[since("0.166")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[omit]
    #[since("0.166")]
    pub default_tools_approval_mode: Option<AppToolApproval>,
}

/// Settings of one app. Null: the value of [`AppsDefaultConfig`].
#[wire(rename_all = "snake_case")]
pub struct AppConfig {
    #[serde(default = "crate::yes")]
    pub enabled: bool,
    /// The default for tools without an entry in `tools`, like the next.
    pub default_tools_enabled: Option<bool>,
    pub default_tools_approval_mode: Option<AppToolApproval>,
    /// Whether tools that are annotated as destructive are enabled.
    pub destructive_enabled: Option<bool>,
    /// Whether tools that are annotated as open-world are enabled.
    pub open_world_enabled: Option<bool>,
    pub tools: Option<AppToolsConfig>,
    /// Has no effect, like the members below.
    #[omit]
    #[since("0.166")]
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[omit]
    #[since("0.166")]
    pub links: Option<AppLinksConfig>,
    #[omit]
    #[since("0.166")]
    pub omit_tools_from: Option<Vec<ToolExposureSurface>>,
}

/// Settings of the tools of an app, by name.
#[wire]
#[derive(Default)]
pub struct AppToolsConfig {
    #[serde(flatten)]
    pub tools: BTreeMap<String, AppToolConfig>,
}

/// Settings of one tool. Null: the value of its app.
#[wire(rename_all = "snake_case")]
#[derive(Default)]
pub struct AppToolConfig {
    pub enabled: Option<bool>,
    pub approval_mode: Option<AppToolApproval>,
}

/// Whether tools of an app need approval.
#[wire]
#[derive(Copy, Eq)]
pub enum AppToolApproval {
    /// Depends on the annotations of the tool.
    Auto,
    /// Always ask.
    Prompt,
    /// Never ask: calls count as approved.
    Approve,
    /// Ask unless the tool says that it changes nothing.
    #[since("0.166")]
    Writes,
}

/// A configuration layer and its content.
#[wire]
pub struct ConfigLayer {
    pub name: ConfigLayerSource,
    /// A version that changes with the content.
    pub version: String,
    pub config: Value,
    /// The reason why the layer is listed but not used, for example because the project is not trusted.
    pub disabled_reason: Option<String>,
}

/// The name and version of a configuration layer.
#[wire]
pub struct ConfigLayerMetadata {
    pub name: ConfigLayerSource,
    /// A version that changes with the content.
    pub version: String,
}

/// The source of a configuration layer.
#[wire(open, tag = "type")]
pub enum ConfigLayerSource {
    /// A managed preference, deployed by an administrator.
    Mdm {
        domain: String,
        key: String,
    },
    /// The file for all users of the machine; listed even if it does not exist.
    System {
        file: AbsolutePathBuf,
    },
    /// The user's file, the only one that can be written.
    User {
        file: AbsolutePathBuf,
        /// Never set: a profile is a part of the same file.
        #[omit]
        #[since("0.166")]
        profile: Option<String>,
    },
    /// A directory in the project; used only if the project is trusted.
    Project {
        dot_codex_folder: AbsolutePathBuf,
    },
    /// The command line of the server.
    SessionFlags,
    LegacyManagedConfigTomlFromFile {
        file: AbsolutePathBuf,
    },
    LegacyManagedConfigTomlFromMdm,
    #[since("0.166")]
    EnterpriseManaged {
        id: String,
        name: String,
    },
    #[since("0.166")]
    PackagedDefaults {
        file: AbsolutePathBuf,
    },
}

/// One change of a batch.
#[wire]
pub struct ConfigEdit {
    /// Keys separated by dots. A key that contains a dot is quoted, as in TOML.
    pub key_path: String,
    /// Null removes the key.
    pub value: Value,
    pub merge_strategy: MergeStrategy,
}

/// How a table is written over an existing one.
#[wire]
#[derive(Copy, Eq)]
pub enum MergeStrategy {
    /// Replaces the existing table.
    Replace,
    /// Merges the new keys into the existing table.
    Upsert,
}

/// Whether a written value is effective.
#[wire(open)]
#[derive(Eq)]
pub enum WriteStatus {
    Ok,
    /// Written, but a layer with higher precedence sets the same key.
    OkOverridden,
}

/// The reason why a written value is not effective.
#[wire]
pub struct OverriddenMetadata {
    /// A human-readable message.
    pub message: String,
    pub overriding_layer: ConfigLayerMetadata,
    /// The effective value.
    pub effective_value: Value,
}
