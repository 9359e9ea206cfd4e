//! `model/*`.

use codicil_config::{ConfigQuery, EffectiveConfig, Feature};
use codicil_engine::provider_config;
use codicil_model::WireApi;
use codicil_protocol::{ConfigWarning, ConfigWarningNotification, Model, ModelListParams, ModelListResponse};

use crate::{background::blocking, cx::Cx, error::RpcError, paging::ListPage};

/// Lists the models of the configured provider: those that its server reports, or those of the catalogue for a vendor's
/// own service.
pub async fn list(cx: Cx, params: ModelListParams) -> Result<ModelListResponse, RpcError> {
    let config = cx.config().clone();
    let config = blocking(move || Ok::<_, RpcError>(config.load(&ConfigQuery::default()))).await?;
    let mut models = match &config {
        Ok(config) => {
            let listed = configured_models(&cx, config).await;
            // Clients ask for every page; one warning is enough.
            if let Some(warning) = listed.warning.filter(|_| params.cursor.is_none()) {
                cx.notify_after_response::<ConfigWarning>(warning);
            }
            listed.models
        }
        // An unusable configuration is reported elsewhere; models are still listed.
        Err(_) => cx.threads().engine().catalogue().list(WireApi::default()),
    };
    if !params.include_hidden.unwrap_or(false) {
        models.retain(|model| !model.hidden);
    }
    let page = ListPage::new(models, params.cursor.as_deref(), params.limit, "models")?;
    Ok(ModelListResponse { data: page.data, next_cursor: page.next_cursor })
}

/// The models of a provider, and why they may be the wrong ones.
struct ListedModels {
    models: Vec<Model>,
    warning: Option<ConfigWarningNotification>,
}

async fn configured_models(cx: &Cx, config: &EffectiveConfig) -> ListedModels {
    let mut listed = provider_models(cx, config).await;
    if !config.features.enabled(Feature::Personality) {
        listed.models.iter_mut().for_each(|model| model.supports_personality = false);
    }
    listed
}

async fn provider_models(cx: &Cx, config: &EffectiveConfig) -> ListedModels {
    let engine = cx.threads().engine();
    let catalogue = engine.catalogue();
    let id = config.settings.model_provider.as_deref().unwrap_or("openai");
    let chosen = config.settings.model.as_deref();
    let wire_api = provider_config(id, config).map(|provider| provider.wire_api).unwrap_or_default();
    let Some(served) = engine.served_models(id, config).ok().flatten() else {
        return ListedModels { models: catalogue.list(wire_api), warning: None };
    };
    let reason = match served.list().await {
        Ok(names) if !names.is_empty() => {
            return ListedModels { models: catalogue.describe_served(&names, chosen), warning: None };
        }
        Ok(_) => "its list is empty".to_owned(),
        Err(error) => error.to_string(),
    };
    let warning = ConfigWarningNotification {
        summary: format!("cannot list the models of provider `{id}`: the built-in list is shown"),
        details: Some(format!("{reason}. Any model that the provider serves can be set as `model`.")),
        path: None,
        range: None,
    };
    ListedModels { models: catalogue.list_with(wire_api, chosen), warning: Some(warning) }
}
