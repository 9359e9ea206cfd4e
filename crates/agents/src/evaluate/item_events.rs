//! Converts the agent's own commands, edits, searches and MCP calls into events.

use std::time::Duration;

use codicil_client::protocol::{
    CommandExecutionStatus, McpToolCallError, McpToolCallResult, McpToolCallStatus, PatchApplyStatus,
    ThreadItem,
};
use serde_json::{Value, json};

use super::events::{MAX_OUTPUT, ToolInvoked, ToolKind, truncate};

/// Returns the event of a completed item; `None` for items that are not tool calls, and for the prompt's own tools,
/// whose events are emitted when the calls are answered.
pub(super) fn tool_invoked(adapter: &str, prompt: &str, item: &ThreadItem) -> Option<ToolInvoked> {
    let used = tool_use(item)?;
    Some(ToolInvoked {
        adapter: adapter.to_owned(),
        prompt: prompt.to_owned(),
        kind: used.kind,
        name: used.name,
        call_id: item.id().map(ToString::to_string).unwrap_or_default(),
        params: used.params,
        success: used.success,
        output: truncate(&used.output, MAX_OUTPUT),
        duration: used.millis.and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis),
    })
}

struct ToolUse {
    kind: ToolKind,
    name: String,
    params: Value,
    success: bool,
    output: String,
    millis: Option<i64>,
}

fn tool_use(item: &ThreadItem) -> Option<ToolUse> {
    match item {
        ThreadItem::CommandExecution {
            command,
            cwd,
            status,
            aggregated_output,
            exit_code,
            duration_ms,
            ..
        } => Some(ToolUse {
            kind: ToolKind::Command,
            name: "command".to_owned(),
            params: json!({ "command": command, "cwd": cwd }),
            success: *status == CommandExecutionStatus::Completed && exit_code.is_none_or(|code| code == 0),
            output: aggregated_output.clone().unwrap_or_default(),
            millis: *duration_ms,
        }),
        ThreadItem::FileChange { changes, status, .. } => Some(ToolUse {
            kind: ToolKind::FileChange,
            name: "file_change".to_owned(),
            params: json!({ "changes": changes }),
            success: *status == PatchApplyStatus::Completed,
            output: changes.iter().map(|change| change.path.as_str()).collect::<Vec<_>>().join("\n"),
            millis: None,
        }),
        ThreadItem::McpToolCall { server, tool, status, arguments, result, error, duration_ms, .. } => {
            Some(ToolUse {
                kind: ToolKind::Mcp { server: server.clone() },
                name: tool.clone(),
                params: arguments.clone(),
                success: *status == McpToolCallStatus::Completed && error.is_none(),
                output: mcp_output(result.as_ref(), error.as_ref()),
                millis: *duration_ms,
            })
        }
        ThreadItem::WebSearch { query, .. } => Some(ToolUse {
            kind: ToolKind::WebSearch,
            name: "web_search".to_owned(),
            params: json!({ "query": query }),
            success: true,
            output: String::new(),
            millis: None,
        }),
        _ => None,
    }
}

fn mcp_output(result: Option<&McpToolCallResult>, error: Option<&McpToolCallError>) -> String {
    if let Some(error) = error {
        return error.message.clone();
    }
    let content = result.map(|result| result.content.as_slice()).unwrap_or_default();
    let texts = content.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(status: &str, exit_code: Option<i32>) -> Value {
        json!({
            "type": "commandExecution", "id": "i", "command": "ls", "cwd": "/", "status": status,
            "commandActions": [], "aggregatedOutput": "a", "exitCode": exit_code, "durationMs": 7,
        })
    }

    #[test]
    fn items_become_events() {
        let check = |item: Value, expected: Option<(&str, bool, &str)>| {
            let item: ThreadItem = serde_json::from_value(item).unwrap();
            let event = tool_invoked("a", "p", &item);
            let found = event.as_ref().map(|event| (&*event.name, event.success, &*event.output));
            assert_eq!(found, expected, "{item:?}");
        };
        check(command("completed", Some(0)), Some(("command", true, "a")));
        check(command("completed", Some(2)), Some(("command", false, "a")));
        check(command("completed", None), Some(("command", true, "a")));
        check(command("failed", Some(1)), Some(("command", false, "a")));
        check(command("declined", None), Some(("command", false, "a")));
        for (status, success) in [("completed", true), ("failed", false), ("declined", false)] {
            let changes = json!([{ "path": "/a", "kind": { "type": "add" }, "diff": "" }]);
            let item = json!({ "type": "fileChange", "id": "i", "changes": changes, "status": status });
            check(item, Some(("file_change", success, "/a")));
        }
        let mcp = |status: &str, result: Value, error: Value| {
            json!({ "type": "mcpToolCall", "id": "i", "server": "s", "tool": "t", "status": status,
                    "arguments": {}, "result": result, "error": error, "durationMs": null })
        };
        let result = json!({ "content": [{ "type": "text", "text": "ok" }], "structuredContent": null });
        check(mcp("completed", result, Value::Null), Some(("t", true, "ok")));
        check(mcp("failed", Value::Null, json!({ "message": "no" })), Some(("t", false, "no")));
        check(json!({ "type": "webSearch", "id": "i", "query": "rust" }), Some(("web_search", true, "")));
        check(json!({ "type": "agentMessage", "id": "i", "text": "x" }), None);
        check(json!({ "type": "reasoning", "id": "i" }), None);
        check(json!({ "type": "contextCompaction", "id": "i" }), None);
        let own = json!({ "type": "dynamicToolCall", "id": "i", "tool": "t", "arguments": {}, "status": "completed" });
        check(own, None);
    }
}
