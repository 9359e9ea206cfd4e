//! `permissionProfile/*`.

use codicil_config::ConfigQuery;
use codicil_engine::BuiltinProfile;
use codicil_protocol::{PermissionProfileListParams, PermissionProfileListResponse};

use crate::{cx::Cx, error::RpcError};

/// The built-in profiles, and whether the rules of a directory let them be chosen.
pub async fn permission_profile_list(
    cx: Cx,
    params: PermissionProfileListParams,
) -> Result<PermissionProfileListResponse, RpcError> {
    let start = match &params.cursor {
        None => 0,
        Some(cursor) => {
            cursor.parse().map_err(|_| RpcError::invalid_request(format_args!("invalid cursor: {cursor}")))?
        }
    };
    let world = cx.threads().engine().clone();
    let cwd = params.cwd.map_or_else(|| world.cwd.clone(), |cwd| world.cwd.join(cwd));
    let query = ConfigQuery { cwd: Some(cwd), ..ConfigQuery::default() };
    let loading = tokio::task::spawn_blocking(move || world.load_config(&query));
    let config = loading.await.map_err(RpcError::internal)??;
    let limit = params.limit.map_or(usize::MAX, |limit| limit.max(1) as usize);
    let page = BuiltinProfile::ALL.iter().skip(start).take(limit);
    let data: Vec<_> = page.map(|profile| profile.summary(&config)).collect();
    let next = start.saturating_add(data.len());
    let next_cursor = (next < BuiltinProfile::ALL.len()).then(|| next.to_string());
    Ok(PermissionProfileListResponse { data, next_cursor })
}
