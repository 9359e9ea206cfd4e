//! Settings: `config/read`, `config/value/write`, `config/batchWrite` and `configRequirements/read`.
//! [`Config`] and what it holds are written as in `config.toml`, in snake_case, unlike all around them.
//! Only the user's own file can be written; the other layers are there to be read.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    AbsolutePathBuf, ApprovalsReviewer, AskForApproval, ForcedLoginMethod, ReasoningEffort, ReasoningSummary,
    SandboxMode, ServiceTier, wire,
};

/// For whom to work out the settings, and in how much detail.
#[wire(sparse)]
#[derive(Default)]
pub struct ConfigReadParams {
    #[serde(default)]
    pub include_layers: bool,
    /// Adds the settings of the project there, if it is trusted. Left out, no project counts.
    pub cwd: Option<String>,
}

/// The settings in force, and where each of them comes from.
#[wire]
pub struct ConfigReadResponse {
    pub config: Config,
    /// For each value that is set, by its dotted path: the layer that decided it.
    pub origins: BTreeMap<String, ConfigLayerMetadata>,
    /// All layers, the strongest first; null unless asked for.
    pub layers: Option<Vec<ConfigLayer>>,
}

/// Changes one value in the user's file.
#[wire(sparse)]
pub struct ConfigValueWriteParams {
    /// Keys joined by dots; one that contains a dot itself is quoted, as in TOML.
    pub key_path: String,
    /// Null removes the key.
    pub value: Value,
    pub merge_strategy: MergeStrategy,
    /// The user's file, which is the only one allowed, and the default.
    pub file_path: Option<String>,
    /// Refuses to write if the file has another version by now.
    pub expected_version: Option<String>,
}

/// Makes several changes in the user's file: all of them, or none if one is wrong.
#[wire(sparse)]
pub struct ConfigBatchWriteParams {
    pub edits: Vec<ConfigEdit>,
    /// The user's file, which is the only one allowed, and the default.
    pub file_path: Option<String>,
    /// Refuses to write if the file has another version by now.
    pub expected_version: Option<String>,
    /// Lets loaded threads see the change too. Off when left out.
    pub reload_user_config: Option<bool>,
}

/// The file as it is now. The answer to both ways of writing.
#[wire]
pub struct ConfigWriteResponse {
    pub status: WriteStatus,
    /// To be given as `expected_version` with the next change.
    pub version: String,
    pub file_path: AbsolutePathBuf,
    /// Null unless the status is [`WriteStatus::OkOverridden`].
    pub overridden_metadata: Option<OverriddenMetadata>,
}

/// The limits an administrator has set.
#[wire]
pub struct ConfigRequirementsReadResponse {
    /// Null when there are none.
    pub requirements: Option<ConfigRequirements>,
}

/// The settings after all layers are merged. What nobody has set is null, except for `extra`, which holds
/// the keys that have no member here.
#[wire(rename_all = "snake_case")]
#[derive(Default)]
pub struct Config {
    pub model: Option<String>,
    pub review_model: Option<String>,
    /// In tokens.
    pub model_context_window: Option<i64>,
    /// The history is shortened by itself once it takes this many tokens.
    pub model_auto_compact_token_limit: Option<i64>,
    /// A key of the table `model_providers`.
    pub model_provider: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub sandbox_mode: Option<SandboxMode>,
    /// Counts only while the mode is `workspace-write`.
    pub sandbox_workspace_write: Option<SandboxWorkspaceWrite>,
    pub forced_chatgpt_workspace_id: Option<String>,
    pub forced_login_method: Option<ForcedLoginMethod>,
    pub web_search: Option<WebSearchMode>,
    pub tools: Option<ToolsV2>,
    /// The one of `profiles` that is in use.
    pub profile: Option<String>,
    #[serde(default)]
    pub profiles: BTreeMap<String, ProfileV2>,
    pub instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// What the model is told when it is to shorten the history.
    pub compact_prompt: Option<String>,
    pub model_reasoning_effort: Option<ReasoningEffort>,
    pub model_reasoning_summary: Option<ReasoningSummary>,
    pub model_verbosity: Option<Verbosity>,
    pub service_tier: Option<ServiceTier>,
    pub analytics: Option<AnalyticsConfig>,
    #[experimental("config/read.apps")]
    pub apps: Option<AppsConfig>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What commands may do in the sandbox mode `workspace-write`, beyond writing below their directory.
#[wire(rename_all = "snake_case")]
pub struct SandboxWorkspaceWrite {
    #[serde(default)]
    pub writable_roots: Vec<String>,
    #[serde(default)]
    pub network_access: bool,
    /// Takes away the directory named by `TMPDIR`, writable otherwise.
    #[serde(default)]
    pub exclude_tmpdir_env_var: bool,
    /// Takes away `/tmp`, writable otherwise.
    #[serde(default)]
    pub exclude_slash_tmp: bool,
}

/// Whether the model may search the web, and what it then finds.
#[wire(open)]
#[derive(Eq)]
pub enum WebSearchMode {
    Disabled,
    /// Pages as the provider has stored them.
    Cached,
    /// Pages as they are now.
    Live,
}

/// Settings of single tools.
#[wire(rename_all = "snake_case")]
pub struct ToolsV2 {
    pub web_search: Option<WebSearchToolConfig>,
    /// Whether the agent may look at image files.
    pub view_image: Option<bool>,
}

/// How the provider is to search the web.
#[wire(rename_all = "snake_case", deny_unknown_fields)]
#[derive(Default)]
pub struct WebSearchToolConfig {
    pub context_size: Option<WebSearchContextSize>,
    /// When set, results come from these only.
    pub allowed_domains: Option<Vec<String>>,
    pub location: Option<WebSearchLocation>,
}

/// How much of what a search finds is shown to the model.
#[wire(open)]
#[derive(Eq)]
pub enum WebSearchContextSize {
    Low,
    Medium,
    High,
}

/// Where to search from, as results differ by place.
#[wire(deny_unknown_fields)]
pub struct WebSearchLocation {
    pub country: Option<String>,
    pub region: Option<String>,
    pub city: Option<String>,
    pub timezone: Option<String>,
}

/// A named set of settings, to be chosen as a whole. It counts before the top level of [`Config`], whose
/// members its own are called after; `extra` holds the others.
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

/// How long the model's answers are to be.
#[wire(open)]
#[derive(Eq)]
pub enum Verbosity {
    Low,
    Medium,
    High,
}

/// Whether use is measured, and what else the file says about that.
#[wire]
#[derive(Default)]
pub struct AnalyticsConfig {
    pub enabled: Option<bool>,
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What apps (connectors) may do: one entry for each by its id, beside the entry `_default`.
#[wire]
#[derive(Default)]
pub struct AppsConfig {
    #[serde(rename = "_default")]
    pub default: Option<AppsDefaultConfig>,
    #[serde(flatten)]
    pub apps: BTreeMap<String, AppConfig>,
}

/// What holds for apps that have no say of their own on it.
#[wire(rename_all = "snake_case")]
pub struct AppsDefaultConfig {
    #[serde(default = "crate::yes")]
    pub enabled: bool,
    /// Tools that say of themselves that they destroy something.
    #[serde(default = "crate::yes")]
    pub destructive_enabled: bool,
    /// Tools that say of themselves that they reach out into the world.
    #[serde(default = "crate::yes")]
    pub open_world_enabled: bool,
}

/// What one app may do. Null leaves it to [`AppsDefaultConfig`].
#[wire(rename_all = "snake_case")]
pub struct AppConfig {
    #[serde(default = "crate::yes")]
    pub enabled: bool,
    /// For tools that `tools` does not mention, like the next.
    pub default_tools_enabled: Option<bool>,
    pub default_tools_approval_mode: Option<AppToolApproval>,
    /// Tools that say of themselves that they destroy something.
    pub destructive_enabled: Option<bool>,
    /// Tools that say of themselves that they reach out into the world.
    pub open_world_enabled: Option<bool>,
    pub tools: Option<AppToolsConfig>,
}

/// Settings of the tools of one app, by their names.
#[wire]
#[derive(Default)]
pub struct AppToolsConfig {
    #[serde(flatten)]
    pub tools: BTreeMap<String, AppToolConfig>,
}

/// What holds for one tool. Null leaves it to its app.
#[wire(rename_all = "snake_case")]
#[derive(Default)]
pub struct AppToolConfig {
    pub enabled: Option<bool>,
    pub approval_mode: Option<AppToolApproval>,
}

/// Whether a person is asked before a tool of an app runs.
#[wire]
#[derive(Copy, Eq)]
pub enum AppToolApproval {
    /// As the tool itself suggests.
    Auto,
    /// Always.
    Prompt,
    /// Never: it counts as approved.
    Approve,
}

/// One source of settings with all it says.
#[wire]
pub struct ConfigLayer {
    pub name: ConfigLayerSource,
    /// Changes with the contents.
    pub version: String,
    pub config: Value,
    /// Set when the layer is shown but does not count: the settings of a project that is not trusted, say.
    pub disabled_reason: Option<String>,
}

/// A layer by name, for those who want to know who decided.
#[wire]
pub struct ConfigLayerMetadata {
    pub name: ConfigLayerSource,
    /// Changes with the contents.
    pub version: String,
}

/// Where settings can come from.
#[wire(open, tag = "type")]
pub enum ConfigLayerSource {
    /// A managed preference, pushed to the machine by an administrator.
    Mdm {
        domain: String,
        key: String,
    },
    /// A file for everyone on the machine; named even when it does not exist.
    System {
        file: AbsolutePathBuf,
    },
    /// The file that the methods of this module write.
    User {
        file: AbsolutePathBuf,
    },
    /// A directory in the project, used only when the project is trusted.
    Project {
        dot_codex_folder: AbsolutePathBuf,
    },
    /// What the server was started with on its command line.
    SessionFlags,
    LegacyManagedConfigTomlFromFile {
        file: AbsolutePathBuf,
    },
    LegacyManagedConfigTomlFromMdm,
}

/// One change among several.
#[wire]
pub struct ConfigEdit {
    /// Keys joined by dots; one that contains a dot itself is quoted, as in TOML.
    pub key_path: String,
    /// Null removes the key.
    pub value: Value,
    pub merge_strategy: MergeStrategy,
}

/// What becomes of a table that is there already when another is written to its place.
#[wire]
#[derive(Copy, Eq)]
pub enum MergeStrategy {
    /// The new one stands alone.
    Replace,
    /// The new one's keys are added to it, or take the place of their namesakes.
    Upsert,
}

/// Whether a change that was written also has an effect.
#[wire(open)]
#[derive(Eq)]
pub enum WriteStatus {
    Ok,
    /// Written, but a stronger layer sets the same key.
    OkOverridden,
}

/// Why a value that was written is not the one in force.
#[wire]
pub struct OverriddenMetadata {
    /// For a person to read.
    pub message: String,
    pub overriding_layer: ConfigLayerMetadata,
    /// The value that is in force instead.
    pub effective_value: Value,
}

/// What the administrator of the machine insists on. In each member null is no limit.
#[wire]
#[derive(Default)]
pub struct ConfigRequirements {
    pub allowed_approval_policies: Option<Vec<AskForApproval>>,
    pub allowed_sandbox_modes: Option<Vec<SandboxMode>>,
    pub allowed_web_search_modes: Option<Vec<WebSearchMode>>,
    /// Features that are on or off whatever anyone else says.
    pub feature_requirements: Option<BTreeMap<String, bool>>,
    pub enforce_residency: Option<ResidencyRequirement>,
    #[experimental("configRequirements/read.network")]
    pub network: Option<NetworkRequirements>,
}

/// Where data must stay.
#[wire(open)]
#[derive(Eq)]
pub enum ResidencyRequirement {
    Us,
}

/// The rules of the proxy through which sandboxed commands reach the network.
///
/// `domains` and `unix_sockets` are the rules; `allowed_domains`, `denied_domains` and
/// `allow_unix_sockets` say the same as plain lists.
#[wire]
#[derive(Default)]
pub struct NetworkRequirements {
    pub enabled: Option<bool>,
    pub http_port: Option<u16>,
    pub socks_port: Option<u16>,
    /// Whether the proxy may itself go through another one.
    pub allow_upstream_proxy: Option<bool>,
    /// Whether the proxy may listen where other machines can reach it.
    pub dangerously_allow_non_loopback_proxy: Option<bool>,
    pub dangerously_allow_all_unix_sockets: Option<bool>,
    /// By domain.
    pub domains: Option<BTreeMap<String, NetworkDomainPermission>>,
    /// Only domains allowed here count; a user cannot add to them.
    pub managed_allowed_domains_only: Option<bool>,
    pub allowed_domains: Option<Vec<String>>,
    pub denied_domains: Option<Vec<String>>,
    /// By path.
    pub unix_sockets: Option<BTreeMap<String, NetworkUnixSocketPermission>>,
    pub allow_unix_sockets: Option<Vec<String>>,
    /// Whether commands may open ports of their own on this machine.
    pub allow_local_binding: Option<bool>,
}

/// What commands may do with a domain.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkDomainPermission {
    Allow,
    Deny,
}

/// What commands may do with a socket of this machine.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkUnixSocketPermission {
    Allow,
    None,
}
