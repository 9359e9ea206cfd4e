//! Limits set by an administrator, by subject: the parts of [`ConfigRequirements`](crate::ConfigRequirements) and the
//! settings of the user that they limit.

use std::collections::BTreeMap;

use crate::{
    ConfiguredHookMatcherGroup, LegacyAppPathString, NetworkDomainPermission, ReasoningEffort, wire,
};

/// Whether something is allowed.
#[wire(open)]
#[derive(Eq)]
pub enum AllowDenyRequirement {
    Allow,
    Deny,
}

/// Limits of the desktop application.
#[wire]
pub struct ApplicationRequirements {
    pub network: Option<ApplicationNetworkRequirements>,
    pub storage: Option<ApplicationStorageRequirements>,
}

/// The domains that the application may reach.
#[wire]
pub struct ApplicationNetworkRequirements {
    pub domains: BTreeMap<String, NetworkDomainPermission>,
    pub enabled: bool,
}

/// Where the application stores projects.
#[wire]
pub struct ApplicationStorageRequirements {
    pub default_project_parent: Option<LegacyAppPathString>,
    pub projectless_workspace_root: Option<LegacyAppPathString>,
}

/// Settings of the agent's use of a browser.
#[wire(rename_all = "snake_case")]
pub struct BrowserUseConfig {
    pub allow_history_access: Option<bool>,
    pub default_origin_policy: Option<BrowserUseOriginPolicyConfig>,
    pub origins: Option<BTreeMap<String, BrowserUseOriginPolicyConfig>>,
}

/// What the agent may do on a site.
#[wire(rename_all = "snake_case")]
pub struct BrowserUseOriginPolicyConfig {
    pub access: Option<AllowDenyRequirement>,
    pub downloads: Option<AllowDenyRequirement>,
    pub full_cdp_access: Option<AllowDenyRequirement>,
    pub uploads: Option<AllowDenyRequirement>,
}

/// Limits of the agent's use of a browser.
#[wire]
pub struct BrowserUseRequirements {
    pub allow_global_persistent_approval: Option<bool>,
    pub allow_history_access: Option<bool>,
    pub allow_webmcp: Option<bool>,
    pub default_origin_policy: Option<BrowserUseOriginPolicy>,
    pub disable_auto_review: Option<bool>,
    pub extension: Option<BrowserUseExtensionRequirements>,
    pub origins: Option<BTreeMap<String, BrowserUseOriginPolicy>>,
}

/// Settings of the browser extension.
#[wire]
pub struct BrowserUseExtensionRequirements {
    pub request_headers: Option<Vec<RequestHeader>>,
}

/// Limits for a site.
#[wire]
pub struct BrowserUseOriginPolicy {
    pub access: Option<AllowDenyRequirement>,
    pub access_approval_lifetime: Option<BrowserUseAccessApprovalLifetime>,
    pub auto_review: Option<AllowDenyRequirement>,
    pub downloads: Option<AllowDenyRequirement>,
    pub full_cdp_access: Option<AllowDenyRequirement>,
    pub persistent_approval: Option<bool>,
    pub uploads: Option<AllowDenyRequirement>,
}

/// How long an approval holds.
#[wire(open)]
#[derive(Eq)]
pub enum BrowserUseAccessApprovalLifetime {
    Turn,
    Thread,
}

/// A header of requests.
#[wire]
pub struct RequestHeader {
    pub name: String,
    pub value: String,
}

/// Settings of the agent's use of applications.
#[wire(rename_all = "snake_case")]
pub struct ComputerUseConfig {
    pub default_app_access: Option<AllowDenyRequirement>,
    pub macos: Option<ComputerUseMacosConfig>,
    pub windows: Option<ComputerUseWindowsConfig>,
}

/// Applications on macOS.
#[wire(rename_all = "snake_case")]
pub struct ComputerUseMacosConfig {
    pub bundle_ids: Option<BTreeMap<String, AllowDenyRequirement>>,
}

/// Applications on Windows.
#[wire]
pub struct ComputerUseWindowsConfig {
    pub aumids: Option<BTreeMap<String, AllowDenyRequirement>>,
    pub exes: Option<Vec<ComputerUseWindowsExeConfig>>,
}

/// A program on Windows.
#[wire(rename_all = "snake_case")]
pub struct ComputerUseWindowsExeConfig {
    pub access: AllowDenyRequirement,
    pub product_name: String,
    pub publisher_name: String,
    pub binary_name: Option<String>,
}

/// Limits of the agent's use of applications.
#[wire]
pub struct ComputerUseRequirements {
    pub allow_locked_computer_use: Option<bool>,
    pub allow_persistent_approval: Option<bool>,
    pub default_app_access: Option<AllowDenyRequirement>,
    pub macos: Option<ComputerUseMacosRequirements>,
    pub windows: Option<ComputerUseWindowsRequirements>,
}

/// Limits for applications on macOS.
#[wire]
pub struct ComputerUseMacosRequirements {
    pub bundle_ids: Option<BTreeMap<String, AllowDenyRequirement>>,
}

/// Limits for applications on Windows.
#[wire]
pub struct ComputerUseWindowsRequirements {
    pub aumids: Option<BTreeMap<String, AllowDenyRequirement>>,
    pub exes: Option<Vec<ComputerUseWindowsExeRequirement>>,
}

/// The limit for a program on Windows.
#[wire]
pub struct ComputerUseWindowsExeRequirement {
    pub access: AllowDenyRequirement,
    pub product_name: String,
    pub publisher_name: String,
    pub binary_name: Option<String>,
}

/// Limits of the browser in the application.
#[wire]
pub struct InAppBrowserRequirements {
    pub allow_external_browser_settings_import: Option<bool>,
}

/// Limits of feedback reports.
#[wire]
pub struct FeedbackRequirements {
    pub enabled: Option<bool>,
}

/// Limits of models.
#[wire]
pub struct ModelsRequirements {
    pub new_thread: Option<NewThreadModelDefaults>,
}

/// The model settings of new threads.
#[wire]
pub struct NewThreadModelDefaults {
    pub model: Option<String>,
    pub model_reasoning_effort: Option<ReasoningEffort>,
    pub service_tier: Option<String>,
}

/// Hooks of an administrator, by event.
#[wire]
pub struct ManagedHooksRequirements {
    #[serde(rename = "PermissionRequest")]
    pub permission_request: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PostCompact")]
    pub post_compact: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PostToolUse")]
    pub post_tool_use: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PreCompact")]
    pub pre_compact: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "PreToolUse")]
    pub pre_tool_use: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "SessionStart")]
    pub session_start: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "Stop")]
    pub stop: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "SubagentStart")]
    pub subagent_start: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "SubagentStop")]
    pub subagent_stop: Vec<ConfiguredHookMatcherGroup>,
    #[serde(rename = "UserPromptSubmit")]
    pub user_prompt_submit: Vec<ConfiguredHookMatcherGroup>,
    #[serde(default)]
    #[serde(rename = "Interrupt")]
    pub interrupt: Vec<ConfiguredHookMatcherGroup>,
    #[serde(default)]
    #[serde(rename = "PostModelRequest")]
    pub post_model_request: Vec<ConfiguredHookMatcherGroup>,
    #[serde(default)]
    #[serde(rename = "PreModelRequest")]
    pub pre_model_request: Vec<ConfiguredHookMatcherGroup>,
    #[serde(default)]
    #[serde(rename = "SessionEnd")]
    pub session_end: Vec<ConfiguredHookMatcherGroup>,
    pub managed_dir: Option<String>,
    pub windows_managed_dir: Option<String>,
}

/// Settings of telemetry.
#[wire(rename_all = "snake_case")]
pub struct OtelRequirements {
    pub environment: Option<String>,
    pub exporter: Option<OtelExporter>,
    pub log_agent_responses: Option<bool>,
    pub log_guardian_assessments: Option<bool>,
    pub log_user_prompt: Option<bool>,
    pub metrics_exporter: Option<OtelExporter>,
    pub span_attributes: Option<BTreeMap<String, String>>,
    pub tool_result: Option<OtelToolResultLogConfig>,
    pub trace_exporter: Option<OtelExporter>,
    pub tracestate: Option<BTreeMap<String, BTreeMap<String, String>>>,
}

/// Where telemetry is sent.
#[wire(open, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum OtelExporter {
    None,
    Statsig,
    OtlpHttp {
        endpoint: String,
        headers: BTreeMap<String, String>,
        protocol: OtelHttpProtocol,
        tls: Option<OtelTlsConfig>,
    },
    OtlpGrpc {
        endpoint: String,
        headers: BTreeMap<String, String>,
        tls: Option<OtelTlsConfig>,
    },
}

/// The encoding of telemetry.
#[wire(open)]
#[derive(Eq)]
pub enum OtelHttpProtocol {
    Binary,
    Json,
}

/// The certificates for sending telemetry.
#[wire(rename_all = "kebab-case")]
pub struct OtelTlsConfig {
    pub ca_certificate: Option<String>,
    pub client_certificate: Option<String>,
    pub client_private_key: Option<String>,
}

/// How much of the results of tools is logged.
#[wire(rename_all = "snake_case")]
pub struct OtelToolResultLogConfig {
    pub max_bytes: u64,
}

/// Where credentials are stored.
#[wire(open)]
#[derive(Eq)]
pub enum CliAuthCredentialsStoreMode {
    File,
    Keyring,
    Auto,
    Ephemeral,
}

/// What counts towards the limit at which the history is compacted.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum AutoCompactTokenLimitScope {
    Total,
    BodyAfterPrefix,
}

/// A way in which tools are offered to the model.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum ToolExposureSurface {
    CodeMode,
    Deferred,
    Direct,
}

/// The only workspaces that the user may sign in to.
#[wire(untagged)]
pub enum ForcedChatgptWorkspaceIds {
    One(String),
    Any(Vec<String>),
}
