//! Tool calls among a thread's items: their input and their result.

use codicil_client::protocol::{
    CommandExecutionStatus, DynamicToolCallOutputContentItem, FileUpdateChange, McpToolCallStatus,
    PatchChangeKind, ThreadItem,
};
use serde_json::{Value, json};

/// The tool name of commands.
pub(super) const SHELL: &str = "shell";

/// A tool call.
#[derive(Debug)]
pub(super) struct RunningTool {
    /// The type of its item.
    pub kind: String,
    pub name: String,
    pub server: Option<String>,
    pub input: Value,
}

/// The result of a tool call.
#[derive(Debug, PartialEq)]
pub(super) struct ToolOutcome {
    pub output: String,
    pub is_error: bool,
}

/// Returns the tool call of an item, if it is one.
pub(super) fn tool_of(item: &ThreadItem) -> Option<RunningTool> {
    let tool = |kind: &str, name: &str, server: Option<&String>, input: Value| RunningTool {
        kind: kind.to_owned(),
        name: name.to_owned(),
        server: server.cloned(),
        input,
    };
    Some(match item {
        ThreadItem::McpToolCall { server, tool: name, arguments, .. } => {
            tool("mcpToolCall", name, Some(server), arguments.clone())
        }
        ThreadItem::CommandExecution { command, cwd, .. } => {
            tool("commandExecution", SHELL, None, json!({ "command": command, "cwd": cwd }))
        }
        ThreadItem::DynamicToolCall { tool: name, arguments, .. } => {
            tool("dynamicToolCall", name, None, arguments.clone())
        }
        ThreadItem::WebSearch { query, .. } => {
            tool("webSearch", "web_search", None, json!({ "query": query }))
        }
        _ => return None,
    })
}

/// Returns the result of a tool call's item.
pub(super) fn outcome(item: &ThreadItem) -> Option<ToolOutcome> {
    Some(match item {
        ThreadItem::McpToolCall { status, result, error, .. } => ToolOutcome {
            output: match (result, error) {
                (_, Some(error)) => error.message.clone(),
                (Some(result), None) => content(&result.content),
                (None, None) => String::new(),
            },
            is_error: *status != McpToolCallStatus::Completed || error.is_some(),
        },
        ThreadItem::CommandExecution { status, aggregated_output, exit_code, .. } => ToolOutcome {
            output: aggregated_output.clone().unwrap_or_default(),
            is_error: *status != CommandExecutionStatus::Completed || exit_code.is_some_and(|code| code != 0),
        },
        ThreadItem::DynamicToolCall { content_items, success, .. } => ToolOutcome {
            output: content_items.iter().flatten().map(output_text).collect::<Vec<_>>().join("\n"),
            is_error: *success != Some(true),
        },
        ThreadItem::WebSearch { query, .. } => ToolOutcome { output: query.clone(), is_error: false },
        _ => return None,
    })
}

/// Returns all changes of an item as a unified diff with file headers.
pub(super) fn diff(changes: &[FileUpdateChange]) -> String {
    let mut text = String::new();
    for FileUpdateChange { path, kind, diff } in changes {
        let (old, new) = match kind {
            PatchChangeKind::Add => ("/dev/null", path.as_str()),
            PatchChangeKind::Delete => (path.as_str(), "/dev/null"),
            PatchChangeKind::Update { move_path } => (path.as_str(), move_path.as_deref().unwrap_or(path)),
            PatchChangeKind::Unrecognized(_) => (path.as_str(), path.as_str()),
        };
        text.push_str(&format!("--- {old}\n+++ {new}\n"));
        match kind {
            PatchChangeKind::Add => push_whole_file(diff, '+', &mut text),
            PatchChangeKind::Delete => push_whole_file(diff, '-', &mut text),
            _ => text.push_str(diff),
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// Appends a hunk for a file that is added or deleted as a whole.
fn push_whole_file(content: &str, sign: char, text: &mut String) {
    let count = content.lines().count();
    let range = if sign == '+' { format!("-0,0 +1,{count}") } else { format!("-1,{count} +0,0") };
    text.push_str(&format!("@@ {range} @@\n"));
    for line in content.lines() {
        text.push(sign);
        text.push_str(line);
        text.push('\n');
    }
}

/// Returns the text of MCP content; other parts as JSON.
pub(super) fn content(parts: &[Value]) -> String {
    let text = |part: &Value| match part.get("text").and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => part.to_string(),
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn output_text(item: &DynamicToolCallOutputContentItem) -> String {
    match item {
        DynamicToolCallOutputContentItem::InputText { text } => text.clone(),
        DynamicToolCallOutputContentItem::InputImage { .. } => "(an image)".to_owned(),
        DynamicToolCallOutputContentItem::InputAudio { .. } => "(audio)".to_owned(),
        other => serde_json::to_string(other).unwrap_or_default(),
    }
}
