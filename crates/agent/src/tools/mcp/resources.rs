//! `list_mcp_resources`, `list_mcp_resource_templates` and `read_mcp_resource`.

use std::time::Instant;

use codicil_mcp::ResourceError;
use codicil_protocol::{McpToolCallResult, McpToolCallStatus};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Call, Cancelled, End, McpItem, Output, TurnTools};
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
    pub(in crate::tools) async fn list_mcp_resources(&self, call: &Call) -> Result<Output, Cancelled> {
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

    pub(in crate::tools) async fn read_mcp_resource(&self, call: &Call) -> Result<Output, Cancelled> {
        let ReadArguments { server, uri } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        self.show_mcp(call, &server, self.kit.servers.read_resource(&server, &uri)).await
    }

    /// Shows what servers are asked as a call of its own.
    async fn show_mcp(
        &self,
        call: &Call,
        server: &str,
        work: impl Future<Output = Result<Value, ResourceError>>,
    ) -> Result<Output, Cancelled> {
        let arguments = call.arguments().unwrap_or_default();
        let item = McpItem { call, server, tool: &call.name, arguments };
        self.started(item.started()).await;
        let began = Instant::now();
        let found = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(Cancelled),
            found = work => found,
        };
        let (result, output) = match found {
            Ok(found) => {
                let text = ordered(&found);
                let content = vec![json!({ "type": "text", "text": text })];
                let result = McpToolCallResult { content, structured_content: None };
                (Ok((result, McpToolCallStatus::Completed)), text)
            }
            Err(error) => (Err(error.to_string()), error.to_string()),
        };
        self.completed(item.ended(End { result, took: began.elapsed() })).await;
        let limit = self.output_tokens(None);
        Ok(say(codicil_context::truncate_output(&output, limit)))
    }
}

/// The members in the order in which a reader wants them: what something is, then what is in it.
const ORDER: [&str; 9] =
    ["server", "uri", "uriTemplate", "name", "title", "description", "mimeType", "text", "nextCursor"];

/// JSON whose objects begin with the members of [`ORDER`].
fn ordered(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let known = ORDER.iter().filter_map(|name| members.get_key_value(*name));
            let others = members.iter().filter(|(name, _)| !ORDER.contains(&name.as_str()));
            let members =
                known.chain(others).map(|(name, value)| format!("{}:{}", json!(name), ordered(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(entries) => {
            format!("[{}]", entries.iter().map(ordered).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_their_order() {
        let value = json!({ "resources": [{ "zeal": 1, "mimeType": "t", "uri": "u" }], "server": "s" });
        assert_eq!(
            ordered(&value),
            "{\"server\":\"s\",\"resources\":[{\"uri\":\"u\",\"mimeType\":\"t\",\"zeal\":1}]}"
        );
    }
}
