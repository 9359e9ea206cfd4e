//! `experimentalFeature/*`.

use codicil_protocol::{
    ExperimentalFeatureEnablementSetParams, ExperimentalFeatureEnablementSetResponse,
    ExperimentalFeatureListParams, ExperimentalFeatureListResponse,
};

use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn list(
    cx: Cx,
    params: ExperimentalFeatureListParams,
) -> Result<ExperimentalFeatureListResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.list_features(&params)).await
}

pub async fn enablement_set(
    cx: Cx,
    params: ExperimentalFeatureEnablementSetParams,
) -> Result<ExperimentalFeatureEnablementSetResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.set_enablement(params)).await
}
