//! `windowsSandbox/*`.

use codicil_protocol::{
    NoParams, WindowsSandboxReadiness, WindowsSandboxReadinessResponse, WindowsSandboxSetupCompleted,
    WindowsSandboxSetupCompletedNotification, WindowsSandboxSetupMode, WindowsSandboxSetupStartParams,
    WindowsSandboxSetupStartResponse,
};

use crate::{cx::Cx, error::RpcError};

/// Reports a failed setup: this server does not run on Windows.
pub async fn setup_start(
    cx: Cx,
    params: WindowsSandboxSetupStartParams,
) -> Result<WindowsSandboxSetupStartResponse, RpcError> {
    let kind = match params.mode {
        WindowsSandboxSetupMode::Unelevated => "legacy",
        _ => "elevated",
    };
    let error = format!("{kind} Windows sandbox setup is only supported on Windows");
    cx.notify_after_response::<WindowsSandboxSetupCompleted>(WindowsSandboxSetupCompletedNotification {
        mode: params.mode,
        success: false,
        error: Some(error),
    });
    Ok(WindowsSandboxSetupStartResponse { started: true })
}

/// Reports that there is no Windows sandbox here.
pub async fn readiness(_cx: Cx, _params: NoParams) -> Result<WindowsSandboxReadinessResponse, RpcError> {
    Ok(WindowsSandboxReadinessResponse { status: WindowsSandboxReadiness::NotConfigured })
}
