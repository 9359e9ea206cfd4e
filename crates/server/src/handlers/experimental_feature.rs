//! `experimentalFeature/*`.

use codicil_config::{ConfigQuery, Feature};
use codicil_engine::IncludeTurns;
use codicil_protocol::{
    ExperimentalFeatureEnablementSetParams, ExperimentalFeatureEnablementSetResponse,
    ExperimentalFeatureListParams, ExperimentalFeatureListResponse, ProtocolGeneration,
};

use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn list(
    cx: Cx,
    params: ExperimentalFeatureListParams,
) -> Result<ExperimentalFeatureListResponse, RpcError> {
    let config = cx.config().clone();
    let Some(thread) = &params.thread_id else {
        return blocking(move || config.list_features(&params)).await;
    };
    let cwd = cx.threads().read(thread, IncludeTurns::LeftOut).await?.thread.cwd;
    let effective = blocking(move || config.load(&ConfigQuery::at(&cwd))).await?;
    Ok(effective.features.list(&params)?)
}

pub async fn enablement_set(
    cx: Cx,
    mut params: ExperimentalFeatureEnablementSetParams,
) -> Result<ExperimentalFeatureEnablementSetResponse, RpcError> {
    // Before 0.166, unknown features are refused.
    if cx.generation() == ProtocolGeneration::V166 {
        params.enablement.retain(|name, _| Feature::named(name).is_some());
    }
    let config = cx.config().clone();
    blocking(move || config.set_enablement(params)).await
}
