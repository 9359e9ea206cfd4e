//! `mcpServerStatus/list`, `mcpServer/oauth/login` and `config/mcpServer/reload`.

use codicil_config::ConfigQuery;
use codicil_mcp::{LoginError, LoginOptions, ServerPool, ServerTable};
use codicil_protocol::{
    ListMcpServerStatusParams, ListMcpServerStatusResponse, McpServerOauthLoginCompleted,
    McpServerOauthLoginCompletedNotification, McpServerOauthLoginParams, McpServerOauthLoginResponse,
    McpServerRefreshResponse, NoParams,
};

use crate::{cx::Cx, error::RpcError};

pub async fn status_list(
    cx: Cx,
    params: ListMcpServerStatusParams,
) -> Result<ListMcpServerStatusResponse, RpcError> {
    let table = table(&cx).await?;
    pool(&cx).status_page(&table, &params).await.map_err(RpcError::invalid_request)
}

/// Answers with the page to open; how it went is told to everyone, since any client may have opened it.
pub async fn oauth_login(
    cx: Cx,
    params: McpServerOauthLoginParams,
) -> Result<McpServerOauthLoginResponse, RpcError> {
    let table = table(&cx).await?;
    let login = pool(&cx).login(&table, &params.name, LoginOptions::from(&params)).await;
    let login = login.map_err(|error| match error {
        LoginError::UnknownServer(_) | LoginError::NotHttp => RpcError::invalid_request(error),
        LoginError::Failed { .. } => RpcError::internal(error),
    })?;
    let (audience, name) = (cx.threads().engine().clients.clone(), params.name);
    cx.background().spawn(async move {
        let outcome = login.completion.await;
        let completed = McpServerOauthLoginCompletedNotification {
            name,
            success: outcome.is_ok(),
            error: outcome.err().map(|error| error.to_string()),
        };
        audience.broadcast::<McpServerOauthLoginCompleted>(&completed);
    });
    Ok(McpServerOauthLoginResponse { authorization_url: login.authorization_url })
}

/// Threads take up the new configuration with their next turn.
pub async fn reload(cx: Cx, _params: NoParams) -> Result<McpServerRefreshResponse, RpcError> {
    // Refused here, where somebody reads it, rather than at the next turn.
    table(&cx).await?;
    pool(&cx).reload();
    Ok(McpServerRefreshResponse {})
}

fn pool(cx: &Cx) -> &ServerPool {
    &cx.threads().engine().mcp
}

/// The servers that are configured where the server works.
async fn table(cx: &Cx) -> Result<ServerTable, RpcError> {
    let (world, query) = (cx.threads().engine().clone(), ConfigQuery::at(cx.cwd()));
    let read = move || {
        let config = world.config.load(&query);
        let config =
            config.map_err(|error| RpcError::internal(format_args!("failed to reload config: {error}")))?;
        world.server_table(&config).map_err(RpcError::invalid_request)
    };
    tokio::task::spawn_blocking(read).await.map_err(RpcError::internal)?
}
