//! MCP servers: `mcpServer/oauth/login`, `config/mcpServer/reload`, `mcpServerStatus/list` and how servers
//! start. Calls of their tools are items, their questions are in `elicitation.rs`.
//!
//! Tools and resources are handed through as MCP describes them, so parts of them stay raw JSON.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::wire;

/// Signs in to a configured server; only those reached over HTTP have a sign-in.
#[wire(sparse)]
pub struct McpServerOauthLoginParams {
    pub name: String,
    /// Null asks for the configured ones.
    pub scopes: Option<Vec<String>>,
    /// How long to wait for the browser to come back.
    pub timeout_secs: Option<i64>,
}

/// Where the person goes to sign in; the outcome comes as `mcpServer/oauthLogin/completed`.
#[wire]
pub struct McpServerOauthLoginResponse {
    /// To open in a browser, which is led back to the server.
    pub authorization_url: String,
}

/// The configuration was read; loaded threads take it up with their next turn.
#[wire]
#[derive(Default)]
pub struct McpServerRefreshResponse {}

/// Which page of the configured servers, sorted by name. Answering may start servers to ask them.
#[wire(sparse)]
#[derive(Default)]
pub struct ListMcpServerStatusParams {
    pub cursor: Option<String>,
    /// Null for all.
    pub limit: Option<u32>,
}

/// One page of servers, disabled ones included.
#[wire]
pub struct ListMcpServerStatusResponse {
    pub data: Vec<McpServerStatus>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// What a server offers. A disabled or unreachable one offers nothing.
#[wire]
pub struct McpServerStatus {
    pub name: String,
    /// By name.
    pub tools: BTreeMap<String, Tool>,
    pub resources: Vec<Resource>,
    pub resource_templates: Vec<ResourceTemplate>,
    pub auth_status: McpAuthStatus,
}

/// How the server is, or could be, signed in to.
#[wire(open)]
#[derive(Eq)]
pub enum McpAuthStatus {
    /// There is nothing to sign in to, as with servers that are child processes.
    Unsupported,
    NotLoggedIn,
    /// A token from the configuration.
    BearerToken,
    OAuth,
}

/// A tool, in the words of its server.
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
    /// Hints such as `readOnlyHint`: claims of the server, not promises.
    #[omit]
    pub annotations: Option<Value>,
    #[omit]
    pub icons: Option<Vec<Value>>,
    #[omit]
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// Something that can be read from a server.
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
    /// In bytes.
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

/// A family of resources, addressed by filling in a template.
#[wire]
pub struct ResourceTemplate {
    /// With placeholders such as `{id}`.
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

/// The person came back from the browser, or did not in time.
#[wire]
pub struct McpServerOauthLoginCompletedNotification {
    pub name: String,
    pub success: bool,
    /// Left out on success.
    #[omit]
    pub error: Option<String>,
}

/// A step in starting a server for a thread; it does not say for which thread.
#[wire]
pub struct McpServerStatusUpdatedNotification {
    pub name: String,
    pub status: McpServerStartupState,
    /// Set only when it failed.
    pub error: Option<String>,
}

/// `starting`, then one of the others.
#[wire(open)]
#[derive(Eq)]
pub enum McpServerStartupState {
    Starting,
    Ready,
    Failed,
    Cancelled,
}
