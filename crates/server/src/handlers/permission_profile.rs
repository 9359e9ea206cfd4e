//! `permissionProfile/*`.

use codicil_config::ConfigQuery;
use codicil_engine::ThreadProfile;
use codicil_protocol::{PermissionProfileListParams, PermissionProfileListResponse};

use crate::{
    background::blocking,
    cx::Cx,
    error::RpcError,
    paging::{ListPage, parse_cursor},
};

/// Lists the profiles that are built in and those of the configuration, and whether a directory can use them.
pub async fn list(
    cx: Cx,
    params: PermissionProfileListParams,
) -> Result<PermissionProfileListResponse, RpcError> {
    let start = parse_cursor(params.cursor.as_deref())?.unwrap_or(0);
    let engine = cx.threads().engine().clone();
    let cwd = params.cwd.map_or_else(|| engine.cwd.clone(), |cwd| engine.cwd.join(cwd));
    let config = blocking(move || engine.load_config(&ConfigQuery::at(&cwd))).await?;
    let ListPage { data, next_cursor } =
        ListPage::starting_at(start, ThreadProfile::list(&config), params.limit);
    Ok(PermissionProfileListResponse { data, next_cursor })
}
