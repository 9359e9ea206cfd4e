//! Lists the directory of all apps, page by page, including apps that the account is not connected to.

use std::collections::BTreeMap;

use codicil_protocol::AppInfo;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::merge::install_url;
use crate::backend::{BackendError, ChatgptBackend, read_response, send};

const LIST_PATH: &str = "/connectors/directory/list";
const WORKSPACE_LIST_PATH: &str = "/connectors/directory/list_workspace";

const MAX_PAGES: usize = 100;
const MAX_APPS: usize = 10_000;

#[derive(Deserialize)]
struct DirectoryPage {
    /// Decoded one by one, so that an invalid app does not hide the others.
    apps: Vec<Value>,
    #[serde(alias = "nextToken")]
    next_token: Option<String>,
}

#[derive(Deserialize)]
struct ListedApp {
    id: String,
    name: String,
    description: Option<String>,
    #[serde(alias = "logoUrl")]
    logo_url: Option<String>,
    #[serde(alias = "logoUrlDark")]
    logo_url_dark: Option<String>,
    #[serde(alias = "distributionChannel")]
    distribution_channel: Option<String>,
    branding: Option<Value>,
    #[serde(alias = "appMetadata")]
    app_metadata: Option<Value>,
    labels: Option<BTreeMap<String, String>>,
    visibility: Option<String>,
}

/// Returns the visible apps of the public directory and of the account's workspace, sorted by id.
pub(super) async fn list(backend: &ChatgptBackend) -> Result<Vec<AppInfo>, BackendError> {
    let mut apps = BTreeMap::new();
    collect_apps(backend, LIST_PATH, &mut apps).await?;
    if backend.account().is_some_and(|account| account.is_workspace) {
        collect_apps(backend, WORKSPACE_LIST_PATH, &mut apps).await?;
    }
    Ok(apps.into_values().collect())
}

async fn collect_apps(
    backend: &ChatgptBackend,
    path: &str,
    apps: &mut BTreeMap<String, AppInfo>,
) -> Result<(), BackendError> {
    let mut token: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let page = fetch_page(backend, path, token.as_deref()).await?;
        let decoded = page.apps.into_iter().filter_map(|app| serde_json::from_value::<ListedApp>(app).ok());
        let visible = decoded.filter(|app| app.visibility.as_deref() != Some("HIDDEN"));
        apps.extend(visible.map(|app| (app.id.clone(), app.into_info())));
        token = page.next_token.filter(|token| !token.is_empty());
        if token.is_none() || apps.len() > MAX_APPS {
            break;
        }
    }
    Ok(())
}

async fn fetch_page(
    backend: &ChatgptBackend,
    path: &str,
    token: Option<&str>,
) -> Result<DirectoryPage, BackendError> {
    let mut query = vec![("external_logos", "true")];
    if path == LIST_PATH {
        query.push(("tier", "categorized"));
    }
    query.extend(token.map(|token| ("token", token)));
    let request = backend.request(Method::GET, path, &query).await?;
    let bytes = read_response(send(request).await?).await?;
    serde_json::from_slice(&bytes).map_err(|error| BackendError::InvalidResponse(error.to_string()))
}

impl ListedApp {
    fn into_info(self) -> AppInfo {
        AppInfo {
            install_url: Some(install_url(&self.name, &self.id)),
            id: self.id,
            name: self.name,
            description: self.description,
            logo_url: self.logo_url,
            logo_url_dark: self.logo_url_dark,
            distribution_channel: self.distribution_channel,
            branding: self.branding.and_then(|branding| serde_json::from_value(branding).ok()),
            app_metadata: self.app_metadata.and_then(|metadata| serde_json::from_value(metadata).ok()),
            labels: self.labels,
            is_accessible: false,
            is_enabled: true,
            plugin_display_names: Vec::new(),
            icon_assets: None,
            icon_dark_assets: None,
        }
    }
}
