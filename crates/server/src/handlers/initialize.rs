//! `initialize`.

use codicil_engine::{MAX_RECENT_MESSAGES, MAX_REPLAY_BYTES, MAX_REPLAY_MESSAGES};
use codicil_protocol::{
    AbsolutePathBuf, CODICIL_VERSION, CodicilLimits, CodicilSupport, InitializeParams, InitializeResponse,
};

use crate::{
    clients::ClientSession,
    cx::Cx,
    error::RpcError,
    generation::{names_protocol, negotiated_extensions},
    user_agent::user_agent,
};

/// Sets the name, version and capabilities of the client, once per connection.
pub async fn initialize(cx: Cx, params: InitializeParams) -> Result<InitializeResponse, RpcError> {
    let names_protocol = names_protocol(&params);
    let session = ClientSession::new(params, cx.protocol().generation());
    let generation = session.generation();
    let user_agent = user_agent(&session, cx.protocol().announced_version(session.known_generation));
    let extensions = names_protocol.then(|| negotiated_extensions(generation));
    let codicil = session.codicil.as_ref().map(|_| codicil_support());
    if !cx.clients().initialize(&cx.client, session) {
        return Err(RpcError::already_initialized());
    }
    let warning_cx = cx.clone();
    cx.after_response(move || send_config_warnings(warning_cx));
    Ok(InitializeResponse {
        user_agent,
        codex_home: AbsolutePathBuf::new(cx.home()).expect("the home directory is absolute"),
        platform_family: std::env::consts::FAMILY.to_owned(),
        platform_os: std::env::consts::OS.to_owned(),
        codicil,
        extensions,
    })
}

/// The features of the extension.
const FEATURES: &[&str] = &["cursor", "keys", "requests", "usage", "turns", "sandbox", "rehome", "redirect"];

fn codicil_support() -> CodicilSupport {
    let limit = |limit: usize| u32::try_from(limit).ok();
    CodicilSupport {
        version: CODICIL_VERSION,
        features: FEATURES.iter().map(|name| (*name).to_owned()).collect(),
        limits: CodicilLimits {
            recent_messages: limit(MAX_RECENT_MESSAGES),
            replay_messages: limit(MAX_REPLAY_MESSAGES),
            replay_bytes: limit(MAX_REPLAY_BYTES),
        },
    }
}

/// Notifies the client of mistakes in the configuration. Called after the response: the handshake should not wait
/// for files.
fn send_config_warnings(cx: Cx) {
    // Detached: it ends by itself once the files are read.
    tokio::task::spawn_blocking(move || {
        for warning in cx.config().warnings(cx.cwd()) {
            cx.client.warn(warning);
        }
    });
}
