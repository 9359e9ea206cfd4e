//! `app/*`.

use std::collections::HashSet;

use codicil_engine::ThreadClients;
use codicil_extensions::{RefetchApps, app_slug};
use codicil_protocol::{
    AppInfo, AppListUpdated, AppListUpdatedNotification, AppsInstalledParams, AppsInstalledResponse,
    AppsListParams, AppsListResponse, AppsReadParams, AppsReadResponse, ConnectorMetadata, InstalledApp,
    ThreadId,
};

use crate::{cx::Cx, error::RpcError, paging::ListPage};

/// Why apps cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AppsReadError {
    #[error("app/read accepts at most {MAX_READ_APPS} appIds")]
    TooMany,
}

/// The apps that one request describes at most.
const MAX_READ_APPS: usize = 100;

pub async fn list(cx: Cx, params: AppsListParams) -> Result<AppsListResponse, RpcError> {
    let refetch =
        if params.force_refetch == Some(true) { RefetchApps::Always } else { RefetchApps::IfNeeded };
    let listed = known_apps(&cx, params.thread_id.as_ref(), refetch).await?;
    // Without apps every cursor is accepted.
    let Some(listed) = listed else {
        return Ok(AppsListResponse { data: Vec::new(), next_cursor: None });
    };
    let page = ListPage::new(listed, params.cursor.as_deref(), params.limit, "apps")?;
    Ok(AppsListResponse { data: page.data, next_cursor: page.next_cursor })
}

/// Lists the apps that the account can use.
pub async fn installed(cx: Cx, params: AppsInstalledParams) -> Result<AppsInstalledResponse, RpcError> {
    let refetch = if params.force_refresh { RefetchApps::Always } else { RefetchApps::IfNeeded };
    let known = known_apps(&cx, params.thread_id.as_ref(), refetch).await?.unwrap_or_default();
    let usable = known.into_iter().filter(|app| app.is_accessible);
    let apps = usable.map(|app| InstalledApp {
        callable: app.is_enabled,
        enabled: app.is_enabled,
        runtime_name: Some(app_slug(&app.name)),
        id: app.id,
    });
    Ok(AppsInstalledResponse { apps: apps.collect() })
}

/// Describes apps by their ids. Summaries of their tools are not part of what the account's directory tells.
pub async fn read(cx: Cx, params: AppsReadParams) -> Result<AppsReadResponse, RpcError> {
    if params.app_ids.len() > MAX_READ_APPS {
        return Err(AppsReadError::TooMany.into());
    }
    let known = known_apps(&cx, params.thread_id.as_ref(), RefetchApps::IfNeeded).await?.unwrap_or_default();
    let mut described = AppsReadResponse { apps: Vec::new(), missing_app_ids: Vec::new() };
    let mut ids = HashSet::new();
    for id in params.app_ids.into_iter().filter(|id| ids.insert(id.clone())) {
        match known.iter().find(|app| app.id == id) {
            Some(app) => described.apps.push(connector(app)),
            None => described.missing_app_ids.push(id),
        }
    }
    Ok(described)
}

fn connector(app: &AppInfo) -> ConnectorMetadata {
    ConnectorMetadata {
        id: app.id.clone(),
        name: app.name.clone(),
        description: app.description.clone(),
        distribution_channel: app.distribution_channel.clone(),
        icon_url: app.logo_url.clone(),
        icon_url_dark: app.logo_url_dark.clone(),
        install_url: app.install_url.clone(),
        plugin_display_names: app.plugin_display_names.clone(),
        tool_summaries: None,
    }
}

/// Returns the apps of both sources, for a thread's configuration or for the server's. `None` without an account. Every
/// client is notified as each source answers.
async fn known_apps(
    cx: &Cx,
    thread: Option<&ThreadId>,
    refetch: RefetchApps,
) -> Result<Option<Vec<AppInfo>>, RpcError> {
    let apps = &cx.threads().engine().extensions.apps;
    let config = match thread {
        Some(thread) => Some(cx.threads().get(thread)?.snapshot().await?.config),
        None => apps.global_config().await.map(Into::into),
    };
    let clients: &dyn ThreadClients = cx.clients();
    let notify_updated = |data: Vec<AppInfo>| {
        clients.broadcast::<AppListUpdated>(&AppListUpdatedNotification { data });
    };
    match &config {
        Some(config) => Ok(apps.list(config, refetch, notify_updated).await),
        None => Ok(None),
    }
}
