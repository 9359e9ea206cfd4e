//! `collaborationMode/*`.

use codicil_config::ConfigQuery;
use codicil_protocol::{
    CollaborationModeListParams, CollaborationModeListResponse, CollaborationModeMask, ModeKind, Patch,
    ReasoningEffort,
};

use crate::{background::blocking, cx::Cx, error::RpcError};

/// Lists the presets. Their instructions are internal and not part of the response.
pub async fn list(
    cx: Cx,
    _params: CollaborationModeListParams,
) -> Result<CollaborationModeListResponse, RpcError> {
    let config = cx.config().clone();
    let config = blocking(move || Ok::<_, RpcError>(config.load(&ConfigQuery::default()))).await?;
    // An unusable configuration is reported elsewhere.
    let effort = config.ok().and_then(|config| config.settings.plan_mode_reasoning_effort);
    let preset = |name: &str, mode, reasoning_effort| CollaborationModeMask {
        name: name.to_owned(),
        mode: Some(mode),
        model: None,
        reasoning_effort,
    };
    let plan = preset("Plan", ModeKind::Plan, Patch::Value(effort.unwrap_or(ReasoningEffort::Medium)));
    let default = preset("Default", ModeKind::Default, Patch::Null);
    Ok(CollaborationModeListResponse { data: vec![plan, default] })
}
