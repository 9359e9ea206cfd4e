//! `thread/*`.

use codicil_protocol::{ThreadLoadedListParams, ThreadLoadedListResponse};

use crate::{cx::Cx, error::RpcError};

/// The threads in memory. Until threads can be started there are none.
pub async fn loaded_list(
    _cx: Cx,
    _params: ThreadLoadedListParams,
) -> Result<ThreadLoadedListResponse, RpcError> {
    Ok(ThreadLoadedListResponse { data: Vec::new(), next_cursor: None })
}
