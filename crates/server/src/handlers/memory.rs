//! `memory/*`: memories across threads. This server makes none, so there is nothing to wait for and nothing to remove.

use codicil_protocol::{MemoryResetResponse, MemoryStatusParams, MemoryStatusResponse, NoParams};

use crate::{cx::Cx, error::RpcError};

pub async fn status(_cx: Cx, _params: MemoryStatusParams) -> Result<MemoryStatusResponse, RpcError> {
    Ok(MemoryStatusResponse { v2_consolidated_threads: 0, v2_ready: true })
}

pub async fn reset(_cx: Cx, _params: NoParams) -> Result<MemoryResetResponse, RpcError> {
    Ok(MemoryResetResponse {})
}
