//! `app/*`.

use codicil_engine::ThreadClients;
use codicil_extensions::RefetchApps;
use codicil_protocol::{
    AppInfo, AppListUpdated, AppListUpdatedNotification, AppsListParams, AppsListResponse,
};

use super::models::page;
use crate::{cx::Cx, error::RpcError};

/// Answers when both sources have been asked; everybody hears of each as it comes.
pub async fn list(cx: Cx, params: AppsListParams) -> Result<AppsListResponse, RpcError> {
    let apps = &cx.threads().engine().extensions.apps;
    let config = match &params.thread_id {
        Some(thread) => Some(cx.threads().get(thread)?.snapshot().await?.config),
        None => apps.global_config().await.map(Into::into),
    };
    let refetch =
        if params.force_refetch == Some(true) { RefetchApps::Always } else { RefetchApps::IfNeeded };
    let audience: &dyn ThreadClients = cx.clients();
    let updated = |data: Vec<AppInfo>| {
        audience.broadcast::<AppListUpdated>(&AppListUpdatedNotification { data });
    };
    let all = match &config {
        Some(config) => apps.list(config, refetch, updated).await,
        None => None,
    };
    // Where there are no apps there are no pages either, whatever the cursor says.
    let Some(all) = all else { return Ok(AppsListResponse { data: Vec::new(), next_cursor: None }) };
    let (data, next_cursor) = page(all, params.cursor.as_deref(), params.limit, "apps")?;
    Ok(AppsListResponse { data, next_cursor })
}
