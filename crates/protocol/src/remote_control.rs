//! Remote control of this server from other devices, through a service of OpenAI: `remoteControl/*`. This server does not
//! take part in it.

use crate::wire;

/// Connects to the service.
#[wire]
#[derive(Default)]
pub struct RemoteControlEnableParams {
    /// Until the server exits only.
    #[serde(default)]
    pub ephemeral: bool,
}

/// The state of the connection.
#[wire]
pub struct RemoteControlEnableResponse {
    pub installation_id: String,
    pub server_name: String,
    pub status: RemoteControlConnectionStatus,
    pub environment_id: Option<String>,
}

/// Disconnects from the service.
#[wire]
#[derive(Default)]
pub struct RemoteControlDisableParams {
    /// Until the server exits only.
    #[serde(default)]
    pub ephemeral: bool,
}

/// The state of the connection.
#[wire]
pub struct RemoteControlDisableResponse {
    pub installation_id: String,
    pub server_name: String,
    pub status: RemoteControlConnectionStatus,
    pub environment_id: Option<String>,
}

/// The state of the connection and the names of this server.
#[wire]
pub struct RemoteControlStatusReadResponse {
    pub installation_id: String,
    pub server_name: String,
    pub status: RemoteControlConnectionStatus,
    pub environment_id: Option<String>,
}

/// The state of the connection to the service.
#[wire(open)]
#[derive(Eq)]
pub enum RemoteControlConnectionStatus {
    Disabled,
    Connecting,
    Connected,
    Errored,
}

/// Starts pairing a device.
#[wire]
#[derive(Default)]
pub struct RemoteControlPairingStartParams {
    /// Also returns a code that a user can type.
    #[serde(default)]
    pub manual_code: bool,
}

/// The codes for pairing.
#[wire]
pub struct RemoteControlPairingStartResponse {
    pub environment_id: String,
    /// Unix seconds.
    pub expires_at: i64,
    pub pairing_code: String,
    pub manual_pairing_code: Option<String>,
}

/// Returns whether a device has used a pairing code.
#[wire(sparse)]
#[derive(Default)]
pub struct RemoteControlPairingStatusParams {
    pub manual_pairing_code: Option<String>,
    pub pairing_code: Option<String>,
}

/// Whether a device has used the code.
#[wire]
pub struct RemoteControlPairingStatusResponse {
    pub claimed: bool,
}

/// Lists the paired devices.
#[wire(sparse)]
pub struct RemoteControlClientsListParams {
    pub environment_id: String,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    pub order: Option<RemoteControlClientsListOrder>,
}

/// The order of devices.
#[wire(open)]
#[derive(Eq)]
pub enum RemoteControlClientsListOrder {
    Asc,
    Desc,
}

/// One page of devices.
#[wire]
pub struct RemoteControlClientsListResponse {
    pub data: Vec<RemoteControlClient>,
    pub next_cursor: Option<String>,
}

/// A paired device.
#[wire]
pub struct RemoteControlClient {
    pub client_id: String,
    pub app_version: Option<String>,
    pub device_model: Option<String>,
    pub device_type: Option<String>,
    pub display_name: Option<String>,
    /// Unix seconds.
    pub last_seen_at: Option<i64>,
    pub os_version: Option<String>,
    pub platform: Option<String>,
}

/// Removes a paired device.
#[wire]
pub struct RemoteControlClientsRevokeParams {
    pub client_id: String,
    pub environment_id: String,
}

/// The device is removed.
#[wire]
#[derive(Default)]
pub struct RemoteControlClientsRevokeResponse {}

/// The state of the connection to the service changed.
#[wire]
pub struct RemoteControlStatusChangedNotification {
    pub installation_id: String,
    pub server_name: String,
    pub status: RemoteControlConnectionStatus,
    pub environment_id: Option<String>,
}
