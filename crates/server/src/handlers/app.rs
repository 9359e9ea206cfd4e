//! `app/*`.

use codicil_engine::ThreadClients;
use codicil_extensions::RefetchApps;
use codicil_protocol::{
    AppInfo, AppListUpdated, AppListUpdatedNotification, AppsListParams, AppsListResponse,
};

use crate::{cx::Cx, error::RpcError, paging::ListPage};

/// Lists the apps of both sources. Every client is notified as each source answers.
pub async fn list(cx: Cx, params: AppsListParams) -> Result<AppsListResponse, RpcError> {
    let apps = &cx.threads().engine().extensions.apps;
    let config = match &params.thread_id {
        Some(thread) => Some(cx.threads().get(thread)?.snapshot().await?.config),
        None => apps.global_config().await.map(Into::into),
    };
    let refetch =
        if params.force_refetch == Some(true) { RefetchApps::Always } else { RefetchApps::IfNeeded };
    let clients: &dyn ThreadClients = cx.clients();
    let notify_updated = |data: Vec<AppInfo>| {
        clients.broadcast::<AppListUpdated>(&AppListUpdatedNotification { data });
    };
    let listed = match &config {
        Some(config) => apps.list(config, refetch, notify_updated).await,
        None => None,
    };
    // Without apps every cursor is accepted.
    let Some(listed) = listed else {
        return Ok(AppsListResponse { data: Vec::new(), next_cursor: None });
    };
    let page = ListPage::new(listed, params.cursor.as_deref(), params.limit, "apps")?;
    Ok(AppsListResponse { data: page.data, next_cursor: page.next_cursor })
}
