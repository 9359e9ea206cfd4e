//! `turn/*`.

use codicil_protocol::{
    ProtocolGeneration, TurnInterruptParams, TurnInterruptResponse, TurnSettingsUpdateParams,
    TurnSettingsUpdateResponse, TurnSettingsUpdateStatus, TurnStartParams, TurnStartResponse,
    TurnSteerParams, TurnSteerResponse,
};

use crate::{cx::Cx, error::RpcError};

/// Starts a turn. Responds as soon as the turn is accepted; its progress arrives as notifications.
pub async fn start(cx: Cx, mut params: TurnStartParams) -> Result<TurnStartResponse, RpcError> {
    if cx.generation() == ProtocolGeneration::V166 {
        // A relative path begins at the directory of the server, as in `thread/start`.
        params.cwd = params.cwd.map(|cwd| cx.cwd().join(cwd).to_string_lossy().into_owned());
    }
    let thread = cx.thread(&params.thread_id)?;
    let announced = thread.start_turn(params, cx.origin()).await?;
    Ok(TurnStartResponse { turn: cx.announce(announced) })
}

pub async fn steer(cx: Cx, params: TurnSteerParams) -> Result<TurnSteerResponse, RpcError> {
    let thread = cx.thread(&params.thread_id)?;
    Ok(TurnSteerResponse { turn_id: thread.steer(params, cx.generation()).await? })
}

/// Interrupts a turn. Responds when the turn has been stopped. Refused if another turn is running: a late request must
/// not stop the next turn.
pub async fn interrupt(cx: Cx, params: TurnInterruptParams) -> Result<TurnInterruptResponse, RpcError> {
    let announced = cx.thread(&params.thread_id)?.interrupt(params.turn_id).await?;
    cx.announce(announced);
    Ok(TurnInterruptResponse {})
}

/// Changes settings for the rest of the running turn.
pub async fn settings_update(
    cx: Cx,
    params: TurnSettingsUpdateParams,
) -> Result<TurnSettingsUpdateResponse, RpcError> {
    let thread = cx.thread(&params.thread_id)?;
    let change = TurnStartParams {
        approvals_reviewer: params.approvals_reviewer,
        model: params.model,
        effort: params.effort,
        summary: params.summary,
        service_tier: params.service_tier,
        ..TurnStartParams::new(params.thread_id, Vec::new())
    };
    let is_applied = thread.update_turn_settings(params.turn_id, change).await?;
    let status = if is_applied {
        TurnSettingsUpdateStatus::Applied
    } else {
        TurnSettingsUpdateStatus::TargetUnavailable
    };
    Ok(TurnSettingsUpdateResponse { status })
}
