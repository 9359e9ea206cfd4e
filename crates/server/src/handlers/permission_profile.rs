//! `permissionProfile/*`.

use codicil_config::ConfigQuery;
use codicil_engine::ThreadProfile;
use codicil_protocol::{PermissionProfileListParams, PermissionProfileListResponse};

use crate::{background::blocking, cx::Cx, error::RpcError, paging::ListPage};

/// Lists the profiles that are built in and those of the configuration, and whether a directory can use them.
pub async fn list(
    cx: Cx,
    params: PermissionProfileListParams,
) -> Result<PermissionProfileListResponse, RpcError> {
    let cursor = params.cursor;
    let engine = cx.threads().engine().clone();
    let cwd = params.cwd.map_or_else(|| engine.cwd.clone(), |cwd| engine.cwd.join(cwd));
    let config = blocking(move || engine.load_config(&ConfigQuery::at(&cwd))).await?;
    let profiles = ThreadProfile::list(&config);
    let ListPage { data, next_cursor } =
        ListPage::new(profiles, cursor.as_deref(), params.limit, "permission profiles")?;
    Ok(PermissionProfileListResponse { data, next_cursor })
}
