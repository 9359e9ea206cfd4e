//! `environment/*`: the places where commands run. There is one, this machine.

use codicil_protocol::{
    EnvironmentAddParams, EnvironmentAddResponse, EnvironmentInfoParams, EnvironmentInfoResponse,
    EnvironmentShellInfo, EnvironmentStatusKind, EnvironmentStatusParams, EnvironmentStatusResponse, PathUri,
};
use reqwest::Url;

use crate::{cx::Cx, error::RpcError};

/// The id of this machine.
const LOCAL: &str = "local";

/// Why an environment is not added or described. The texts are the reference server's, except the last.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    #[error("unknown environment id `{0}`")]
    Unknown(String),
    #[error("exec-server protocol error: environment id cannot be empty")]
    EmptyId,
    #[error("exec-server protocol error: environment id `{LOCAL}` is reserved for EnvironmentManager")]
    ReservedId,
    #[error("exec-server protocol error: remote environment requires an exec-server url")]
    EmptyUrl,
    #[error("remote environments are not supported by this server; commands run in `{LOCAL}`")]
    Remote,
}

/// Refuses to add an environment: commands of this server run on its own machine.
pub async fn add(_cx: Cx, params: EnvironmentAddParams) -> Result<EnvironmentAddResponse, RpcError> {
    let refusal = match (params.environment_id.trim(), params.exec_server_url.trim()) {
        ("", _) => EnvironmentError::EmptyId,
        (LOCAL, _) => EnvironmentError::ReservedId,
        (_, "") => EnvironmentError::EmptyUrl,
        _ => EnvironmentError::Remote,
    };
    Err(refusal.into())
}

pub async fn info(cx: Cx, params: EnvironmentInfoParams) -> Result<EnvironmentInfoResponse, RpcError> {
    if params.environment_id != LOCAL {
        return Err(EnvironmentError::Unknown(params.environment_id).into());
    }
    let shell = cx.threads().engine().shell().await;
    let name = shell.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(EnvironmentInfoResponse {
        shell: EnvironmentShellInfo { name, path: shell.path().to_string_lossy().into_owned() },
        cwd: Url::from_file_path(cx.cwd()).ok().map(|url| PathUri(url.into())),
    })
}

pub async fn status(_cx: Cx, params: EnvironmentStatusParams) -> Result<EnvironmentStatusResponse, RpcError> {
    if params.environment_id == LOCAL {
        return Ok(EnvironmentStatusResponse { status: EnvironmentStatusKind::Ready, error: None });
    }
    let error = EnvironmentError::Unknown(params.environment_id).to_string();
    Ok(EnvironmentStatusResponse { status: EnvironmentStatusKind::Unknown, error: Some(error) })
}
