//! The events of `--json`, in the form that the reference's SDKs parse.

use codicil_protocol::{
    CommandExecutionStatus, McpToolCallStatus, PatchApplyStatus, PatchChangeKind, ThreadId, ThreadItem,
    TokenUsageBreakdown, WebSearchAction,
};
use serde::Serialize;
use serde_json::Value;

/// One line of output.
#[derive(Debug, Serialize)]
#[serde(tag = "type")]
pub enum JsonLine<'a> {
    #[serde(rename = "thread.started")]
    ThreadStarted { thread_id: &'a ThreadId },
    #[serde(rename = "turn.started")]
    TurnStarted,
    #[serde(rename = "turn.completed")]
    TurnCompleted { usage: TurnTokens },
    #[serde(rename = "turn.failed")]
    TurnFailed { error: JsonMessage },
    #[serde(rename = "item.started")]
    ItemStarted { item: &'a JsonItem },
    #[serde(rename = "item.updated")]
    ItemUpdated { item: &'a JsonItem },
    #[serde(rename = "item.completed")]
    ItemCompleted { item: &'a JsonItem },
    #[serde(rename = "error")]
    Error { message: &'a str },
}

#[derive(Clone, Debug, Serialize)]
pub struct JsonMessage {
    pub message: String,
}

/// Tokens used by the turn.
#[derive(Debug, Serialize)]
pub struct TurnTokens {
    input_tokens: i64,
    cached_input_tokens: i64,
    /// Always 0: the protocol does not report it, but SDKs expect the member.
    cache_write_input_tokens: i64,
    output_tokens: i64,
    reasoning_output_tokens: i64,
}

impl From<Option<TokenUsageBreakdown>> for TurnTokens {
    fn from(used: Option<TokenUsageBreakdown>) -> Self {
        let count = |of: fn(&TokenUsageBreakdown) -> i64| used.as_ref().map_or(0, of);
        Self {
            input_tokens: count(|used| used.input_tokens),
            cached_input_tokens: count(|used| used.cached_input_tokens),
            cache_write_input_tokens: 0,
            output_tokens: count(|used| used.output_tokens),
            reasoning_output_tokens: count(|used| used.reasoning_output_tokens),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct JsonItem {
    pub id: String,
    #[serde(flatten)]
    pub details: ItemDetails,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ItemDetails {
    AgentMessage {
        text: String,
    },
    Reasoning {
        text: String,
    },
    CommandExecution {
        command: String,
        aggregated_output: String,
        exit_code: Option<i32>,
        status: ItemStatus,
    },
    FileChange {
        changes: Vec<JsonChange>,
        status: ItemStatus,
    },
    McpToolCall {
        server: String,
        tool: String,
        arguments: Value,
        result: Option<ToolResult>,
        error: Option<JsonMessage>,
        status: ItemStatus,
    },
    WebSearch {
        query: String,
        action: Option<WebSearchAction>,
    },
    TodoList {
        items: Vec<TodoEntry>,
    },
    Error {
        message: String,
    },
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    InProgress,
    Completed,
    /// Also used for declined items, for which SDKs have no status.
    Failed,
}

#[derive(Clone, Debug, Serialize)]
pub struct JsonChange {
    path: String,
    kind: &'static str,
}

#[derive(Clone, Debug, Serialize)]
pub struct ToolResult {
    content: Vec<Value>,
    structured_content: Option<Value>,
}

#[derive(Clone, Debug, Serialize)]
pub struct TodoEntry {
    pub text: String,
    pub completed: bool,
}

/// Whether an item has just started or is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStage {
    Started,
    Completed,
}

/// Returns the JSON form of an item. Messages and reasoning are only reported when they are complete; items
/// of kinds that SDKs do not know are never reported.
pub fn details(item: &ThreadItem, stage: ItemStage) -> Option<ItemDetails> {
    let is_complete = stage == ItemStage::Completed;
    match item {
        // A message that a retry has discarded ends empty.
        ThreadItem::AgentMessage { text, .. } if is_complete => {
            (!text.is_empty()).then(|| ItemDetails::AgentMessage { text: text.clone() })
        }
        ThreadItem::Reasoning { summary, content, .. } if is_complete => {
            let text = if summary.is_empty() { content.join("\n\n") } else { summary.join("\n\n") };
            (!text.is_empty()).then_some(ItemDetails::Reasoning { text })
        }
        ThreadItem::CommandExecution { command, aggregated_output, exit_code, status, .. } => {
            Some(ItemDetails::CommandExecution {
                command: command.clone(),
                aggregated_output: aggregated_output.clone().unwrap_or_default(),
                exit_code: *exit_code,
                status: match status {
                    CommandExecutionStatus::InProgress => ItemStatus::InProgress,
                    CommandExecutionStatus::Completed => ItemStatus::Completed,
                    _ => ItemStatus::Failed,
                },
            })
        }
        ThreadItem::FileChange { changes, status, .. } => Some(ItemDetails::FileChange {
            changes: changes
                .iter()
                .map(|change| JsonChange { path: change.path.clone(), kind: change_kind(&change.kind) })
                .collect(),
            status: match status {
                PatchApplyStatus::InProgress => ItemStatus::InProgress,
                PatchApplyStatus::Completed => ItemStatus::Completed,
                _ => ItemStatus::Failed,
            },
        }),
        ThreadItem::McpToolCall { server, tool, status, arguments, result, error, .. } => {
            let result = result.as_ref().map(|result| ToolResult {
                content: result.content.clone(),
                structured_content: result.structured_content.clone(),
            });
            Some(ItemDetails::McpToolCall {
                server: server.clone(),
                tool: tool.clone(),
                arguments: arguments.clone(),
                result,
                error: error.as_ref().map(|error| JsonMessage { message: error.message.clone() }),
                status: match status {
                    McpToolCallStatus::InProgress => ItemStatus::InProgress,
                    McpToolCallStatus::Completed => ItemStatus::Completed,
                    _ => ItemStatus::Failed,
                },
            })
        }
        ThreadItem::WebSearch { query, action, .. } => {
            Some(ItemDetails::WebSearch { query: query.clone(), action: action.clone() })
        }
        _ => None,
    }
}

fn change_kind(kind: &PatchChangeKind) -> &'static str {
    match kind {
        PatchChangeKind::Add => "add",
        PatchChangeKind::Delete => "delete",
        PatchChangeKind::Update { .. } | PatchChangeKind::Unrecognized(_) => "update",
    }
}
