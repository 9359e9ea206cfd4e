//! `thread/attachment/*`.

use codicil_protocol::{
    ThreadAttachmentAddParams, ThreadAttachmentAddResponse, ThreadAttachmentListParams,
    ThreadAttachmentListResponse, ThreadAttachmentRemoveParams, ThreadAttachmentRemoveResponse,
};

use crate::{cx::Cx, error::RpcError};

pub async fn add(cx: Cx, params: ThreadAttachmentAddParams) -> Result<ThreadAttachmentAddResponse, RpcError> {
    Ok(cx.threads().add_attachment(params).await?)
}

pub async fn list(
    cx: Cx,
    params: ThreadAttachmentListParams,
) -> Result<ThreadAttachmentListResponse, RpcError> {
    Ok(cx.threads().list_attachments(&params).await?)
}

pub async fn remove(
    cx: Cx,
    params: ThreadAttachmentRemoveParams,
) -> Result<ThreadAttachmentRemoveResponse, RpcError> {
    cx.threads().remove_attachment(params).await?;
    Ok(ThreadAttachmentRemoveResponse {})
}
