//! `mcpServerStatus/list`: the tools, resources and login status of each configured server. Servers that are not
//! running are started.

use std::{ops::Range, sync::Arc, time::Duration};

use codicil_protocol::{
    ListMcpServerStatusParams, ListMcpServerStatusResponse, McpAuthStatus, McpServerConnectionStatus,
    McpServerStatus, McpServerStatusDetail, Resource, ResourceTemplate,
};
use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::time::timeout;
use url::Url;

use crate::{
    config::{HttpConfig, ServerConfig, ServerTable, ServerTransport},
    connection::ServerConnection,
    limits::RESOURCES_PER_SERVER,
    lists::list,
    oauth::discover,
    pool::ServerPool,
};

/// Time for finding out whether a server supports OAuth.
const DISCOVERY_TIME: Duration = Duration::from_secs(5);

/// The reason why a page cannot be returned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StatusPageError {
    #[error("invalid cursor: {0}")]
    Cursor(String),
    #[error("cursor {cursor} exceeds total MCP servers {total}")]
    Beyond { cursor: usize, total: usize },
}

impl ServerPool {
    /// Returns one page of servers, sorted by name. Only the servers on the page are contacted.
    pub async fn status_page(
        &self,
        table: &ServerTable,
        params: &ListMcpServerStatusParams,
    ) -> Result<ListMcpServerStatusResponse, StatusPageError> {
        let is_named = |name: &str| params.server_name.as_ref().is_none_or(|wanted| wanted == name);
        let named: Vec<_> = table.iter().filter(|(name, _)| is_named(name)).collect();
        let range = page_range(params, named.len())?;
        let next_cursor = (range.end < named.len()).then(|| range.end.to_string());
        let detail = params.detail.clone().unwrap_or(McpServerStatusDetail::Full);
        let servers = named.into_iter().skip(range.start).take(range.len());
        let mut data = join_all(servers.map(|(name, config)| self.status(name, config, &detail))).await;
        if params.thread_id.is_none() {
            // The connections are those of threads.
            data.iter_mut().for_each(|status| status.runtime_status = None);
        }
        Ok(ListMcpServerStatusResponse { data, next_cursor })
    }

    /// Returns the status of one server. A disabled or unreachable server has empty lists.
    async fn status(
        &self,
        name: &str,
        config: &Arc<ServerConfig>,
        detail: &McpServerStatusDetail,
    ) -> McpServerStatus {
        // The start shows whether the server requires a login.
        let mut status = self.offered(name, config, detail).await;
        status.auth_status = self.auth_status(name, config).await;
        if status.runtime_status == Some(McpServerConnectionStatus::Failed)
            && status.auth_status == McpAuthStatus::NotLoggedIn
        {
            status.runtime_status = Some(McpServerConnectionStatus::AuthenticationRequired);
        }
        status
    }

    async fn offered(
        &self,
        name: &str,
        config: &Arc<ServerConfig>,
        detail: &McpServerStatusDetail,
    ) -> McpServerStatus {
        let mut status = McpServerStatus {
            name: name.to_owned(),
            tools: Default::default(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
            auth_status: McpAuthStatus::Unsupported,
            server_info: None,
            runtime_status: Some(McpServerConnectionStatus::Disabled),
            http_origin: None,
            plugin_id: None,
            server_capabilities: None,
            tool_list_meta: None,
            tools_error: None,
        };
        if !config.enabled {
            return status;
        }
        let slot = self.slot(name, config);
        let Ok(connection) = slot.ready().await else {
            status.runtime_status = Some(McpServerConnectionStatus::Failed);
            return status;
        };
        status.runtime_status = Some(McpServerConnectionStatus::Connected);
        status.server_info = connection.server_info();
        status.server_capabilities = connection.capabilities();
        let tools = connection.tools().await;
        let offered = tools.iter().filter(|tool| config.offers_tool(tool));
        status.tools = offered.map(|tool| (tool.name.clone(), tool.clone())).collect();
        if connection.has_resources() && *detail == McpServerStatusDetail::Full {
            (status.resources, status.resource_templates) = tokio::join!(
                listed::<Resource>(&connection, "resources/list", "resources"),
                listed::<ResourceTemplate>(&connection, "resources/templates/list", "resourceTemplates"),
            );
        }
        status
    }

    /// Returns the login status of a server.
    pub async fn auth_status(&self, name: &str, config: &ServerConfig) -> McpAuthStatus {
        match &config.transport {
            ServerTransport::Http(_) if config.apps.is_some() => McpAuthStatus::BearerToken,
            ServerTransport::Http(http) if config.enabled => self.http_auth_status(name, http).await,
            _ => McpAuthStatus::Unsupported,
        }
    }

    async fn http_auth_status(&self, name: &str, http: &HttpConfig) -> McpAuthStatus {
        if http.has_own_credentials() {
            return McpAuthStatus::BearerToken;
        }
        match self.credentials().get(name, &http.url).await {
            Ok(Some(credentials)) if credentials.are_usable() => return McpAuthStatus::OAuth,
            Ok(_) => {}
            Err(error) => tracing::warn!(server = name, %error, "failed to read the stored credentials"),
        }
        let Ok(url) = Url::parse(&http.url) else { return McpAuthStatus::Unsupported };
        let challenge = self.challenges().get(name, &http.url);
        match timeout(DISCOVERY_TIME, discover(&url, challenge.as_deref())).await {
            Ok(Ok(Some(_))) => McpAuthStatus::NotLoggedIn,
            _ => McpAuthStatus::Unsupported,
        }
    }
}

async fn listed<T: DeserializeOwned>(connection: &ServerConnection, method: &str, member: &str) -> Vec<T> {
    let entries = list(connection, method, member, RESOURCES_PER_SERVER).await;
    entries.inspect_err(|error| tracing::debug!(method, %error, "failed to read a list")).unwrap_or_default()
}

/// Returns the servers of a page. A cursor is the number of servers before the page.
fn page_range(params: &ListMcpServerStatusParams, total: usize) -> Result<Range<usize>, StatusPageError> {
    let start = match params.cursor.as_deref() {
        None => 0,
        Some(cursor) => cursor.parse().map_err(|_| StatusPageError::Cursor(cursor.to_owned()))?,
    };
    if start > total {
        return Err(StatusPageError::Beyond { cursor: start, total });
    }
    let limit = params.limit.map_or(total, |limit| usize::try_from(limit.max(1)).unwrap_or(usize::MAX));
    Ok(start..start.saturating_add(limit).min(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_numbers() {
        let check = |cursor: Option<&str>, limit: Option<u32>, expected: Result<Range<usize>, &str>| {
            let cursor = cursor.map(str::to_owned);
            let params = ListMcpServerStatusParams { cursor, limit, ..Default::default() };
            let range = page_range(&params, 3).map_err(|error| error.to_string());
            assert_eq!(range, expected.map_err(str::to_owned), "{params:?}");
        };
        check(None, None, Ok(0..3));
        check(None, Some(1), Ok(0..1));
        check(None, Some(0), Ok(0..1));
        check(Some("1"), Some(1), Ok(1..2));
        check(Some("2"), Some(u32::MAX), Ok(2..3));
        check(Some("3"), None, Ok(3..3));
        check(Some("nope"), None, Err("invalid cursor: nope"));
        check(Some("-1"), None, Err("invalid cursor: -1"));
        check(Some("99"), None, Err("cursor 99 exceeds total MCP servers 3"));
    }
}
