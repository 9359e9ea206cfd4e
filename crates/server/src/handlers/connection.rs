//! `initialize`.

use codicil_protocol::{AbsolutePathBuf, ConfigWarning, Frame, InitializeParams, InitializeResponse};

use crate::{clients::ClientSession, cx::Cx, error::RpcError, user_agent::user_agent};

/// Settles, once per connection, who the client is and what it can take.
pub async fn initialize(cx: Cx, params: InitializeParams) -> Result<InitializeResponse, RpcError> {
    let session = ClientSession::new(params);
    let user_agent = user_agent(&session, cx.announced_version());
    let codex_home =
        AbsolutePathBuf::new(cx.home()).ok_or_else(|| RpcError::internal("home is not absolute"))?;
    if !cx.client.initialize(session) {
        return Err(RpcError::already_initialized());
    }
    let warned = cx.clone();
    cx.after_answer(move || warn_of_config(warned));
    Ok(InitializeResponse {
        user_agent,
        codex_home,
        platform_family: std::env::consts::FAMILY.to_owned(),
        platform_os: std::env::consts::OS.to_owned(),
    })
}

/// Tells the client what is wrong with the configuration, once it has been answered: reading files may take
/// longer than a handshake should.
fn warn_of_config(cx: Cx) {
    // Ends by itself; nobody waits for it.
    tokio::task::spawn_blocking(move || {
        for warning in cx.config().warnings(cx.cwd()) {
            cx.client.notify(&Frame::notification::<ConfigWarning>(&warning));
        }
    });
}
