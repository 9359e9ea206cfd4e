//! `remoteControl/*`: control of this server from other devices, which needs a service of the account. It is always off.

use codicil_protocol::{
    NoParams, RemoteControlClientsListParams, RemoteControlClientsListResponse,
    RemoteControlClientsRevokeParams, RemoteControlClientsRevokeResponse, RemoteControlConnectionStatus,
    RemoteControlDisableParams, RemoteControlDisableResponse, RemoteControlEnableParams,
    RemoteControlEnableResponse, RemoteControlPairingStartParams, RemoteControlPairingStartResponse,
    RemoteControlPairingStatusParams, RemoteControlPairingStatusResponse, RemoteControlStatusReadResponse,
};
use uuid::Uuid;

use crate::{background::blocking, cx::Cx, error::RpcError, refusals::ServiceRefusal};

/// The file with the id of this installation.
const INSTALLATION_FILE: &str = "installation_id";

pub async fn status_read(cx: Cx, _params: NoParams) -> Result<RemoteControlStatusReadResponse, RpcError> {
    let home = cx.home().to_owned();
    let installation_id = blocking(move || Ok::<_, RpcError>(installation_id(&home))).await?;
    Ok(RemoteControlStatusReadResponse {
        status: RemoteControlConnectionStatus::Disabled,
        server_name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
        installation_id,
        environment_id: None,
    })
}

/// Returns the id of this installation, which is chosen once. A home that cannot be written gets a new one each time.
fn installation_id(home: &std::path::Path) -> String {
    let path = home.join(INSTALLATION_FILE);
    let stored = std::fs::read_to_string(&path).ok().and_then(|text| Uuid::try_parse(text.trim()).ok());
    let id = stored.unwrap_or_else(Uuid::now_v7).to_string();
    if stored.is_none()
        && let Err(error) = codicil_config::replace_private(&path, id.as_bytes())
    {
        tracing::warn!("cannot store the installation id: {error}");
    }
    id
}

pub async fn enable(
    cx: Cx,
    _params: RemoteControlEnableParams,
) -> Result<RemoteControlEnableResponse, RpcError> {
    Err(ServiceRefusal::remote_control(&cx, "remoteControl/enable").await.into())
}

pub async fn disable(
    cx: Cx,
    _params: RemoteControlDisableParams,
) -> Result<RemoteControlDisableResponse, RpcError> {
    Err(ServiceRefusal::remote_control(&cx, "remoteControl/disable").await.into())
}

pub async fn pairing_start(
    _cx: Cx,
    _params: RemoteControlPairingStartParams,
) -> Result<RemoteControlPairingStartResponse, RpcError> {
    Err(ServiceRefusal::RemoteControlDisabled.into())
}

pub async fn pairing_status(
    _cx: Cx,
    params: RemoteControlPairingStatusParams,
) -> Result<RemoteControlPairingStatusResponse, RpcError> {
    if params.pairing_code.is_none() && params.manual_pairing_code.is_none() {
        return Err(ServiceRefusal::NoPairingCode.into());
    }
    Err(ServiceRefusal::RemoteControlDisabled.into())
}

pub async fn client_list(
    cx: Cx,
    _params: RemoteControlClientsListParams,
) -> Result<RemoteControlClientsListResponse, RpcError> {
    Err(ServiceRefusal::remote_control(&cx, "remoteControl/client/list").await.into())
}

pub async fn client_revoke(
    cx: Cx,
    _params: RemoteControlClientsRevokeParams,
) -> Result<RemoteControlClientsRevokeResponse, RpcError> {
    Err(ServiceRefusal::remote_control(&cx, "remoteControl/client/revoke").await.into())
}
