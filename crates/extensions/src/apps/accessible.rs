//! The backend's MCP server, which serves the tools of the apps that the account is connected to.

use std::collections::BTreeMap;

use codicil_mcp::{APP_SERVER, AppServerConfig, ServerConfig, ServerConfigError, ServerPool, ToolApp};
use codicil_protocol::AppsConfig;

use crate::backend::{BackendError, ChatgptBackend};

/// Returns the configuration of the MCP server. `settings` is the `[apps]` table.
pub(super) fn app_server(
    backend: &ChatgptBackend,
    settings: Option<AppsConfig>,
) -> Result<ServerConfig, ServerConfigError> {
    let url = backend.url(backend.apps_path());
    ServerConfig::of_apps(&url, backend.headers(), AppServerConfig { settings })
}

/// Returns the connected apps without duplicates, sorted by id.
pub(super) async fn list(pool: &ServerPool, backend: &ChatgptBackend) -> Result<Vec<ToolApp>, BackendError> {
    let server = app_server(backend, None).map_err(|error| BackendError::Apps(error.to_string()))?;
    let tools = pool.list_tools(APP_SERVER, &server).await;
    let tools = tools.map_err(|error| BackendError::Apps(error.to_string()))?;
    let mut apps = BTreeMap::new();
    for app in tools.iter().filter_map(ToolApp::of) {
        apps.entry(app.id.clone()).or_insert(app);
    }
    Ok(apps.into_values().collect())
}
