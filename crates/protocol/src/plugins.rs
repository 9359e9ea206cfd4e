//! Plugins, bundles of skills, apps and MCP servers: `plugin/list`, `plugin/read`, `plugin/install`, `plugin/uninstall`.
//!
//! A marketplace is a file in the git root of a directory. A plugin is identified by its name within a marketplace, or by
//! the id `NAME@MARKETPLACE`. Policies are upper case on the wire.

use serde_json::Value;

use crate::{AbsolutePathBuf, AppSummary, SkillSummary, wire};

/// Lists marketplaces and their plugins.
#[wire(sparse)]
#[derive(Default)]
pub struct PluginListParams {
    /// The directories to search. Absent: only marketplaces that do not belong to a directory.
    pub cwds: Option<Vec<AbsolutePathBuf>>,
    /// Synchronises the state of curated plugins with the remote catalogue first.
    pub force_remote_sync: Option<bool>,
}

/// The marketplaces, and the errors of those that could not be loaded.
#[wire]
pub struct PluginListResponse {
    pub marketplaces: Vec<PluginMarketplaceEntry>,
    #[serde(default)]
    pub marketplace_load_errors: Vec<MarketplaceLoadErrorInfo>,
    /// The error of the synchronisation; the list is the local one then.
    pub remote_sync_error: Option<String>,
    /// Curated plugins to show first; empty if not known.
    #[serde(default)]
    pub featured_plugin_ids: Vec<String>,
}

/// Returns the details of a plugin.
#[wire]
pub struct PluginReadParams {
    pub marketplace_path: AbsolutePathBuf,
    pub plugin_name: String,
}

/// The details of a plugin, installed or not.
#[wire]
pub struct PluginReadResponse {
    pub plugin: PluginDetail,
}

/// Installs and enables a plugin.
#[wire(sparse)]
pub struct PluginInstallParams {
    pub marketplace_path: AbsolutePathBuf,
    pub plugin_name: String,
    /// Updates the remote catalogue first.
    pub force_remote_sync: Option<bool>,
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
}

/// The source of the files of a plugin.
#[wire(open, tag = "type")]
pub enum PluginSource {
    Local { path: AbsolutePathBuf },
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
    /// Always empty: the screenshots of local plugins are files.
    #[since("0.166")]
    pub screenshot_urls: Vec<String>,
}

/// A plugin and its content.
#[wire]
pub struct PluginDetail {
    pub marketplace_name: String,
    pub marketplace_path: AbsolutePathBuf,
    pub summary: PluginSummary,
    pub description: Option<String>,
    pub skills: Vec<SkillSummary>,
    pub apps: Vec<AppSummary>,
    /// The names of the MCP servers.
    pub mcp_servers: Vec<String>,
    /// Always empty: local plugins have no templates of apps.
    #[since("0.166")]
    pub app_templates: Vec<Value>,
    /// Always empty: hooks of plugins are not run.
    #[since("0.166")]
    pub hooks: Vec<Value>,
}
