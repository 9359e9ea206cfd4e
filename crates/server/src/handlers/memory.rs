//! `memory/*`: memories across threads. This server makes none, so there is nothing to wait for and nothing to remove.

use codicil_protocol::{MemoryResetResponse, MemoryStatusParams, MemoryStatusResponse, NoParams};

use crate::{cx::Cx, error::RpcError};

pub async fn status(_cx: Cx, params: MemoryStatusParams) -> Result<MemoryStatusResponse, RpcError> {
    if params.min_consolidated_threads.is_some_and(|count| !(1..=MAX_CONSOLIDATED_THREADS).contains(&count)) {
        return Err(MemoryError::ThreadCount.into());
    }
    Ok(MemoryStatusResponse { v2_consolidated_threads: 0, v2_ready: true })
}

/// Why memories cannot be asked for.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    #[error("minConsolidatedThreads must be between 1 and {MAX_CONSOLIDATED_THREADS}")]
    ThreadCount,
}

/// The largest number of threads that a client can wait for.
const MAX_CONSOLIDATED_THREADS: u32 = 4096;

pub async fn reset(_cx: Cx, _params: NoParams) -> Result<MemoryResetResponse, RpcError> {
    Ok(MemoryResetResponse {})
}
