//! `thread/section/*`.

use codicil_protocol::{ThreadSectionMoveParams, ThreadSectionMoveResponse};

use crate::{cx::Cx, error::RpcError};

pub async fn r#move(cx: Cx, params: ThreadSectionMoveParams) -> Result<ThreadSectionMoveResponse, RpcError> {
    cx.threads().move_to_section(params).await?;
    Ok(ThreadSectionMoveResponse {})
}
