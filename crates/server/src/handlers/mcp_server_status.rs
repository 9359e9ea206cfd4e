//! `mcpServerStatus/*`.

use codicil_protocol::{ListMcpServerStatusParams, ListMcpServerStatusResponse};

use super::mcp_server::configured_servers;
use crate::{cx::Cx, error::RpcError};

pub async fn list(
    cx: Cx,
    params: ListMcpServerStatusParams,
) -> Result<ListMcpServerStatusResponse, RpcError> {
    let servers = configured_servers(&cx).await?;
    Ok(cx.threads().engine().mcp.status_page(&servers, &params).await?)
}
