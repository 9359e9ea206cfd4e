//! `model/*`, `experimentalFeature/*`, `collaborationMode/*` and the mock of the experimental gate.

use codicil_protocol::{MockExperimentalMethodParams, MockExperimentalMethodResponse};

use crate::{cx::Cx, error::RpcError};

/// Echoes. Clients use it to see whether the experimental gate is open.
pub async fn mock_experimental_method(
    _cx: Cx,
    params: MockExperimentalMethodParams,
) -> Result<MockExperimentalMethodResponse, RpcError> {
    Ok(MockExperimentalMethodResponse { echoed: params.value })
}
