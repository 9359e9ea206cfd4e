//! `permissionProfile/*`.

use codicil_protocol::{PermissionProfileListParams, PermissionProfileListResponse};

use crate::{cx::Cx, error::RpcError};

/// There are no named profiles: sandbox policies say the same, and clients of later generations ask
/// before anything else.
pub async fn permission_profile_list(
    _cx: Cx,
    _params: PermissionProfileListParams,
) -> Result<PermissionProfileListResponse, RpcError> {
    Ok(PermissionProfileListResponse { data: Vec::new(), next_cursor: None })
}
