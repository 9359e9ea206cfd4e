//! Lists the apps that the account is connected to: those with tools on the backend's MCP server.
//!
//! This is a minimal MCP client, written by hand because it sends only three messages (`initialize`,
//! `notifications/initialized`, `tools/list`) and never calls a tool.

use std::collections::BTreeMap;

use reqwest::{Method, header};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::backend::{BackendError, ChatgptBackend, read_response, send};

const PROTOCOL_VERSION: &str = "2025-06-18";
const SESSION_HEADER: &str = "mcp-session-id";
const MAX_PAGES: u64 = 100;

/// An app as described in the metadata of its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AccessibleApp {
    pub id: String,
    pub name: Option<String>,
    pub description: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolPage {
    tools: Vec<AppTool>,
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct AppTool {
    #[serde(rename = "_meta")]
    meta: Option<ToolMeta>,
}

#[derive(Deserialize)]
struct ToolMeta {
    connector_id: Option<String>,
    connector_name: Option<String>,
    connector_description: Option<String>,
}

/// Returns the connected apps without duplicates, sorted by id.
pub(super) async fn list(backend: &ChatgptBackend) -> Result<Vec<AccessibleApp>, BackendError> {
    let mut session = AppSession { backend, id: None };
    session.initialize().await?;
    let mut apps = BTreeMap::new();
    let mut cursor: Option<String> = None;
    for page_index in 0..MAX_PAGES {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        // `initialize` has request id 0.
        let result = session.call(page_index + 1, "tools/list", params).await?;
        let page: ToolPage = serde_json::from_value(result)
            .map_err(|error| BackendError::InvalidResponse(error.to_string()))?;
        for app in page.tools.into_iter().filter_map(app_from_tool) {
            apps.entry(app.id.clone()).or_insert(app);
        }
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if cursor.is_none() {
            break;
        }
    }
    Ok(apps.into_values().collect())
}

fn app_from_tool(tool: AppTool) -> Option<AccessibleApp> {
    let ToolMeta { connector_id, connector_name, connector_description } = tool.meta?;
    let non_empty =
        |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    Some(AccessibleApp {
        id: non_empty(connector_id)?,
        name: non_empty(connector_name),
        description: non_empty(connector_description),
    })
}

struct AppSession<'b> {
    backend: &'b ChatgptBackend,
    /// The MCP session id, if the server has assigned one.
    id: Option<String>,
}

impl AppSession<'_> {
    async fn initialize(&mut self) -> Result<(), BackendError> {
        let client_info = json!({ "name": "codicil", "version": env!("CARGO_PKG_VERSION") });
        let params =
            json!({ "protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": client_info });
        self.call(0, "initialize", params).await?;
        self.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(())
    }

    async fn call(&mut self, id: u64, method: &str, params: Value) -> Result<Value, BackendError> {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let bytes = self.post(&request).await?;
        let response = find_response(&bytes, id)
            .ok_or_else(|| BackendError::InvalidResponse(format!("no response to {method}")))?;
        match response.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(BackendError::InvalidResponse(format!("{method} failed"))),
        }
    }

    async fn post(&mut self, message: &Value) -> Result<Vec<u8>, BackendError> {
        let mut request = self.backend.request(Method::POST, self.backend.apps_path(), &[]).await?;
        request = request.header(header::ACCEPT, "application/json, text/event-stream");
        request = request.header(header::CONTENT_TYPE, "application/json");
        if let Some(id) = &self.id {
            request = request.header(SESSION_HEADER, id);
        }
        let response =
            send(request.header("mcp-protocol-version", PROTOCOL_VERSION).body(message.to_string())).await?;
        if let Some(id) = response.headers().get(SESSION_HEADER).and_then(|id| id.to_str().ok()) {
            self.id = Some(id.to_owned());
        }
        read_response(response).await
    }
}

/// Returns the response to request `id`. The body is one JSON message or a stream of server-sent events.
fn find_response(bytes: &[u8], id: u64) -> Option<Value> {
    let is_response = |message: &Value| message.get("id").and_then(Value::as_u64) == Some(id);
    if let Ok(message) = serde_json::from_slice::<Value>(bytes) {
        return Some(message).filter(is_response);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    events.filter_map(|data| serde_json::from_str(data.trim()).ok()).find(is_response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_found_in_json_and_in_event_streams() {
        let check = |body: &str, expected: Option<Value>| {
            assert_eq!(find_response(body.as_bytes(), 1), expected, "{body}");
        };
        check(r#"{"id":1,"result":2}"#, Some(json!({ "id": 1, "result": 2 })));
        check("event: message\ndata: {\"method\":\"x\"}\n\ndata: {\"id\":1}\n\n", Some(json!({ "id": 1 })));
        check(r#"{"id":2}"#, None);
        check("nothing", None);
        check("", None);
    }
}
