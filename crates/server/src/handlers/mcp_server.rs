//! `mcpServer/*`, and the table of configured servers for the other methods about MCP servers.

use codicil_config::{ConfigError, ConfigQuery};
use codicil_engine::{ClientCallError, IncludeTurns, ThreadClients};
use codicil_mcp::{APP_SERVER, CallError, LoginOptions, ServerConfigError, ServerTable};
use codicil_protocol::{
    Frame, McpResourceReadParams, McpResourceReadResponse, McpServerEventStreamStartParams,
    McpServerEventStreamStartResponse, McpServerEventStreamStopParams, McpServerEventStreamStopResponse,
    McpServerOauthLoginCompleted, McpServerOauthLoginCompletedNotification, McpServerOauthLoginParams,
    McpServerOauthLoginResponse, McpServerToolCallParams, McpServerToolCallResponse, ThreadId,
};
use uuid::Uuid;

use crate::{background::blocking, cx::Cx, error::RpcError, refusals::ServiceRefusal};

/// Returns the page to open. Every client is notified of the outcome, since each of them could have opened it.
pub async fn oauth_login(
    cx: Cx,
    params: McpServerOauthLoginParams,
) -> Result<McpServerOauthLoginResponse, RpcError> {
    let servers = servers_of(&cx, params.thread_id.as_ref()).await?;
    let options = LoginOptions::from(&params);
    let login = cx.threads().engine().mcp.login(&servers, &params.name, options).await?;
    let clients = cx.clients().clone();
    let login_id = Some(Uuid::now_v7().to_string());
    let completed_id = login_id.clone();
    cx.background().spawn(async move {
        let outcome = login.completion.await;
        let completed = McpServerOauthLoginCompletedNotification {
            name: params.name,
            success: outcome.is_ok(),
            error: outcome.err().map(|error| error.to_string()),
            login_id: completed_id,
            thread_id: params.thread_id,
        };
        clients.notify_all(&Frame::notification::<McpServerOauthLoginCompleted>(&completed));
    });
    Ok(McpServerOauthLoginResponse { authorization_url: login.authorization_url, login_id })
}

/// Calls a tool. The thread's other requests and its turns go on meanwhile.
pub async fn tool_call(
    cx: Cx,
    params: McpServerToolCallParams,
) -> Result<McpServerToolCallResponse, RpcError> {
    let servers = cx.thread(&params.thread_id)?.mcp_servers();
    Ok(servers.await?.call(params).await?)
}

/// Reads a resource. `originCallId` belongs to hosted apps, which have no such resources here.
pub async fn resource_read(
    cx: Cx,
    params: McpResourceReadParams,
) -> Result<McpResourceReadResponse, RpcError> {
    let contents = match &params.thread_id {
        Some(thread_id) => {
            let servers = cx.thread(thread_id)?.mcp_servers();
            servers.await?.read(&params.server, &params.uri).await.map_err(ClientCallError::from)?
        }
        None => {
            let servers = configured_servers(&cx).await?;
            let config = servers.get(&params.server).filter(|config| config.enabled);
            let unknown = || CallError::UnknownServer(params.server.clone());
            let config = config.ok_or_else(unknown).map_err(ClientCallError::from)?;
            let pool = &cx.threads().engine().mcp;
            let read = pool.resource_contents(&params.server, config, &params.uri);
            read.await.map_err(ClientCallError::from)?
        }
    };
    let unreadable = |error: serde_json::Error| CallError::Unreadable(error.to_string());
    let contents = contents.into_iter().map(|part| serde_json::from_value(part).map_err(unreadable));
    let contents: Result<_, CallError> = contents.collect();
    Ok(McpResourceReadResponse { contents: contents.map_err(ClientCallError::from)?, origin_call_id: None })
}

pub async fn event_stream_start(
    _cx: Cx,
    _params: McpServerEventStreamStartParams,
) -> Result<McpServerEventStreamStartResponse, RpcError> {
    Err(ServiceRefusal::McpEvents.into())
}

/// Ends a subscription. There is never one, so there is nothing to do.
pub async fn event_stream_stop(
    _cx: Cx,
    _params: McpServerEventStreamStopParams,
) -> Result<McpServerEventStreamStopResponse, RpcError> {
    Ok(McpServerEventStreamStopResponse {})
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
    servers_of(cx, None).await
}

/// Returns the servers that are configured for the directory of a thread, or for that of the server.
pub async fn servers_of(cx: &Cx, thread: Option<&ThreadId>) -> Result<ServerTable, RpcError> {
    let engine = cx.threads().engine().clone();
    let reader = engine.clone();
    let query = match thread {
        Some(id) => ConfigQuery::at(&cx.threads().read(id, IncludeTurns::LeftOut).await?.thread.cwd),
        None => ConfigQuery::at(cx.cwd()),
    };
    let (config, mut table) = blocking(move || {
        let config = reader.config.load(&query)?;
        let table = reader.server_table(&config)?;
        Ok::<_, ServerTableError>((config, table))
    })
    .await?;
    table.extend(engine.extensions.apps.server(&config).await.map(|server| (APP_SERVER, server)));
    Ok(table)
}
