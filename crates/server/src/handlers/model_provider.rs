//! `modelProvider/*`.

use codicil_config::ConfigQuery;
use codicil_engine::provider_config;
use codicil_model::WireApi;
use codicil_protocol::{ModelProviderCapabilitiesReadParams, ModelProviderCapabilitiesReadResponse};

use crate::{background::blocking, cx::Cx, error::RpcError};

/// Returns which tools the configured provider can run itself: those of the Responses API. Other dialects have no form for
/// them here. An unusable configuration is reported when a thread starts; it has no such tools.
pub async fn capabilities_read(
    cx: Cx,
    _params: ModelProviderCapabilitiesReadParams,
) -> Result<ModelProviderCapabilitiesReadResponse, RpcError> {
    let engine = cx.threads().engine().clone();
    let has_hosted_tools = blocking(move || {
        let config = engine.config.load(&ConfigQuery::at(&engine.cwd))?;
        let provider = provider_config(&engine.provider_id(&config), &config);
        Ok::<_, RpcError>(
            provider
                .is_ok_and(|provider| matches!(provider.wire_api, WireApi::Responses | WireApi::Scripted)),
        )
    })
    .await?;
    Ok(ModelProviderCapabilitiesReadResponse {
        image_generation: has_hosted_tools,
        web_search: has_hosted_tools,
    })
}
