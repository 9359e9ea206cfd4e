//! Sharing plugins through a service of OpenAI: `plugin/share/*`. This server does not take part in it.

use crate::{AbsolutePathBuf, PluginSummary, wire};

/// Uploads a plugin, or a new version of it.
#[wire(sparse)]
pub struct PluginShareSaveParams {
    pub plugin_path: AbsolutePathBuf,
    pub discoverability: Option<PluginShareDiscoverability>,
    pub remote_plugin_id: Option<String>,
    pub share_targets: Option<Vec<PluginShareTarget>>,
}

/// The shared plugin.
#[wire]
pub struct PluginShareSaveResponse {
    pub remote_plugin_id: String,
    pub share_url: String,
    pub can_publish_to_workspace: Option<bool>,
}

/// Changes with whom a plugin is shared.
#[wire]
pub struct PluginShareUpdateTargetsParams {
    pub remote_plugin_id: String,
    pub discoverability: PluginShareUpdateDiscoverability,
    pub share_targets: Vec<PluginShareTarget>,
}

/// With whom the plugin is shared.
#[wire]
pub struct PluginShareUpdateTargetsResponse {
    pub discoverability: PluginShareDiscoverability,
    pub principals: Vec<PluginSharePrincipal>,
}

/// Lists the plugins that the user shares. Has no parameters.
#[wire]
#[derive(Default)]
pub struct PluginShareListParams {}

/// The shared plugins.
#[wire]
pub struct PluginShareListResponse {
    pub data: Vec<PluginShareListItem>,
}

/// A shared plugin.
#[wire]
pub struct PluginShareListItem {
    pub plugin: PluginSummary,
    /// The directory from which it was uploaded.
    pub local_plugin_path: Option<AbsolutePathBuf>,
}

/// Downloads a shared plugin for editing.
#[wire]
pub struct PluginShareCheckoutParams {
    pub remote_plugin_id: String,
}

/// The plugin and its directory.
#[wire]
pub struct PluginShareCheckoutResponse {
    pub plugin_id: String,
    pub remote_plugin_id: String,
    pub marketplace_name: String,
    pub marketplace_path: AbsolutePathBuf,
    pub plugin_name: String,
    pub plugin_path: AbsolutePathBuf,
    pub remote_version: Option<String>,
}

/// Stops sharing a plugin.
#[wire]
pub struct PluginShareDeleteParams {
    pub remote_plugin_id: String,
}

/// The plugin is no longer shared.
#[wire]
#[derive(Default)]
pub struct PluginShareDeleteResponse {}

/// How a plugin is shared.
#[wire]
pub struct PluginShareContext {
    pub remote_plugin_id: String,
    pub can_publish_to_workspace: Option<bool>,
    pub creator_account_user_id: Option<String>,
    pub creator_name: Option<String>,
    pub discoverability: Option<PluginShareDiscoverability>,
    pub remote_version: Option<String>,
    pub share_principals: Option<Vec<PluginSharePrincipal>>,
    pub share_url: Option<String>,
}

/// Who finds a shared plugin.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum PluginShareDiscoverability {
    Listed,
    Unlisted,
    Private,
}

/// Who finds a shared plugin, in a request.
#[wire(open, rename_all = "SCREAMING_SNAKE_CASE")]
#[derive(Eq)]
pub enum PluginShareUpdateDiscoverability {
    Unlisted,
    Private,
    Listed,
}

/// Someone with whom a plugin is shared.
#[wire]
pub struct PluginShareTarget {
    pub principal_id: String,
    pub principal_type: PluginSharePrincipalType,
    pub role: PluginShareTargetRole,
}

/// What a target may do.
#[wire(open)]
#[derive(Eq)]
pub enum PluginShareTargetRole {
    Reader,
    Editor,
}

/// Someone who has access to a shared plugin.
#[wire]
pub struct PluginSharePrincipal {
    pub principal_id: String,
    pub name: String,
    pub principal_type: PluginSharePrincipalType,
    pub role: PluginSharePrincipalRole,
}

/// The kind of a principal.
#[wire(open)]
#[derive(Eq)]
pub enum PluginSharePrincipalType {
    User,
    Group,
    Workspace,
}

/// What a principal may do.
#[wire(open)]
#[derive(Eq)]
pub enum PluginSharePrincipalRole {
    Reader,
    Editor,
    Owner,
}
