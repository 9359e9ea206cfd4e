//! `initialize`.

use codicil_protocol::{AbsolutePathBuf, InitializeParams, InitializeResponse};

use crate::{clients::Session, cx::Cx, error::RpcError, user_agent::user_agent};

/// Settles, once per connection, who the client is and what it can take.
pub async fn initialize(cx: Cx, params: InitializeParams) -> Result<InitializeResponse, RpcError> {
    let session = Session::new(params);
    let user_agent = user_agent(&session, cx.announced_version());
    let codex_home =
        AbsolutePathBuf::new(cx.home()).ok_or_else(|| RpcError::internal("home is not absolute"))?;
    if !cx.client.initialize(session) {
        return Err(RpcError::already_initialized());
    }
    Ok(InitializeResponse {
        user_agent,
        codex_home,
        platform_family: std::env::consts::FAMILY.to_owned(),
        platform_os: std::env::consts::OS.to_owned(),
    })
}
