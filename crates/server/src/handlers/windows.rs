//! `windowsSandbox/*`.

use codicil_protocol::{
    Frame, WindowsSandboxSetupCompleted, WindowsSandboxSetupCompletedNotification, WindowsSandboxSetupMode,
    WindowsSandboxSetupStartParams, WindowsSandboxSetupStartResponse,
};

use crate::{cx::Cx, error::RpcError};

/// There is nothing to set up: this server does not run on Windows. It says so in the way in which a setup
/// would end.
pub async fn setup_start(
    cx: Cx,
    params: WindowsSandboxSetupStartParams,
) -> Result<WindowsSandboxSetupStartResponse, RpcError> {
    let kind = match params.mode {
        WindowsSandboxSetupMode::Unelevated => "legacy",
        _ => "elevated",
    };
    let error = format!("{kind} Windows sandbox setup is only supported on Windows");
    let ended =
        WindowsSandboxSetupCompletedNotification { mode: params.mode, success: false, error: Some(error) };
    let client = cx.client.clone();
    cx.after_answer(move || client.notify(&Frame::notification::<WindowsSandboxSetupCompleted>(&ended)));
    Ok(WindowsSandboxSetupStartResponse { started: true })
}
