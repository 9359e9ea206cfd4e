//! `thread/backgroundTerminals/*`.

use codicil_protocol::{
    ThreadBackgroundTerminalsCleanParams, ThreadBackgroundTerminalsCleanResponse,
    ThreadBackgroundTerminalsListParams, ThreadBackgroundTerminalsListResponse,
    ThreadBackgroundTerminalsTerminateParams, ThreadBackgroundTerminalsTerminateResponse,
};

use crate::{cx::Cx, error::RpcError};

pub async fn list(
    cx: Cx,
    params: ThreadBackgroundTerminalsListParams,
) -> Result<ThreadBackgroundTerminalsListResponse, RpcError> {
    let data = cx.threads().get(&params.thread_id)?.terminals().await?;
    Ok(ThreadBackgroundTerminalsListResponse { data, next_cursor: None })
}

pub async fn terminate(
    cx: Cx,
    params: ThreadBackgroundTerminalsTerminateParams,
) -> Result<ThreadBackgroundTerminalsTerminateResponse, RpcError> {
    let terminated = cx.threads().get(&params.thread_id)?.end_terminal(params.process_id).await?;
    Ok(ThreadBackgroundTerminalsTerminateResponse { terminated })
}

pub async fn clean(
    cx: Cx,
    params: ThreadBackgroundTerminalsCleanParams,
) -> Result<ThreadBackgroundTerminalsCleanResponse, RpcError> {
    cx.threads().get(&params.thread_id)?.clean_terminals().await?;
    Ok(ThreadBackgroundTerminalsCleanResponse {})
}
