//! Types of the tables that other crates read. They are only checked here.
//!
//! Without these checks a client could write a provider or an MCP server with which no thread can start, and the error would
//! appear much later. Unknown members are accepted.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::tables::ConfigSecret;

type TextList = ConfigSecret<BTreeMap<String, String>>;

/// `[mcp_servers.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct McpServerShape {
    command: Option<String>,
    args: Vec<String>,
    env: Option<TextList>,
    env_vars: Vec<toml::Value>,
    cwd: Option<String>,
    url: Option<String>,
    bearer_token_env_var: Option<String>,
    http_headers: Option<TextList>,
    env_http_headers: Option<BTreeMap<String, String>>,
    enabled: Option<bool>,
    required: Option<bool>,
    startup_timeout_sec: Option<f64>,
    startup_timeout_ms: Option<u64>,
    tool_timeout_sec: Option<f64>,
    enabled_tools: Option<Vec<String>>,
    disabled_tools: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
    oauth_resource: Option<String>,
    oauth: Option<McpOauthShape>,
    tools: BTreeMap<String, McpToolShape>,
}

/// `[mcp_servers.NAME.oauth]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct McpOauthShape {
    client_id: Option<String>,
    client_secret_env_var: Option<String>,
}

/// `[mcp_servers.NAME.tools.TOOL]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct McpToolShape {
    approval_mode: Option<String>,
}

impl McpServerShape {
    /// Checks that the server has exactly one transport.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        match (&self.command, &self.url) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => Err("invalid transport"),
        }
    }

    pub(crate) fn identity(&self) -> Option<McpServerIdentity<'_>> {
        match (&self.command, &self.url) {
            (Some(command), None) => Some(McpServerIdentity::Command(command)),
            (None, Some(url)) => Some(McpServerIdentity::Url(url)),
            _ => None,
        }
    }
}

/// The identity of a server, independent of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum McpServerIdentity<'a> {
    Command(&'a str),
    Url(&'a str),
}

/// `[model_providers.NAME]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ModelProviderShape {
    name: Option<String>,
    base_url: Option<String>,
    env_key: Option<String>,
    env_key_instructions: Option<String>,
    experimental_bearer_token: Option<ConfigSecret<String>>,
    wire_api: Option<String>,
    query_params: Option<TextList>,
    http_headers: Option<TextList>,
    env_http_headers: Option<BTreeMap<String, String>>,
    request_max_retries: Option<u64>,
    stream_max_retries: Option<u64>,
    stream_idle_timeout_ms: Option<u64>,
    first_token_timeout_ms: Option<u64>,
    connect_timeout_ms: Option<u64>,
    requires_openai_auth: Option<bool>,
    supports_websockets: Option<bool>,
}
