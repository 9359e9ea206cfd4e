//! The handshake: `initialize`, once on each connection and before anything else. What it settles holds
//! for that connection until it closes.

use crate::{AbsolutePathBuf, wire};

/// Who connects, and what it wants to be sent.
#[wire(sparse)]
pub struct InitializeParams {
    pub client_info: ClientInfo,
    /// Left out, nothing experimental is allowed and no notification is held back.
    pub capabilities: Option<InitializeCapabilities>,
}

/// The server as the client needs to know it.
#[wire]
pub struct InitializeResponse {
    /// How the server presents itself to providers; the client's name and version are part of it.
    pub user_agent: String,
    /// Where the server keeps its configuration and threads.
    pub codex_home: AbsolutePathBuf,
    /// `unix` or `windows`.
    pub platform_family: String,
    /// `linux`, `macos` and so on.
    pub platform_os: String,
}

/// How a client calls itself. Providers are told too.
#[wire(sparse)]
pub struct ClientInfo {
    /// For programs: it goes into headers and logs.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    pub version: String,
}

/// What a client opts into and out of.
#[wire(sparse)]
#[derive(Default)]
pub struct InitializeCapabilities {
    /// Allows the methods, fields and values that are marked experimental.
    #[serde(default)]
    pub experimental_api: bool,
    /// Notifications not to send here, by their exact names; unknown ones do no harm. Requests are not
    /// affected.
    pub opt_out_notification_methods: Option<Vec<String>>,
}
