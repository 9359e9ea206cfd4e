//! Plugins, bundles of skills, apps and MCP servers: `plugin/list`, `plugin/read`, `plugin/install`,
//! `plugin/uninstall`.
//!
//! A marketplace is a file, found in the git roots of the given directories; a plugin is known by its name
//! within one, or by the id `NAME@MARKETPLACE`. Policies are in capitals on the wire.

use crate::{AbsolutePathBuf, AppSummary, SkillSummary, wire};

/// Where to look for marketplaces.
#[wire(sparse)]
#[derive(Default)]
pub struct PluginListParams {
    /// Without any, only marketplaces that belong to no directory are found.
    pub cwds: Option<Vec<AbsolutePathBuf>>,
    /// Bring the state of curated plugins in line with the remote catalogue first.
    pub force_remote_sync: Option<bool>,
}

/// What was found; what could not be read stands beside it and stops nothing.
#[wire]
pub struct PluginListResponse {
    pub marketplaces: Vec<PluginMarketplaceEntry>,
    #[serde(default)]
    pub marketplace_load_errors: Vec<MarketplaceLoadErrorInfo>,
    /// Why the remote catalogue could not be asked; the list is then the local one.
    pub remote_sync_error: Option<String>,
    /// Curated plugins to show first; empty when that is not known.
    #[serde(default)]
    pub featured_plugin_ids: Vec<String>,
}

/// One plugin, by its marketplace's file and its name there.
#[wire]
pub struct PluginReadParams {
    pub marketplace_path: AbsolutePathBuf,
    pub plugin_name: String,
}

/// All about one plugin, installed or not.
#[wire]
pub struct PluginReadResponse {
    pub plugin: PluginDetail,
}

/// Installs a plugin and turns it on.
#[wire(sparse)]
pub struct PluginInstallParams {
    pub marketplace_path: AbsolutePathBuf,
    pub plugin_name: String,
    /// Tell the remote catalogue first.
    pub force_remote_sync: Option<bool>,
}

/// The plugin is installed; some of its apps may still want a sign-in.
#[wire]
pub struct PluginInstallResponse {
    pub auth_policy: PluginAuthPolicy,
    pub apps_needing_auth: Vec<AppSummary>,
}

/// Removes a plugin's files and its entry in the configuration.
#[wire(sparse)]
pub struct PluginUninstallParams {
    /// `NAME@MARKETPLACE`.
    pub plugin_id: String,
    /// Tell the remote catalogue first.
    pub force_remote_sync: Option<bool>,
}

/// The plugin is gone, or was not there.
#[wire]
#[derive(Default)]
pub struct PluginUninstallResponse {}

/// A marketplace and its plugins.
#[wire]
pub struct PluginMarketplaceEntry {
    pub name: String,
    /// Of its file, as `plugin/read` and `plugin/install` want it.
    pub path: AbsolutePathBuf,
    pub interface: Option<MarketplaceInterface>,
    pub plugins: Vec<PluginSummary>,
}

/// How to show a marketplace.
#[wire]
pub struct MarketplaceInterface {
    pub display_name: Option<String>,
}

/// A marketplace file that could not be read.
#[wire]
pub struct MarketplaceLoadErrorInfo {
    pub marketplace_path: AbsolutePathBuf,
    pub message: String,
}

/// A plugin as a list shows it.
#[wire]
pub struct PluginSummary {
    /// `NAME@MARKETPLACE`; also the end of a mention's `plugin://` path.
    pub id: String,
    pub name: String,
    pub source: PluginSource,
    pub installed: bool,
    /// Turned on in the configuration.
    pub enabled: bool,
    pub install_policy: PluginInstallPolicy,
    pub auth_policy: PluginAuthPolicy,
    /// Null when the plugin's manifest has none or cannot be read.
    pub interface: Option<PluginInterface>,
}

/// Where a plugin's files come from.
#[wire(open, tag = "type")]
pub enum PluginSource {
    Local { path: AbsolutePathBuf },
}

/// Whether the marketplace lets a plugin be installed.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum PluginInstallPolicy {
    /// Listed, but `plugin/install` refuses it.
    NotAvailable,
    Available,
    InstalledByDefault,
}

/// When the person signs in to a plugin's apps.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum PluginAuthPolicy {
    OnInstall,
    OnUse,
}

/// How to show a plugin.
#[wire]
#[derive(Default)]
pub struct PluginInterface {
    pub display_name: Option<String>,
    pub short_description: Option<String>,
    pub long_description: Option<String>,
    pub developer_name: Option<String>,
    /// The marketplace's word for it, else the plugin's own.
    pub category: Option<String>,
    /// Words for people, such as `Read`; they grant nothing.
    pub capabilities: Vec<String>,
    pub website_url: Option<String>,
    pub privacy_policy_url: Option<String>,
    pub terms_of_service_url: Option<String>,
    /// Things to try first.
    pub default_prompt: Option<Vec<String>>,
    /// `#RRGGBB`.
    pub brand_color: Option<String>,
    pub composer_icon: Option<AbsolutePathBuf>,
    pub logo: Option<AbsolutePathBuf>,
    pub screenshots: Vec<AbsolutePathBuf>,
}

/// A plugin with what it brings.
#[wire]
pub struct PluginDetail {
    pub marketplace_name: String,
    pub marketplace_path: AbsolutePathBuf,
    pub summary: PluginSummary,
    pub description: Option<String>,
    pub skills: Vec<SkillSummary>,
    pub apps: Vec<AppSummary>,
    /// Their names.
    pub mcp_servers: Vec<String>,
}
