//! `thread/readState/*`.

use codicil_protocol::{ThreadReadStateUpdateParams, ThreadReadStateUpdateResponse};

use crate::{cx::Cx, error::RpcError};

pub async fn update(
    cx: Cx,
    params: ThreadReadStateUpdateParams,
) -> Result<ThreadReadStateUpdateResponse, RpcError> {
    Ok(ThreadReadStateUpdateResponse { read_state: cx.threads().update_read_state(params).await? })
}
