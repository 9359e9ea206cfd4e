//! The apps that the account is connected to: those with tools at the backend's MCP endpoint.
//!
//! This is an MCP client of three requests (`initialize`, `initialized`, `tools/list`). It knows nothing of
//! calling tools, and so needs none of what a real one does.

use std::collections::BTreeMap;

use reqwest::{Method, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::backend::{AppsBackend, AppsError, body, send};

const PROTOCOL: &str = "2025-06-18";
const SESSION: &str = "mcp-session-id";
const MAX_PAGES: u64 = 100;

/// An app as its tools describe it.
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

/// Each app once, in order of their ids.
pub(super) async fn list(backend: &AppsBackend) -> Result<Vec<AccessibleApp>, AppsError> {
    let mut session = AppSession { backend, id: None };
    session.begin().await?;
    let mut apps = BTreeMap::new();
    let mut cursor: Option<String> = None;
    for number in 0..MAX_PAGES {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
        let answer = session.call(number + 1, "tools/list", params).await?;
        let page: ToolPage =
            serde_json::from_value(answer).map_err(|error| AppsError::Answer(error.to_string()))?;
        for app in page.tools.into_iter().filter_map(app_of) {
            apps.entry(app.id.clone()).or_insert(app);
        }
        cursor = page.next_cursor.filter(|cursor| !cursor.is_empty());
        if cursor.is_none() {
            break;
        }
    }
    Ok(apps.into_values().collect())
}

fn app_of(tool: AppTool) -> Option<AccessibleApp> {
    let ToolMeta { connector_id, connector_name, connector_description } = tool.meta?;
    let said = |text: Option<String>| text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    Some(AccessibleApp {
        id: said(connector_id)?,
        name: said(connector_name),
        description: said(connector_description),
    })
}

struct AppSession<'b> {
    backend: &'b AppsBackend,
    /// What the server calls it, if it does.
    id: Option<String>,
}

impl AppSession<'_> {
    async fn begin(&mut self) -> Result<(), AppsError> {
        let client = json!({ "name": "codicil", "version": env!("CARGO_PKG_VERSION") });
        let params = json!({ "protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": client });
        self.call(0, "initialize", params).await?;
        self.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(())
    }

    async fn call(&mut self, id: u64, method: &str, params: Value) -> Result<Value, AppsError> {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let bytes = self.post(&request).await?;
        let answer = answer_in(&bytes, id).ok_or_else(|| AppsError::Answer(format!("none to {method}")))?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(AppsError::Answer(format!("{method} was refused"))),
        }
    }

    async fn post(&mut self, message: &Value) -> Result<Vec<u8>, AppsError> {
        let mut request = self.backend.request(Method::POST, self.backend.apps_path(), &[]).await?;
        request = request.header(header::ACCEPT, "application/json, text/event-stream");
        request = request.header(header::CONTENT_TYPE, "application/json");
        if let Some(id) = &self.id {
            request = request.header(SESSION, id);
        }
        let answer = send(request.header("mcp-protocol-version", PROTOCOL).body(message.to_string())).await?;
        if let Some(id) = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()) {
            self.id = Some(id.to_owned());
        }
        body(answer).await
    }
}

/// The answer to a request, in a body that is one message or a stream of events.
fn answer_in(bytes: &[u8], id: u64) -> Option<Value> {
    let is_answer = |message: &Value| message.get("id").and_then(Value::as_u64) == Some(id);
    if let Ok(message) = serde_json::from_slice::<Value>(bytes) {
        return Some(message).filter(is_answer);
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    events.filter_map(|data| serde_json::from_str(data.trim()).ok()).find(is_answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_in_either_form() {
        let check = |body: &str, expected: Option<Value>| {
            assert_eq!(answer_in(body.as_bytes(), 1), expected, "{body}");
        };
        check(r#"{"id":1,"result":2}"#, Some(json!({ "id": 1, "result": 2 })));
        check("event: message\ndata: {\"method\":\"x\"}\n\ndata: {\"id\":1}\n\n", Some(json!({ "id": 1 })));
        check(r#"{"id":2}"#, None);
        check("nothing", None);
        check("", None);
    }
}
