//! Maps notifications of older servers that are not in the protocol's table.

use codicil_client::protocol::{ItemId, rpc::Notification};
use serde_json::{Value, json};

use super::{
    mapper::{ItemKind, MessageMapper},
    message::{EditState, StreamMessage},
    tool_items::{self, RunningTool, ToolOutcome},
};

impl MessageMapper {
    pub(super) fn map_legacy(&mut self, unknown: &Notification, out: &mut Vec<StreamMessage>) {
        let params = unknown.params.as_ref().unwrap_or(&Value::Null);
        // Some servers put the fields into `item`.
        let body = params.get("item").unwrap_or(params);
        let id = text(params, &["itemId"]).or_else(|| text(body, &["id", "itemId", "callId"]));
        let id = id.filter(|id| !id.is_empty()).map(ItemId::from);
        match unknown.method.as_str() {
            "item/mcpToolCall/started" => self.start_legacy_tool(id, mcp_tool(body), out),
            "item/mcpToolCall/completed" => self.end_legacy_tool(id, mcp_tool(body), mcp_outcome(body), out),
            "item/commandExecution/started" => self.start_legacy_tool(id, command(body), out),
            "item/commandExecution/completed" => {
                self.end_legacy_tool(id, command(body), command_outcome(body), out);
            }
            "item/agentMessage/completed" => {
                let message = text(body, &["text", "message"]).unwrap_or_default();
                self.whole_message(id.as_ref(), message, out);
            }
            "item/started" => {
                if let (Some(id), Some(kind)) = (id, text(body, &["itemType", "type"])) {
                    self.open(&id, camel_case(kind), ItemKind::Other, out);
                }
            }
            "item/completed" => {
                if let Some(id) = id {
                    let kind = text(body, &["itemType", "type"]).map(camel_case).unwrap_or_default();
                    self.close(&id, &kind, out);
                }
            }
            method if method.starts_with("item/patch/") => patch(id, method, body, out),
            method if method.starts_with("codex/event/") => self.telemetry += 1,
            _ => {}
        }
    }

    fn start_legacy_tool(&mut self, id: Option<ItemId>, tool: RunningTool, out: &mut Vec<StreamMessage>) {
        let id = id.unwrap_or_else(|| self.next_id());
        self.open_tool(&id, tool, out);
    }

    fn end_legacy_tool(
        &mut self,
        id: Option<ItemId>,
        tool: RunningTool,
        outcome: ToolOutcome,
        out: &mut Vec<StreamMessage>,
    ) {
        let id = id.or_else(|| self.last_open(&tool.kind)).unwrap_or_else(|| self.next_id());
        // Some servers report only the end.
        self.open_tool(&id, tool, out);
        self.close_tool(&id, outcome, out);
    }
}

fn mcp_tool(body: &Value) -> RunningTool {
    let input = ["arguments", "input", "args"].iter().find_map(|name| body.get(name));
    RunningTool {
        kind: "mcpToolCall".to_owned(),
        name: text(body, &["tool", "toolName", "name"]).unwrap_or_default().to_owned(),
        server: text(body, &["server", "serverName"]).map(str::to_owned),
        input: input.cloned().unwrap_or_else(|| json!({})),
    }
}

fn mcp_outcome(body: &Value) -> ToolOutcome {
    let error = body.get("error").filter(|error| !error.is_null());
    let result = ["result", "output"].iter().find_map(|name| body.get(name));
    let output = match (error, result) {
        (Some(error), _) => text(error, &["message"]).map_or_else(|| to_text(error), str::to_owned),
        (None, Some(result)) => match result.get("content").and_then(Value::as_array) {
            Some(parts) => tool_items::content(parts),
            None => to_text(result),
        },
        (None, None) => String::new(),
    };
    let is_failed = text(body, &["status"]).is_some_and(|status| status == "failed");
    let is_error = error.is_some() || is_failed || is_set(body, "isError");
    ToolOutcome { output, is_error: is_error || result.is_some_and(|result| is_set(result, "isError")) }
}

fn command(body: &Value) -> RunningTool {
    let line = match body.get("command") {
        Some(Value::Array(words)) => words.iter().map(to_text).collect::<Vec<_>>().join(" "),
        Some(line) => to_text(line),
        None => String::new(),
    };
    let mut input = json!({ "command": line });
    if let (Some(cwd), Some(members)) = (body.get("cwd"), input.as_object_mut()) {
        members.insert("cwd".to_owned(), cwd.clone());
    }
    RunningTool {
        kind: "commandExecution".to_owned(),
        name: tool_items::SHELL.to_owned(),
        server: None,
        input,
    }
}

fn command_outcome(body: &Value) -> ToolOutcome {
    let output = text(body, &["aggregatedOutput", "output", "stdout"]).unwrap_or_default();
    let stderr = text(body, &["stderr"]).unwrap_or_default();
    let exit_code = body.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
    let is_failed = text(body, &["status"]).is_some_and(|status| matches!(status, "failed" | "declined"));
    ToolOutcome { output: format!("{output}{stderr}"), is_error: exit_code != 0 || is_failed }
}

fn patch(item_id: Option<ItemId>, method: &str, body: &Value, out: &mut Vec<StreamMessage>) {
    let state = match text(body, &["status"]) {
        Some("declined") => EditState::Declined,
        Some("failed") => EditState::Failed,
        _ if method.ends_with("/completed") => EditState::Applied,
        _ => EditState::Proposed,
    };
    let one = |body: &Value| text(body, &["diff", "unifiedDiff", "patch", "delta"]).map(str::to_owned);
    let changes = body.get("changes").and_then(Value::as_array);
    let all = changes.map(|changes| changes.iter().filter_map(one).collect::<Vec<_>>().join("\n"));
    if let Some(diff) = one(body).or(all).filter(|diff| !diff.is_empty()) {
        out.push(StreamMessage::Diff { item_id, diff, state });
    }
}

/// Returns the first of these fields that is a string.
fn text<'v>(body: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| body.get(name).and_then(Value::as_str))
}

/// Returns a string as it is, and any other value as JSON.
fn to_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn is_set(body: &Value, name: &str) -> bool {
    body.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// Converts `agent_message` to the protocol's spelling, `agentMessage`.
fn camel_case(kind: &str) -> String {
    let mut words = kind.split('_');
    let mut name = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        name.push_str(letters.as_str());
    }
    name
}
