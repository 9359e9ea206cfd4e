//! `configRequirements/*`.

use codicil_protocol::{ConfigRequirementsReadResponse, NoParams};

use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn read(cx: Cx, _params: NoParams) -> Result<ConfigRequirementsReadResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.read_requirements()).await
}
