//! `mcpServer/*`, and the table of configured servers for the other methods about MCP servers.

use codicil_config::{ConfigError, ConfigQuery};
use codicil_engine::ThreadClients;
use codicil_mcp::{APP_SERVER, LoginOptions, ServerConfigError, ServerTable};
use codicil_protocol::{
    Frame, McpServerOauthLoginCompleted, McpServerOauthLoginCompletedNotification, McpServerOauthLoginParams,
    McpServerOauthLoginResponse,
};

use crate::{background::blocking, cx::Cx, error::RpcError};

/// Returns the page to open. Every client is notified of the outcome, since each of them could have opened it.
pub async fn oauth_login(
    cx: Cx,
    params: McpServerOauthLoginParams,
) -> Result<McpServerOauthLoginResponse, RpcError> {
    let servers = configured_servers(&cx).await?;
    let options = LoginOptions::from(&params);
    let login = cx.threads().engine().mcp.login(&servers, &params.name, options).await?;
    let clients = cx.clients().clone();
    cx.background().spawn(async move {
        let outcome = login.completion.await;
        let completed = McpServerOauthLoginCompletedNotification {
            name: params.name,
            success: outcome.is_ok(),
            error: outcome.err().map(|error| error.to_string()),
        };
        clients.notify_all(&Frame::notification::<McpServerOauthLoginCompleted>(&completed));
    });
    Ok(McpServerOauthLoginResponse { authorization_url: login.authorization_url })
}

/// Why the table of MCP servers cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ServerTableError {
    #[error("failed to reload config: {0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Server(#[from] ServerConfigError),
}

/// Reads the MCP servers that are configured for the server's working directory, with that of the account's apps.
pub async fn configured_servers(cx: &Cx) -> Result<ServerTable, RpcError> {
    let engine = cx.threads().engine().clone();
    let reader = engine.clone();
    let query = ConfigQuery::at(cx.cwd());
    let (config, mut table) = blocking(move || {
        let config = reader.config.load(&query)?;
        let table = reader.server_table(&config)?;
        Ok::<_, ServerTableError>((config, table))
    })
    .await?;
    table.extend(engine.extensions.apps.server(&config).await.map(|server| (APP_SERVER, server)));
    Ok(table)
}
