//! `model/*`.

use codicil_config::{ConfigQuery, EffectiveConfig};
use codicil_model::{ProviderConfig, WireApi};
use codicil_protocol::{ModelListParams, ModelListResponse};

use crate::{background::blocking, cx::Cx, error::RpcError, paging::ListPage};

/// Lists the models that the API of the configured provider serves.
pub async fn list(cx: Cx, params: ModelListParams) -> Result<ModelListResponse, RpcError> {
    let config = cx.config().clone();
    let config = blocking(move || Ok::<_, RpcError>(config.load(&ConfigQuery::default()))).await?;
    // An unusable configuration is reported elsewhere; models are still listed.
    let wire_api = config.map_or_else(|_| WireApi::default(), |config| configured_api(&config));
    let mut models = cx.threads().engine().catalogue().list(wire_api);
    if !params.include_hidden.unwrap_or(false) {
        models.retain(|model| !model.hidden);
    }
    let page = ListPage::new(models, params.cursor.as_deref(), params.limit, "models")?;
    Ok(ModelListResponse { data: page.data, next_cursor: page.next_cursor })
}

fn configured_api(config: &EffectiveConfig) -> WireApi {
    let id = config.settings.model_provider.as_deref().unwrap_or("openai");
    let configured = config.model_providers().find(|(name, _)| *name == id);
    let configured = configured.and_then(|(_, table)| table.clone().try_into::<ProviderConfig>().ok());
    configured.or_else(|| ProviderConfig::builtin(id)).map(|provider| provider.wire_api).unwrap_or_default()
}
