//! MCP servers: `mcpServer/oauth/login`, `config/mcpServer/reload`, `mcpServerStatus/list` and startup notifications. Tool
//! calls are items; elicitations are in `elicitation.rs`.
//!
//! Tools and resources are passed through in MCP's format, so parts of them are raw JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{ThreadId, wire};

/// Starts an OAuth sign-in to a configured server, which must use HTTP.
#[wire(sparse)]
pub struct McpServerOauthLoginParams {
    pub name: String,
    /// Absent: the configured scopes.
    pub scopes: Option<Vec<String>>,
    /// The time to wait for the redirect of the browser.
    pub timeout_secs: Option<i64>,
    /// How the client is registered. Absent: as the configuration says.
    #[since("0.166")]
    pub client_registration: Option<McpServerOauthClientRegistration>,
    /// Uses the servers of this thread's configuration.
    #[since("0.166")]
    pub thread_id: Option<ThreadId>,
}

/// The sign-in has started. `mcpServer/oauthLogin/completed` reports its result.
#[wire]
pub struct McpServerOauthLoginResponse {
    /// The URL to open in a browser, which is redirected to the server afterwards.
    pub authorization_url: String,
    /// The id of the sign-in, the same in the notification of its end.
    #[since("0.166")]
    pub login_id: Option<String>,
}

/// The configuration is reloaded. Loaded threads use it from their next turn on.
#[wire]
#[derive(Default)]
pub struct McpServerRefreshResponse {}

/// Lists the configured servers, sorted by name. May start servers to query them.
#[wire(sparse)]
#[derive(Default)]
pub struct ListMcpServerStatusParams {
    pub cursor: Option<String>,
    /// The page size. Absent: all.
    pub limit: Option<u32>,
    /// Absent: `full`.
    #[since("0.166")]
    pub detail: Option<McpServerStatusDetail>,
    /// Only the server with this name.
    #[since("0.166")]
    pub server_name: Option<String>,
    /// Uses the configuration of this thread instead of the global one.
    #[since("0.166")]
    pub thread_id: Option<ThreadId>,
}

/// One page of servers, including disabled ones.
#[wire]
pub struct ListMcpServerStatusResponse {
    pub data: Vec<McpServerStatus>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The tools and resources of a server. Empty for a disabled or unreachable server.
#[wire]
pub struct McpServerStatus {
    pub name: String,
    /// The tools by name.
    pub tools: BTreeMap<String, Tool>,
    pub resources: Vec<Resource>,
    pub resource_templates: Vec<ResourceTemplate>,
    pub auth_status: McpAuthStatus,
    /// What the server says about itself; null if it is not connected.
    #[since("0.166")]
    pub server_info: Option<McpServerInfo>,
    /// The state of the connection; null in a list that is not about a thread.
    #[since("0.166")]
    pub runtime_status: Option<McpServerConnectionStatus>,
    #[since("0.166")]
    pub http_origin: Option<String>,
    #[since("0.166")]
    pub plugin_id: Option<String>,
    /// What the server declares that it can do; null if it is not connected.
    #[since("0.166")]
    pub server_capabilities: Option<Value>,
    #[since("0.166")]
    pub tool_list_meta: Option<Value>,
    #[since("0.166")]
    pub tools_error: Option<String>,
}

/// The authentication state of a server.
#[wire(open)]
#[derive(Eq)]
pub enum McpAuthStatus {
    /// Not known yet.
    #[since("0.166")]
    Unknown,
    /// The server has no authentication, like all servers that are child processes.
    Unsupported,
    NotLoggedIn,
    /// With a token from the configuration.
    BearerToken,
    OAuth,
}

/// A tool, as described by its server.
#[wire]
pub struct Tool {
    pub name: String,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    /// A JSON Schema.
    pub input_schema: Value,
    /// A JSON Schema.
    #[omit]
    pub output_schema: Option<Value>,
    /// Hints such as `readOnlyHint`. They are claims of the server and not verified.
    #[omit]
    pub annotations: Option<Value>,
    #[omit]
    pub icons: Option<Vec<Value>>,
    #[omit]
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// A resource of a server.
#[wire]
pub struct Resource {
    pub uri: String,
    pub name: String,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[omit]
    pub mime_type: Option<String>,
    /// The size in bytes.
    #[omit]
    pub size: Option<i64>,
    #[omit]
    pub annotations: Option<Value>,
    #[omit]
    pub icons: Option<Vec<Value>>,
    #[omit]
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// A template for the URIs of resources.
#[wire]
pub struct ResourceTemplate {
    /// A URI with placeholders such as `{id}`.
    pub uri_template: String,
    pub name: String,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[omit]
    pub mime_type: Option<String>,
    #[omit]
    pub annotations: Option<Value>,
}

/// A sign-in to an MCP server ended or timed out.
#[wire]
pub struct McpServerOauthLoginCompletedNotification {
    pub name: String,
    pub success: bool,
    /// Absent on success.
    #[omit]
    pub error: Option<String>,
    /// The id that the response to `mcpServer/oauth/login` has.
    #[omit]
    #[since("0.166")]
    pub login_id: Option<String>,
    /// The thread that the request named.
    #[omit]
    #[since("0.166")]
    pub thread_id: Option<ThreadId>,
}

/// The startup state of a server changed.
#[wire]
pub struct McpServerStatusUpdatedNotification {
    pub name: String,
    pub status: McpServerStartupState,
    /// Set if the startup failed.
    pub error: Option<String>,
    /// Never set: connections are shared by threads.
    #[omit]
    #[since("0.166")]
    pub thread_id: Option<ThreadId>,
    /// Set if the user has to sign in again.
    #[omit]
    #[since("0.166")]
    pub failure_reason: Option<McpServerStartupFailureReason>,
}

/// The startup state of a server: `starting`, then one of the others.
#[wire(open)]
#[derive(Eq)]
pub enum McpServerStartupState {
    Starting,
    Ready,
    Failed,
    Cancelled,
}

/// How much is returned about a server.
#[wire(open)]
#[derive(Eq)]
pub enum McpServerStatusDetail {
    Full,
    ToolsAndAuthOnly,
}

/// The state of a connection to a server.
#[wire(open)]
#[derive(Eq)]
pub enum McpServerConnectionStatus {
    NotStarted,
    Starting,
    Connected,
    AuthenticationRequired,
    Failed,
    Cancelled,
    Disabled,
}

/// What a server says about itself.
#[wire]
pub struct McpServerInfo {
    pub name: String,
    pub version: String,
    pub description: Option<String>,
    pub icons: Option<Vec<Value>>,
    pub title: Option<String>,
    pub website_url: Option<String>,
}

/// Why a server did not start.
#[wire(open)]
#[derive(Eq)]
pub enum McpServerStartupFailureReason {
    ReauthenticationRequired,
}

/// How a client is registered for OAuth: with a metadata document or dynamically.
#[wire(open)]
#[derive(Eq)]
pub enum McpServerOauthClientRegistration {
    Auto,
    Cimd,
    Dcr,
}
