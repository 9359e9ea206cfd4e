//! `collaborationMode/*`.

use codicil_protocol::{
    CollaborationModeListParams, CollaborationModeListResponse, CollaborationModeMask, ModeKind, Patch,
    ReasoningEffort,
};

use crate::{cx::Cx, error::RpcError};

/// Lists the presets. Their instructions are internal and not part of the response.
pub async fn list(
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
