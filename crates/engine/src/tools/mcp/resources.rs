//! `list_mcp_resources`, `list_mcp_resource_templates` and `read_mcp_resource`.

use std::time::Instant;

use codicil_mcp::ResourceError;
use codicil_protocol::{McpToolCallResult, McpToolCallStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{McpCallEnd, McpItem, ToolCall, ToolOutput, TurnCancelled, TurnTools};
use crate::tools::call::say;

/// Whose tool a list is in its item when it is about all servers.
const OWN: &str = "codex";

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

impl TurnTools {
    pub(in crate::tools) async fn list_mcp_resources(
        &self,
        call: &ToolCall,
    ) -> Result<ToolOutput, TurnCancelled> {
        let arguments: ListArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let (server, cursor) = (arguments.server.as_deref(), arguments.cursor.as_deref());
        let shown = server.unwrap_or(OWN);
        match call.name.as_str() {
            "list_mcp_resources" => {
                self.show_mcp(call, shown, self.kit.servers.list_resources(server, cursor)).await
            }
            _ => self.show_mcp(call, shown, self.kit.servers.list_resource_templates(server, cursor)).await,
        }
    }

    pub(in crate::tools) async fn read_mcp_resource(
        &self,
        call: &ToolCall,
    ) -> Result<ToolOutput, TurnCancelled> {
        let ReadArguments { server, uri } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        self.show_mcp(call, &server, self.kit.servers.read_resource(&server, &uri)).await
    }

    /// Shows what servers are asked as a call of its own.
    async fn show_mcp(
        &self,
        call: &ToolCall,
        server: &str,
        work: impl Future<Output = Result<Value, ResourceError>>,
    ) -> Result<ToolOutput, TurnCancelled> {
        let arguments = call.arguments().unwrap_or_default();
        let item = McpItem { call, server, tool: &call.name, arguments };
        self.started(item.started()).await;
        let began = Instant::now();
        let found = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(TurnCancelled),
            found = work => found,
        };
        let (result, output) = match found {
            Ok(found) => {
                let text = codicil_mcp::ordered(&found);
                let content = vec![json!({ "type": "text", "text": text })];
                let result = McpToolCallResult { content, structured_content: None };
                (Ok((result, McpToolCallStatus::Completed)), text)
            }
            Err(error) => (Err(error.to_string()), error.to_string()),
        };
        self.completed(item.ended(McpCallEnd { result, took: began.elapsed() })).await;
        let limit = self.output_tokens(None);
        Ok(say(codicil_prompts::truncate_output(&output, limit)))
    }
}
