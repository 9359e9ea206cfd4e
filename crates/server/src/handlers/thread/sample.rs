//! `thread/sample` and `thread/sample/cancel`.

use codicil_protocol::{
    ThreadSampleCancelParams, ThreadSampleCancelResponse, ThreadSampleParams, ThreadSampleResponse,
};

use crate::{cx::Cx, error::RpcError};

/// Asks the model once. `thread/sample/cancel` or the end of the connection ends it.
pub async fn sample(cx: Cx, params: ThreadSampleParams) -> Result<ThreadSampleResponse, RpcError> {
    let running = cx.client.samples.begin(cx.request_id());
    Ok(cx.threads().sample(params, running.cancelled()).await?)
}

pub async fn cancel(
    cx: Cx,
    params: ThreadSampleCancelParams,
) -> Result<ThreadSampleCancelResponse, RpcError> {
    cx.client.samples.cancel(&params.request_id);
    Ok(ThreadSampleCancelResponse {})
}
