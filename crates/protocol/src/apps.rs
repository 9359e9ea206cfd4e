//! Apps (connectors): `app/list` and `app/list/updated`. Without a ChatGPT sign-in the list is empty. The configuration of
//! apps is in `config.rs`.

use std::collections::BTreeMap;

use crate::{AppToolApproval, ApprovalsReviewer, ThreadId, wire};

/// Lists apps.
#[wire(sparse)]
#[derive(Default)]
pub struct AppsListParams {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// Uses this thread's configuration instead of the global one to decide whether apps are enabled.
    pub thread_id: Option<ThreadId>,
    /// Fetches the list again; a cached list is kept if that fails. Defaults to false.
    pub force_refetch: Option<bool>,
}

/// One page of all apps, merged with those that the account can use.
#[wire]
pub struct AppsListResponse {
    pub data: Vec<AppInfo>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// An app of the directory and its state for this account.
#[wire]
pub struct AppInfo {
    /// The id of the connector. Mentioned in a turn as `app://<id>`.
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub logo_url: Option<String>,
    pub logo_url_dark: Option<String>,
    pub distribution_channel: Option<String>,
    pub branding: Option<AppBranding>,
    pub app_metadata: Option<AppMetadata>,
    pub labels: Option<BTreeMap<String, String>>,
    /// The URL where users connect the app.
    pub install_url: Option<String>,
    /// Whether the account is connected to the app.
    #[serde(default)]
    pub is_accessible: bool,
    /// Whether the configuration enables the app.
    #[serde(default = "crate::yes")]
    pub is_enabled: bool,
    /// The plugins that include the app.
    #[serde(default)]
    pub plugin_display_names: Vec<String>,
    /// The icons by size, if the directory has several.
    #[omit]
    #[since("0.166")]
    pub icon_assets: Option<BTreeMap<String, String>>,
    #[omit]
    #[since("0.166")]
    pub icon_dark_assets: Option<BTreeMap<String, String>>,
}

/// The publisher and terms of an app.
#[wire]
pub struct AppBranding {
    pub category: Option<String>,
    pub developer: Option<String>,
    pub website: Option<String>,
    pub privacy_policy: Option<String>,
    pub terms_of_service: Option<String>,
    pub is_discoverable_app: bool,
}

/// The directory entry of an app, passed through unchanged.
#[wire]
pub struct AppMetadata {
    pub review: Option<AppReview>,
    pub categories: Option<Vec<String>>,
    pub sub_categories: Option<Vec<String>>,
    pub seo_description: Option<String>,
    pub screenshots: Option<Vec<AppScreenshot>>,
    pub developer: Option<String>,
    pub version: Option<String>,
    pub version_id: Option<String>,
    pub version_notes: Option<String>,
    #[until("0.118")]
    pub first_party_type: Option<String>,
    pub first_party_requires_install: Option<bool>,
    pub show_in_composer_when_unlinked: Option<bool>,
}

/// The state of the directory's review of an app.
#[wire]
pub struct AppReview {
    pub status: String,
}

/// A screenshot of an app.
#[wire]
pub struct AppScreenshot {
    pub url: Option<String>,
    pub file_id: Option<String>,
    pub user_prompt: String,
}

/// An app of a plugin, in the responses to `plugin/read` and `plugin/install`.
#[wire]
pub struct AppSummary {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub install_url: Option<String>,
    #[since("0.166")]
    pub category: Option<String>,
    /// Whether the user must connect the app before it can be used.
    #[until("0.118")]
    pub needs_auth: bool,
}

/// The list of apps changed. Sent whenever one of its two sources has loaded, also before the response to `app/list`.
#[wire]
pub struct AppListUpdatedNotification {
    /// The complete list.
    pub data: Vec<AppInfo>,
}

/// Lists the apps that are installed.
#[wire(sparse)]
#[derive(Default)]
pub struct AppsInstalledParams {
    pub thread_id: Option<ThreadId>,
    #[serde(default)]
    pub force_refresh: bool,
}

/// The installed apps.
#[wire]
pub struct AppsInstalledResponse {
    pub apps: Vec<InstalledApp>,
}

/// An installed app.
#[wire]
pub struct InstalledApp {
    pub id: String,
    /// Whether its tools can be called now.
    pub callable: bool,
    pub enabled: bool,
    /// The name of its MCP server.
    pub runtime_name: Option<String>,
}

/// Returns the details of apps.
#[wire(sparse)]
pub struct AppsReadParams {
    pub thread_id: Option<ThreadId>,
    pub app_ids: Vec<String>,
    #[serde(default)]
    pub include_tools: bool,
}

/// The details of apps, and the ids of those that do not exist.
#[wire]
pub struct AppsReadResponse {
    pub apps: Vec<ConnectorMetadata>,
    pub missing_app_ids: Vec<String>,
}

/// The details of an app.
#[wire]
pub struct ConnectorMetadata {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub distribution_channel: Option<String>,
    pub icon_url: Option<String>,
    pub icon_url_dark: Option<String>,
    pub install_url: Option<String>,
    #[serde(default)]
    pub plugin_display_names: Vec<String>,
    pub tool_summaries: Option<Vec<AppToolSummary>>,
}

/// A tool of an app.
#[wire]
pub struct AppToolSummary {
    pub description: String,
    pub name: String,
    pub disabled_reason: Option<String>,
    #[serde(default)]
    pub is_enabled: bool,
    #[serde(default)]
    pub is_read_only: bool,
    pub title: Option<String>,
}

/// Settings of one connection of an app.
#[wire(rename_all = "snake_case")]
pub struct AppLinkConfig {
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    pub default_tools_approval_mode: Option<AppToolApproval>,
}

/// Settings of the connections of an app, by id.
#[wire]
#[derive(Default)]
pub struct AppLinksConfig {
    #[serde(flatten)]
    pub links: BTreeMap<String, AppLinkConfig>,
}
