//! `rollout/*`: the files of the reference server, which compresses old ones. This server writes none.

use codicil_protocol::{NoParams, RolloutCompressResponse};

use crate::{cx::Cx, error::RpcError};

pub async fn compress(_cx: Cx, _params: NoParams) -> Result<RolloutCompressResponse, RpcError> {
    Ok(RolloutCompressResponse {})
}
