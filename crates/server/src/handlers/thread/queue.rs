//! `thread/queue/*`.

use codicil_protocol::{
    ThreadQueueAddParams, ThreadQueueAddResponse, ThreadQueueDeleteParams, ThreadQueueDeleteResponse,
    ThreadQueueListParams, ThreadQueueListResponse, ThreadQueueReorderParams, ThreadQueueReorderResponse,
    ThreadQueueStartParams, ThreadQueueStartResponse, ThreadQueueUpdateParams, ThreadQueueUpdateResponse,
};

use crate::{cx::Cx, error::RpcError};

pub async fn add(cx: Cx, params: ThreadQueueAddParams) -> Result<ThreadQueueAddResponse, RpcError> {
    let announced = cx.threads().queue_add(params, cx.origin(), cx.key()).await?;
    Ok(ThreadQueueAddResponse { queued_submission: cx.announce(announced) })
}

pub async fn list(cx: Cx, params: ThreadQueueListParams) -> Result<ThreadQueueListResponse, RpcError> {
    Ok(cx.threads().queue_list(&params).await?)
}

pub async fn update(cx: Cx, params: ThreadQueueUpdateParams) -> Result<ThreadQueueUpdateResponse, RpcError> {
    Ok(ThreadQueueUpdateResponse { queued_submission: cx.threads().queue_update(params, cx.key()).await? })
}

pub async fn delete(cx: Cx, params: ThreadQueueDeleteParams) -> Result<ThreadQueueDeleteResponse, RpcError> {
    let ThreadQueueDeleteParams { thread_id, queued_submission_id } = params;
    let deleted = cx.threads().queue_delete(&thread_id, queued_submission_id, cx.key()).await?;
    Ok(ThreadQueueDeleteResponse { deleted })
}

pub async fn reorder(
    cx: Cx,
    params: ThreadQueueReorderParams,
) -> Result<ThreadQueueReorderResponse, RpcError> {
    cx.threads().queue_reorder(&params.thread_id, params.queued_submission_ids, cx.key()).await?;
    Ok(ThreadQueueReorderResponse {})
}

/// Answers as soon as the turn is accepted, like `turn/start`.
pub async fn start(cx: Cx, params: ThreadQueueStartParams) -> Result<ThreadQueueStartResponse, RpcError> {
    let ThreadQueueStartParams { thread_id, queued_submission_id } = params;
    let started = cx.threads().queue_start(&thread_id, queued_submission_id, cx.origin(), cx.key()).await?;
    Ok(ThreadQueueStartResponse { turn: cx.announce(started) })
}
