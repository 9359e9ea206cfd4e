//! Plugins, bundles of skills, apps and MCP servers: `plugin/list`, `plugin/read`, `plugin/install`, `plugin/uninstall`.
//!
//! A marketplace is a file in the git root of a directory. A plugin is identified by its name within a marketplace, or by
//! the id `NAME@MARKETPLACE`. Policies are upper case on the wire.

use serde_json::Value;

use crate::{AbsolutePathBuf, AppSummary, HookEventName, PluginShareContext, SkillSummary, wire};

/// Lists marketplaces and their plugins.
#[wire(sparse)]
#[derive(Default)]
pub struct PluginListParams {
    /// The directories to search. Absent: only marketplaces that do not belong to a directory.
    pub cwds: Option<Vec<AbsolutePathBuf>>,
    /// Synchronises the state of curated plugins with the remote catalogue first.
    #[until("0.118")]
    pub force_remote_sync: Option<bool>,
    /// Has no effect: local marketplaces are always read again.
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force_refetch: bool,
    /// Only marketplaces of these kinds. This server has local ones. Absent: all.
    #[since("0.166")]
    pub marketplace_kinds: Option<Vec<PluginListMarketplaceKind>>,
}

/// The marketplaces, and the errors of those that could not be loaded.
#[wire]
pub struct PluginListResponse {
    pub marketplaces: Vec<PluginMarketplaceEntry>,
    #[serde(default)]
    pub marketplace_load_errors: Vec<MarketplaceLoadErrorInfo>,
    /// The error of the synchronisation; the list is the local one then.
    #[until("0.118")]
    pub remote_sync_error: Option<String>,
    /// Curated plugins to show first; empty if not known.
    #[serde(default)]
    pub featured_plugin_ids: Vec<String>,
}

/// Returns the details of a plugin.
#[wire(sparse)]
pub struct PluginReadParams {
    #[in_118(AbsolutePathBuf)]
    pub marketplace_path: Option<AbsolutePathBuf>,
    pub plugin_name: String,
    /// A marketplace of the remote catalogue, instead of the path. Refused: there is no such catalogue.
    #[since("0.166")]
    pub remote_marketplace_name: Option<String>,
}

/// The details of a plugin, installed or not.
#[wire]
pub struct PluginReadResponse {
    pub plugin: PluginDetail,
}

/// Installs and enables a plugin.
#[wire(sparse)]
pub struct PluginInstallParams {
    #[in_118(AbsolutePathBuf)]
    pub marketplace_path: Option<AbsolutePathBuf>,
    pub plugin_name: String,
    /// Updates the remote catalogue first.
    #[until("0.118")]
    pub force_remote_sync: Option<bool>,
    /// A marketplace of the remote catalogue, instead of the path. Refused: there is no such catalogue.
    #[since("0.166")]
    pub remote_marketplace_name: Option<String>,
    /// A label of the client, without an effect.
    #[since("0.166")]
    pub install_attempt_id: Option<String>,
}

/// The plugin is installed. Some of its apps may need a sign-in.
#[wire]
pub struct PluginInstallResponse {
    pub auth_policy: PluginAuthPolicy,
    pub apps_needing_auth: Vec<AppSummary>,
}

/// Removes the files and the configuration of a plugin.
#[wire(sparse)]
pub struct PluginUninstallParams {
    /// `NAME@MARKETPLACE`.
    pub plugin_id: String,
    /// Updates the remote catalogue first.
    #[until("0.118")]
    pub force_remote_sync: Option<bool>,
}

/// The plugin is not installed any more. Succeeds also if it was not installed.
#[wire]
#[derive(Default)]
pub struct PluginUninstallResponse {}

/// A marketplace and its plugins.
#[wire]
pub struct PluginMarketplaceEntry {
    pub name: String,
    /// The path of its file, for `plugin/read` and `plugin/install`.
    #[in_166(Option<AbsolutePathBuf>)]
    pub path: AbsolutePathBuf,
    pub interface: Option<MarketplaceInterface>,
    pub plugins: Vec<PluginSummary>,
}

/// The presentation of a marketplace.
#[wire]
pub struct MarketplaceInterface {
    pub display_name: Option<String>,
}

/// The error of a marketplace file that could not be loaded.
#[wire]
pub struct MarketplaceLoadErrorInfo {
    pub marketplace_path: AbsolutePathBuf,
    pub message: String,
}

/// A plugin in a list.
#[wire]
pub struct PluginSummary {
    /// `NAME@MARKETPLACE`. Mentioned in a turn as `plugin://<id>`.
    pub id: String,
    pub name: String,
    pub source: PluginSource,
    pub installed: bool,
    /// Whether the configuration enables the plugin.
    pub enabled: bool,
    pub install_policy: PluginInstallPolicy,
    pub auth_policy: PluginAuthPolicy,
    /// Null if the manifest has none or cannot be read.
    pub interface: Option<PluginInterface>,
    /// The version in the manifest of the plugin on this machine.
    #[since("0.166")]
    pub local_version: Option<String>,
    #[since("0.166")]
    pub keywords: Vec<String>,
    #[since("0.166")]
    pub availability: PluginAvailability,
    /// The id in the remote catalogue, which this server does not have. So are the members below.
    #[since("0.166")]
    pub remote_plugin_id: Option<String>,
    #[since("0.166")]
    pub version: Option<String>,
    #[since("0.166")]
    pub share_context: Option<PluginShareContext>,
    #[since("0.166")]
    pub installed_at: Option<i64>,
    #[since("0.166")]
    pub install_policy_source: Option<PluginInstallPolicySource>,
    #[since("0.166")]
    pub must_show_installation_interstitial: Option<bool>,
    #[since("0.166")]
    pub disabled_reason: Option<PluginDisabledReason>,
    #[since("0.166")]
    pub eligible_plan_types: Option<Vec<String>>,
}

/// The source of the files of a plugin.
#[wire(open, tag = "type")]
pub enum PluginSource {
    Local {
        path: AbsolutePathBuf,
    },
    #[since("0.166")]
    Git {
        url: String,
        path: Option<String>,
        ref_name: Option<String>,
        sha: Option<String>,
    },
    #[since("0.166")]
    Npm {
        package: String,
        registry: Option<String>,
        version: Option<String>,
    },
    #[since("0.166")]
    Remote,
}

/// Whether a plugin can be installed.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum PluginInstallPolicy {
    /// Listed, but cannot be installed.
    NotAvailable,
    Available,
    InstalledByDefault,
}

/// When the user signs in to the apps of a plugin.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum PluginAuthPolicy {
    OnInstall,
    OnUse,
}

/// The presentation of a plugin.
#[wire]
#[derive(Default)]
pub struct PluginInterface {
    pub display_name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub developer_name: Option<String>,
    /// The category of the marketplace or, without one, of the plugin.
    pub category: Option<String>,
    /// Labels for users, such as `Read`. They grant no permissions.
    pub capabilities: Vec<String>,
    pub website_url: Option<String>,
    pub privacy_policy_url: Option<String>,
    pub terms_of_service_url: Option<String>,
    /// Suggested prompts.
    pub default_prompt: Option<Vec<String>>,
    /// `#RRGGBB`.
    pub brand_color: Option<String>,
    pub composer_icon: Option<AbsolutePathBuf>,
    pub logo: Option<AbsolutePathBuf>,
    pub screenshots: Vec<AbsolutePathBuf>,
    /// Null: the images of local plugins are files.
    #[since("0.166")]
    pub composer_icon_url: Option<String>,
    #[since("0.166")]
    pub logo_dark: Option<AbsolutePathBuf>,
    #[since("0.166")]
    pub logo_url: Option<String>,
    #[since("0.166")]
    pub logo_url_dark: Option<String>,
    /// Always empty: the screenshots of local plugins are files.
    #[since("0.166", required)]
    pub screenshot_urls: Vec<String>,
}

/// A plugin and its content.
#[wire]
pub struct PluginDetail {
    pub marketplace_name: String,
    #[in_166(Option<AbsolutePathBuf>)]
    pub marketplace_path: AbsolutePathBuf,
    pub summary: PluginSummary,
    pub description: Option<String>,
    pub skills: Vec<SkillSummary>,
    pub apps: Vec<AppSummary>,
    /// The names of the MCP servers.
    pub mcp_servers: Vec<String>,
    /// Always empty: local plugins have no templates of apps.
    #[since("0.166", required)]
    #[in_166(Vec<AppTemplateSummary>)]
    pub app_templates: Vec<Value>,
    /// Always empty: hooks of plugins are not run.
    #[since("0.166", required)]
    #[in_166(Vec<PluginHookSummary>)]
    pub hooks: Vec<Value>,
    /// Never set: local plugins propose no tasks and are not shared. So are the members below.
    #[since("0.166")]
    pub scheduled_tasks: Option<Vec<ScheduledTaskSummary>>,
    #[since("0.166")]
    pub onboarding_skill: Option<SkillSummary>,
    #[since("0.166")]
    pub share_url: Option<String>,
}

/// Lists the installed plugins.
#[wire(sparse)]
#[derive(Default)]
pub struct PluginInstalledParams {
    pub cwds: Option<Vec<AbsolutePathBuf>>,
    /// Also lists these plugins, if they can be installed.
    pub install_suggestion_plugin_names: Option<Vec<String>>,
}

/// The installed plugins by marketplace.
#[wire]
pub struct PluginInstalledResponse {
    pub marketplaces: Vec<PluginMarketplaceEntry>,
    #[serde(default)]
    pub marketplace_load_errors: Vec<MarketplaceLoadErrorInfo>,
}

/// Searches for plugins.
#[wire(sparse)]
pub struct PluginSearchParams {
    pub search_term: String,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    pub cwds: Option<Vec<AbsolutePathBuf>>,
    pub scope: Option<PluginSearchScope>,
}

/// Where plugins are searched for.
#[wire(open)]
#[derive(Eq)]
pub enum PluginSearchScope {
    Global,
    Workspace,
    Personal,
}

/// One page of plugins.
#[wire]
pub struct PluginSearchResponse {
    pub data: Vec<PluginSearchResult>,
    pub next_cursor: Option<String>,
}

/// A plugin that was found.
#[wire]
pub struct PluginSearchResult {
    pub marketplace_name: String,
    pub plugin: PluginSummary,
    pub marketplace_path: Option<AbsolutePathBuf>,
}

/// Brings the installed plugins in line with those of the account.
#[wire(sparse)]
#[derive(Default)]
pub struct PluginReconcileParams {
    pub reason: Option<String>,
}

/// The plugins that changed, and those that could not be fetched.
#[wire]
pub struct PluginReconcileResponse {
    pub changed_plugins: Vec<PluginReconcileChangedPlugin>,
    pub failed_materialization_remote_plugin_ids: Vec<String>,
    pub failed_remote_plugin_ids: Vec<String>,
}

/// A plugin that changed, and what it contains.
#[wire]
pub struct PluginReconcileChangedPlugin {
    pub id: String,
    pub has_apps: bool,
    pub has_hooks: bool,
    pub has_mcps: bool,
    pub has_skills: bool,
}

/// Reads a skill of a plugin that is not installed.
#[wire]
pub struct PluginSkillReadParams {
    pub remote_plugin_id: String,
    pub remote_marketplace_name: String,
    pub skill_name: String,
}

/// The text of the skill; null if there is none.
#[wire]
pub struct PluginSkillReadResponse {
    pub contents: Option<String>,
}

/// The kinds of marketplaces to list.
#[wire(open, rename_all = "kebab-case")]
#[derive(Eq)]
pub enum PluginListMarketplaceKind {
    Local,
    Vertical,
    WorkspaceDirectory,
    SharedWithMe,
    CreatedByMeRemote,
}

/// Whether an administrator permits a plugin.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Default, Eq)]
pub enum PluginAvailability {
    DisabledByAdmin,
    #[default]
    Available,
}

/// Why a plugin cannot be used.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum PluginDisabledReason {
    DisabledByAdmin,
    PlanNotEligible,
    RequiredAppUnavailable,
    Unknown,
}

/// Where the install policy of a plugin comes from.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum PluginInstallPolicySource {
    WorkspaceSetting,
    ImplicitCanonicalApp,
}

/// A hook of a plugin.
#[wire]
pub struct PluginHookSummary {
    pub event_name: HookEventName,
    pub key: String,
}

/// A template of a plugin from which apps are made.
#[wire]
pub struct AppTemplateSummary {
    pub template_id: String,
    pub materialized_app_ids: Vec<String>,
    pub name: String,
    pub canonical_connector_id: Option<String>,
    pub category: Option<String>,
    pub description: Option<String>,
    pub logo_url: Option<String>,
    pub logo_url_dark: Option<String>,
    pub reason: Option<AppTemplateUnavailableReason>,
}

/// Why a template cannot be used.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum AppTemplateUnavailableReason {
    NotConfiguredForWorkspace,
    NoActiveWorkspace,
}

/// A task that a plugin proposes to run regularly.
#[wire]
pub struct ScheduledTaskSummary {
    pub key: String,
    pub name: String,
    pub prompt: String,
    pub schedule: ScheduledTaskSchedule,
}

/// When a task runs. Times are `HH:MM`.
#[wire(open, tag = "type")]
pub enum ScheduledTaskSchedule {
    Hourly { interval_hours: u32, days: Option<Vec<ScheduledTaskWeekday>> },
    Daily { time: String },
    Weekdays { time: String },
    Weekly { days: Vec<ScheduledTaskWeekday>, time: String },
}

/// A day of the week.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum ScheduledTaskWeekday {
    Mo,
    Tu,
    We,
    Th,
    Fr,
    Sa,
    Su,
}
