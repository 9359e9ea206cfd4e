//! Limits set by an administrator (`configRequirements/read`), their parts by subject, and the settings of the user that
//! they limit.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    ApprovalsReviewer, AskForApproval, AutoReviewRequirements, ConfiguredHookMatcherGroup, ForcedLoginMethod,
    LegacyAppPathString, ReasoningEffort, SandboxMode, WebSearchMode, WindowsSandboxImplementation, wire,
};

/// The limits set by an administrator.
#[wire]
pub struct ConfigRequirementsReadResponse {
    /// Null if there are none.
    pub requirements: Option<ConfigRequirements>,
    /// Never set: the speed of a model has no modes besides its tiers.
    #[omit]
    #[since("0.166")]
    pub supports_independent_speed_modes: Option<bool>,
}

/// The limits set by an administrator. Null: no limit.
#[wire]
#[derive(Default)]
pub struct ConfigRequirements {
    pub allowed_approval_policies: Option<Vec<AskForApproval>>,
    pub allowed_sandbox_modes: Option<Vec<SandboxMode>>,
    pub allowed_web_search_modes: Option<Vec<WebSearchMode>>,
    /// Features that are forced on or off.
    pub feature_requirements: Option<BTreeMap<String, bool>>,
    pub enforce_residency: Option<ResidencyRequirement>,
    #[experimental("configRequirements/read.network")]
    pub network: Option<NetworkRequirements>,
    /// Never set, like the members below: such requirements are reported as not enforced.
    #[omit]
    #[since("0.166")]
    pub additional_developer_instructions: Option<String>,
    #[omit]
    #[since("0.166")]
    pub allow_appshots: Option<bool>,
    #[omit]
    #[since("0.166")]
    pub allow_browser_and_computer_use: Option<bool>,
    #[omit]
    #[since("0.166")]
    pub allow_login_shell: Option<bool>,
    #[omit]
    #[since("0.166")]
    pub allow_managed_hooks_only: Option<bool>,
    #[omit]
    #[since("0.166")]
    pub allow_remote_control: Option<bool>,
    #[omit]
    #[since("0.166")]
    pub allowed_approvals_reviewers: Option<Vec<ApprovalsReviewer>>,
    #[omit]
    #[since("0.166")]
    pub allowed_login_methods: Option<Vec<ForcedLoginMethod>>,
    #[omit]
    #[since("0.166")]
    pub allowed_permission_profiles: Option<BTreeMap<String, bool>>,
    #[omit]
    #[since("0.166")]
    pub allowed_windows_sandbox_implementations: Option<Vec<WindowsSandboxImplementation>>,
    #[omit]
    #[since("0.166")]
    pub application: Option<ApplicationRequirements>,
    #[omit]
    #[since("0.166")]
    pub auto_review: Option<AutoReviewRequirements>,
    #[omit]
    #[since("0.166")]
    pub browser_use: Option<BrowserUseRequirements>,
    #[omit]
    #[since("0.166")]
    pub chatgpt_base_url: Option<String>,
    #[omit]
    #[since("0.166")]
    pub check_for_update_on_startup: Option<bool>,
    #[omit]
    #[since("0.166")]
    pub cli_auth_credentials_store: Option<CliAuthCredentialsStoreMode>,
    #[omit]
    #[since("0.166")]
    pub computer_use: Option<ComputerUseRequirements>,
    #[omit]
    #[since("0.166")]
    pub default_permissions: Option<String>,
    #[omit]
    #[since("0.166")]
    pub feedback: Option<FeedbackRequirements>,
    #[omit]
    #[since("0.166")]
    pub hooks: Option<ManagedHooksRequirements>,
    #[omit]
    #[since("0.166")]
    pub in_app_browser: Option<InAppBrowserRequirements>,
    #[omit]
    #[since("0.166")]
    pub log_dir: Option<String>,
    #[omit]
    #[since("0.166")]
    pub model_catalog_json: Option<String>,
    #[omit]
    #[since("0.166")]
    pub model_provider: Option<String>,
    #[omit]
    #[since("0.166")]
    pub model_providers: Option<Map<String, Value>>,
    #[omit]
    #[since("0.166")]
    pub models: Option<ModelsRequirements>,
    #[omit]
    #[since("0.166")]
    pub otel: Option<OtelRequirements>,
    #[omit]
    #[since("0.166")]
    pub sqlite_home: Option<String>,
}

/// Where data must be processed.
#[wire(open)]
#[derive(Eq)]
pub enum ResidencyRequirement {
    Us,
}

/// Rules of the proxy through which sandboxed commands reach the network.
///
/// `domains` and `unixSockets` are the rules; `allowedDomains`, `deniedDomains` and `allowUnixSockets` contain the same as
/// plain lists.
#[wire]
#[derive(Default)]
pub struct NetworkRequirements {
    pub enabled: Option<bool>,
    pub http_port: Option<u16>,
    pub socks_port: Option<u16>,
    /// Whether the proxy may use an upstream proxy.
    pub allow_upstream_proxy: Option<bool>,
    /// Whether the proxy may listen on addresses that other machines can reach.
    pub dangerously_allow_non_loopback_proxy: Option<bool>,
    pub dangerously_allow_all_unix_sockets: Option<bool>,
    /// The rules by domain.
    pub domains: Option<BTreeMap<String, NetworkDomainPermission>>,
    /// Only these domains are allowed; users cannot add others.
    pub managed_allowed_domains_only: Option<bool>,
    pub allowed_domains: Option<Vec<String>>,
    pub denied_domains: Option<Vec<String>>,
    /// Never set: no domain needs a review.
    #[omit]
    #[since("0.166")]
    pub review_domains: Option<Vec<String>>,
    /// The rules by path.
    pub unix_sockets: Option<BTreeMap<String, NetworkUnixSocketPermission>>,
    pub allow_unix_sockets: Option<Vec<String>>,
    /// Whether commands may listen on local ports.
    pub allow_local_binding: Option<bool>,
}

/// The rule for a domain.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkDomainPermission {
    Allow,
    Deny,
}

/// The rule for a Unix socket.
#[wire(open)]
#[derive(Eq)]
pub enum NetworkUnixSocketPermission {
    Allow,
    #[until("0.118")]
    None,
    /// The name of `none` in 0.166.
    #[since("0.166")]
    Deny,
}

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
