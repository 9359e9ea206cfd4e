//! `config/*`.

use codicil_protocol::{
    ConfigBatchWriteParams, ConfigReadParams, ConfigReadResponse, ConfigValueWriteParams,
    ConfigWriteResponse, McpServerRefreshResponse, NoParams,
};

use super::mcp_server::configured_servers;
use crate::{background::blocking, cx::Cx, error::RpcError};

pub async fn read(cx: Cx, params: ConfigReadParams) -> Result<ConfigReadResponse, RpcError> {
    let config = cx.config().clone();
    let mut read = blocking(move || config.read(&params)).await?;
    read.config.approval_policy = read.config.approval_policy.map(|policy| cx.shown_policy(policy));
    Ok(read)
}

pub async fn value_write(cx: Cx, params: ConfigValueWriteParams) -> Result<ConfigWriteResponse, RpcError> {
    let config = cx.config().clone();
    blocking(move || config.write_value(&params)).await
}

pub async fn batch_write(cx: Cx, params: ConfigBatchWriteParams) -> Result<ConfigWriteResponse, RpcError> {
    let config = cx.config().clone();
    let must_reload = params.reload_user_config == Some(true);
    let written = blocking(move || config.batch_write(&params)).await?;
    if must_reload {
        cx.threads().engine().reload_config();
    }
    Ok(written)
}

/// Reloads the MCP servers. Threads use the new configuration from their next turn on.
pub async fn mcp_server_reload(cx: Cx, _params: NoParams) -> Result<McpServerRefreshResponse, RpcError> {
    // A mistake in the configuration fails this request rather than the next turn.
    configured_servers(&cx).await?;
    cx.threads().engine().mcp.reload();
    Ok(McpServerRefreshResponse {})
}
