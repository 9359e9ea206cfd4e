//! `model/*`, `experimentalFeature/*`, `collaborationMode/*` and the mock of the experimental gate.

use codicil_config::{ConfigQuery, EffectiveConfig, FeatureError};
use codicil_model::{ProviderConfig, WireApi};
use codicil_protocol::{
    CollaborationModeListParams, CollaborationModeListResponse, CollaborationModeMask,
    ExperimentalFeatureEnablementSetParams, ExperimentalFeatureEnablementSetResponse,
    ExperimentalFeatureListParams, ExperimentalFeatureListResponse, MockExperimentalMethodParams,
    MockExperimentalMethodResponse, ModeKind, ModelListParams, ModelListResponse, Patch, ReasoningEffort,
};

use super::config::blocking;
use crate::{cx::Cx, error::RpcError};

/// The models that speak the dialect of the configured provider.
pub async fn list(cx: Cx, params: ModelListParams) -> Result<ModelListResponse, RpcError> {
    let config = cx.config().clone();
    // A broken configuration is reported elsewhere; a list of models can do without.
    let wire_api = blocking(move || {
        Ok(config
            .load(&ConfigQuery::default())
            .map_or_else(|_| WireApi::default(), |config| dialect(&config)))
    })
    .await?;
    let mut models = cx.threads().engine().catalogue().list(wire_api);
    if !params.include_hidden.unwrap_or(false) {
        models.retain(|model| !model.hidden);
    }
    let (data, next_cursor) = page(models, params.cursor.as_deref(), params.limit, "models")?;
    Ok(ModelListResponse { data, next_cursor })
}

fn dialect(config: &EffectiveConfig) -> WireApi {
    let id = config.settings.model_provider.as_deref().unwrap_or("openai");
    let configured = config.model_providers().find(|(name, _)| *name == id);
    let configured = configured.and_then(|(_, table)| table.clone().try_into::<ProviderConfig>().ok());
    configured.or_else(|| ProviderConfig::builtin(id)).map(|provider| provider.wire_api).unwrap_or_default()
}

/// A page of a list whose cursors are positions.
pub(super) fn page<T>(
    all: Vec<T>,
    cursor: Option<&str>,
    limit: Option<u32>,
    what: &str,
) -> Result<(Vec<T>, Option<String>), RpcError> {
    let total = all.len();
    let start = match cursor {
        Some(cursor) => {
            cursor.parse().map_err(|_| RpcError::invalid_request(format_args!("invalid cursor: {cursor}")))?
        }
        None => 0,
    };
    if start > total {
        return Err(RpcError::invalid_request(format_args!("cursor {start} exceeds total {what} {total}")));
    }
    let limit = limit.map_or(total, |limit| limit.max(1) as usize);
    let data: Vec<_> = all.into_iter().skip(start).take(limit).collect();
    let end = start + data.len();
    Ok((data, (end < total).then(|| end.to_string())))
}

pub async fn experimental_feature_list(
    cx: Cx,
    params: ExperimentalFeatureListParams,
) -> Result<ExperimentalFeatureListResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.list_features(&params).map_err(RpcError::from)).await
}

pub async fn experimental_feature_enablement_set(
    cx: Cx,
    params: ExperimentalFeatureEnablementSetParams,
) -> Result<ExperimentalFeatureEnablementSetResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.set_enablement(params).map_err(RpcError::from)).await
}

impl From<FeatureError> for RpcError {
    fn from(error: FeatureError) -> Self {
        Self::invalid_request(error)
    }
}

/// The presets. Their instructions are the server's own and are not shown.
pub async fn collaboration_mode_list(
    _cx: Cx,
    _params: CollaborationModeListParams,
) -> Result<CollaborationModeListResponse, RpcError> {
    let preset = |name: &str, mode, reasoning_effort| CollaborationModeMask {
        name: name.to_owned(),
        mode: Some(mode),
        model: None,
        reasoning_effort,
    };
    let plan = preset("Plan", ModeKind::Plan, Patch::Value(ReasoningEffort::Medium));
    let default = preset("Default", ModeKind::Default, Patch::Null);
    Ok(CollaborationModeListResponse { data: vec![plan, default] })
}

/// Echoes. Clients use it to see whether the experimental gate is open.
pub async fn mock_experimental_method(
    _cx: Cx,
    params: MockExperimentalMethodParams,
) -> Result<MockExperimentalMethodResponse, RpcError> {
    Ok(MockExperimentalMethodResponse { echoed: params.value })
}
