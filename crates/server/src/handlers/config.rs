//! `config/*`.

use codicil_protocol::{
    ConfigBatchWriteParams, ConfigReadParams, ConfigReadResponse, ConfigValueWriteParams,
    ConfigWriteResponse, McpServerRefreshResponse, NoParams,
};

use super::mcp_server::configured_servers;
use crate::{
    background::blocking,
    cx::Cx,
    error::RpcError,
    generation::{shown_effort, shown_policy, shown_reviewer, shown_tier},
};

pub async fn read(cx: Cx, params: ConfigReadParams) -> Result<ConfigReadResponse, RpcError> {
    let config = cx.config().clone();
    let mut read = blocking(move || config.read(&params)).await?;
    let generation = cx.generation();
    let shown = &mut read.config;
    shown.approval_policy = shown.approval_policy.take().map(|policy| shown_policy(generation, policy));
    shown.approvals_reviewer =
        shown.approvals_reviewer.take().map(|reviewer| shown_reviewer(generation, reviewer));
    shown.model_reasoning_effort =
        shown.model_reasoning_effort.take().map(|effort| shown_effort(generation, effort));
    shown.service_tier = shown.service_tier.take().and_then(|tier| shown_tier(generation, tier));
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
