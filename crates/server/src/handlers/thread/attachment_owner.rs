//! `thread/attachmentOwner/*`.

use codicil_protocol::{ThreadAttachmentOwnerListParams, ThreadAttachmentOwnerListResponse};

use crate::{cx::Cx, error::RpcError};

pub async fn list(
    cx: Cx,
    params: ThreadAttachmentOwnerListParams,
) -> Result<ThreadAttachmentOwnerListResponse, RpcError> {
    Ok(cx.threads().attachment_owners(params).await?)
}
