//! `list_mcp_resources`, `list_mcp_resource_templates` and `read_mcp_resource`: what MCP servers have to read.

use std::time::Instant;

use codicil_mcp::ResourceError;
use codicil_model::ToolSpec;
use codicil_protocol::{McpToolCallResult, McpToolCallStatus};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{McpCallEnd, McpItem};
use crate::tools::{
    TurnTools,
    builtin::BuiltinTool,
    call::{ToolCall, ToolError, ToolResult, text_output},
    offer::ToolOffer,
    schema::{function, string},
};

/// The server that the item of a list names when it is about all servers.
const ALL_SERVERS: &str = "codex";

pub(in crate::tools) struct ListMcpResources;
pub(in crate::tools) struct ListMcpResourceTemplates;
pub(in crate::tools) struct ReadMcpResource;

#[derive(Deserialize)]
struct ListArguments {
    server: Option<String>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct ReadArguments {
    server: String,
    uri: String,
}

impl BuiltinTool for ListMcpResources {
    fn name(&self) -> &'static str {
        "list_mcp_resources"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let description = "Lists what MCP servers offer to read.";
        offer.mcp.is_some().then(|| function(self.name(), description, list_properties(), &[]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let ListArguments { server, cursor } = call.arguments()?;
            let listed = turn.thread.servers.list_resources(server.as_deref(), cursor.as_deref());
            run_as_item(turn, call, server.as_deref().unwrap_or(ALL_SERVERS), listed).await
        })
    }
}

impl BuiltinTool for ListMcpResourceTemplates {
    fn name(&self) -> &'static str {
        "list_mcp_resource_templates"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let description = "Lists the patterns of addresses that MCP servers can read.";
        offer.mcp.is_some().then(|| function(self.name(), description, list_properties(), &[]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let ListArguments { server, cursor } = call.arguments()?;
            let listed = turn.thread.servers.list_resource_templates(server.as_deref(), cursor.as_deref());
            run_as_item(turn, call, server.as_deref().unwrap_or(ALL_SERVERS), listed).await
        })
    }
}

impl BuiltinTool for ReadMcpResource {
    fn name(&self) -> &'static str {
        "read_mcp_resource"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let properties = json!({
            "server": string("The server, by its name in the list."),
            "uri": string("The resource, by its address in the list."),
        });
        let description = "Reads a resource of an MCP server.";
        offer.mcp.is_some().then(|| function(self.name(), description, properties, &["server", "uri"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            let ReadArguments { server, uri } = call.arguments()?;
            let read = turn.thread.servers.read_resource(&server, &uri);
            run_as_item(turn, call, &server, read).await
        })
    }
}

fn list_properties() -> Value {
    json!({
        "server": string("The server to ask; all of them by default."),
        "cursor": string("Where the last answer left off, if it was not complete."),
    })
}

/// Runs a request to a server, shown to clients as an MCP call of its own.
async fn run_as_item(
    turn: &TurnTools,
    call: &ToolCall,
    server: &str,
    request: impl Future<Output = Result<Value, ResourceError>>,
) -> ToolResult {
    let arguments = call.arguments().unwrap_or_default();
    let item = McpItem { call, server, tool: &call.name, arguments };
    turn.emit_started(item.started()).await;
    let began = Instant::now();
    let Some(found) = turn.cancel.run_until_cancelled(request).await else {
        return Err(ToolError::Cancelled);
    };
    let (result, output) = match found {
        Ok(found) => {
            let text = codicil_mcp::to_ordered_json(&found);
            let content = vec![json!({ "type": "text", "text": text })];
            let result = McpToolCallResult { content, structured_content: None, meta: None };
            (Ok((result, McpToolCallStatus::Completed)), text)
        }
        Err(error) => (Err(error.to_string()), error.to_string()),
    };
    turn.emit_completed(item.ended(McpCallEnd { result, took: began.elapsed() })).await;
    Ok(text_output(codicil_prompts::truncate_output(&output, turn.output_tokens(None))))
}
