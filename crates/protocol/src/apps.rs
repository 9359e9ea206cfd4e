//! Apps (connectors): `app/list` and `app/list/updated`. Without a ChatGPT sign-in the list is empty, not
//! an error. What the configuration says about apps is in the module of the configuration.

use std::collections::BTreeMap;

use crate::{ThreadId, wire};

/// Which page of apps, and how fresh.
#[wire(sparse)]
#[derive(Default)]
pub struct AppsListParams {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// Decides by this thread's configuration whether apps are on, instead of by the global one.
    pub thread_id: Option<ThreadId>,
    /// Asks the sources again; what was known before stays if they fail. Off when left out.
    pub force_refetch: Option<bool>,
}

/// One page of the apps that exist and those the account can use, merged.
#[wire]
pub struct AppsListResponse {
    pub data: Vec<AppInfo>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// An app as the directory presents it, with what it is to this account.
#[wire]
pub struct AppInfo {
    /// The connector's id, mentioned in a turn as `app://<id>`.
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub logo_url: Option<String>,
    pub logo_url_dark: Option<String>,
    pub distribution_channel: Option<String>,
    pub branding: Option<AppBranding>,
    pub app_metadata: Option<AppMetadata>,
    pub labels: Option<BTreeMap<String, String>>,
    /// Where a person connects it.
    pub install_url: Option<String>,
    /// Whether the account is connected to it.
    #[serde(default)]
    pub is_accessible: bool,
    /// Whether the configuration lets it be used.
    #[serde(default = "crate::yes")]
    pub is_enabled: bool,
    /// The plugins that bring it along.
    #[serde(default)]
    pub plugin_display_names: Vec<String>,
}

/// Who stands behind an app, and under which terms.
#[wire]
pub struct AppBranding {
    pub category: Option<String>,
    pub developer: Option<String>,
    pub website: Option<String>,
    pub privacy_policy: Option<String>,
    pub terms_of_service: Option<String>,
    pub is_discoverable_app: bool,
}

/// The directory's page about an app, passed on as it is.
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
    pub first_party_type: Option<String>,
    pub first_party_requires_install: Option<bool>,
    pub show_in_composer_when_unlinked: Option<bool>,
}

/// How far the directory's own check of an app has come.
#[wire]
pub struct AppReview {
    pub status: String,
}

/// A picture of an app at work.
#[wire]
pub struct AppScreenshot {
    pub url: Option<String>,
    pub file_id: Option<String>,
    pub user_prompt: String,
}

/// An app as the plugin that brings it lists it, in the answers to `plugin/read` and `plugin/install`.
#[wire]
pub struct AppSummary {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub install_url: Option<String>,
    /// Whether a person still has to connect it before it works.
    pub needs_auth: bool,
}

/// Sent whenever one of the two sources has loaded, so also while `app/list` is being answered.
#[wire]
pub struct AppListUpdatedNotification {
    /// The whole list as known now, not a page of it.
    pub data: Vec<AppInfo>,
}
