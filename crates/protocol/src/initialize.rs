//! The handshake: `initialize`, the first request of every connection. Its settings apply to the connection until it closes.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{AbsolutePathBuf, CodicilCapabilities, CodicilSupport, wire};

/// Starts the session of a connection.
#[wire(sparse)]
pub struct InitializeParams {
    pub client_info: ClientInfo,
    /// Absent: no experimental API, and all notifications are sent.
    pub capabilities: Option<InitializeCapabilities>,
}

/// Information about the server.
#[wire]
pub struct InitializeResponse {
    /// The user agent that the server sends to providers. It contains the name and version of the client.
    pub user_agent: String,
    /// The directory of the configuration and the threads.
    pub codex_home: AbsolutePathBuf,
    /// `unix` or `windows`.
    pub platform_family: String,
    /// `linux`, `macos` and so on.
    pub platform_os: String,
    /// The extension, if the client asked for it.
    #[unpublished]
    #[omit]
    pub codicil: Option<CodicilSupport>,
    /// The extensions that the client asked for and the server has.
    #[unpublished]
    #[omit]
    pub extensions: Option<NegotiatedExtensions>,
}

/// The name in `capabilities.extensions` with which a client chooses a generation of the protocol.
pub const PROTOCOL_EXTENSION: &str = "codicil/protocol";

/// The answer to `capabilities.extensions`.
#[wire]
pub struct NegotiatedExtensions {
    #[serde(rename = "codicil/protocol")]
    pub protocol: NegotiatedProtocol,
}

/// The generation of the protocol that the connection uses.
#[wire]
pub struct NegotiatedProtocol {
    /// A version such as `0.166.0`.
    pub protocol_version: String,
    /// The requests that the server serves beyond 0.118, and whether they need `experimentalApi`.
    pub capabilities: BTreeMap<String, ProtocolCapability>,
}

/// What a client needs for a request.
#[wire(open)]
#[derive(Eq)]
pub enum ProtocolCapability {
    Stable,
    Experimental,
}

/// The name and version of the client. They are also sent to providers.
#[wire(sparse)]
pub struct ClientInfo {
    /// The machine-readable name, used in headers and logs.
    pub name: String,
    /// The display name.
    pub title: Option<String>,
    pub version: String,
}

/// Optional features of a connection.
#[wire(sparse)]
#[derive(Default)]
pub struct InitializeCapabilities {
    /// Enables experimental methods, fields and values.
    #[serde(default)]
    pub experimental_api: bool,
    /// Methods of notifications that are not sent to this connection. Unknown names are ignored. Server requests are not
    /// affected.
    pub opt_out_notification_methods: Option<Vec<String>>,
    /// Announces a client of a later generation, like the following members. Has no other effect.
    #[since("0.166")]
    pub request_attestation: Option<bool>,
    #[since("0.166")]
    pub mcp_server_openai_form_elicitation: Option<bool>,
    #[since("0.166")]
    pub explicit_gateway_oauth: Option<bool>,
    #[since("0.166")]
    pub extensions: Option<Map<String, Value>>,
    /// Asks for the extension of this server. Does not announce a later generation.
    #[unpublished]
    pub codicil: Option<CodicilCapabilities>,
}
