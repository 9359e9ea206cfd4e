//! `mock/*`.

use codicil_protocol::{MockExperimentalMethodParams, MockExperimentalMethodResponse};

use crate::{cx::Cx, error::RpcError};

/// Echoes its value. Clients call it to find out whether they may use experimental methods.
pub async fn experimental_method(
    _cx: Cx,
    params: MockExperimentalMethodParams,
) -> Result<MockExperimentalMethodResponse, RpcError> {
    Ok(MockExperimentalMethodResponse { echoed: params.value })
}
