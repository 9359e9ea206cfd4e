//! Requests of clients to MCP servers of a thread: `mcpServer/tool/call`, `mcpServer/resource/read` and
//! `mcpServer/event/stream/*`.

use serde_json::Value;

use crate::{ThreadId, wire};

/// Calls a tool of an MCP server of a thread.
#[wire(sparse)]
pub struct McpServerToolCallParams {
    pub thread_id: ThreadId,
    pub server: String,
    pub tool: String,
    pub arguments: Option<Value>,
    /// Passed on to the server.
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// The result of the tool, in MCP's format.
#[wire(sparse)]
pub struct McpServerToolCallResponse {
    pub content: Vec<Value>,
    pub is_error: Option<bool>,
    pub structured_content: Option<Value>,
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// Reads a resource of an MCP server.
#[wire(sparse)]
pub struct McpResourceReadParams {
    /// The thread whose server is asked. Absent: the configured server.
    pub thread_id: Option<ThreadId>,
    pub server: String,
    pub uri: String,
    pub connector_id: Option<String>,
    /// Comes back in the response.
    pub origin_call_id: Option<String>,
    pub target: Option<McpResourceReadTarget>,
}

/// The connection of an app whose resource is read.
#[wire(sparse)]
pub struct McpResourceReadTarget {
    pub connector_id: String,
    #[in_166(Option<String>, required)]
    pub link_id: Option<String>,
}

/// The contents of the resource.
#[wire]
pub struct McpResourceReadResponse {
    pub contents: Vec<ResourceContent>,
    pub origin_call_id: Option<String>,
}

/// The content of a resource: text, or bytes in base64.
#[wire(untagged)]
pub enum ResourceContent {
    Text {
        uri: String,
        #[omit]
        mime_type: Option<String>,
        text: String,
        #[omit]
        #[serde(rename = "_meta")]
        meta: Option<Value>,
    },
    Blob {
        uri: String,
        #[omit]
        mime_type: Option<String>,
        blob: String,
        #[omit]
        #[serde(rename = "_meta")]
        meta: Option<Value>,
    },
}

/// Starts a stream of events of an MCP server.
#[wire(sparse)]
pub struct McpServerEventStreamStartParams {
    pub thread_id: ThreadId,
    /// The client's id of the stream.
    pub subscription_id: String,
    pub arguments: Value,
    pub name: String,
    pub server: String,
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// The stream has started.
#[wire]
#[derive(Default)]
pub struct McpServerEventStreamStartResponse {}

/// Ends a stream of events.
#[wire]
pub struct McpServerEventStreamStopParams {
    pub subscription_id: String,
}

/// The stream has ended.
#[wire]
#[derive(Default)]
pub struct McpServerEventStreamStopResponse {}

/// An event of a stream.
#[wire]
pub struct McpServerEventStreamNotification {
    pub subscription_id: String,
    pub notification: McpServerEventNotification,
}

/// A notification of an MCP server.
#[wire]
pub struct McpServerEventNotification {
    pub method: String,
    pub params: Value,
}
