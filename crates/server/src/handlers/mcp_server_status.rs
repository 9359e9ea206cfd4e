//! `mcpServerStatus/*`.

use codicil_engine::{IncludeTurns, ThreadError};
use codicil_protocol::{ListMcpServerStatusParams, ListMcpServerStatusResponse};

use super::mcp_server::servers_of;
use crate::{cx::Cx, error::RpcError};

pub async fn list(
    cx: Cx,
    params: ListMcpServerStatusParams,
) -> Result<ListMcpServerStatusResponse, RpcError> {
    if let Some(id) = &params.thread_id
        && let Err(ThreadError::NotLoaded(id)) = cx.threads().read(id, IncludeTurns::LeftOut).await
    {
        return Err(ThreadError::NotFound(id).into());
    }
    let servers = servers_of(&cx, params.thread_id.as_ref()).await?;
    Ok(cx.threads().engine().mcp.status_page(&servers, &params).await?)
}
