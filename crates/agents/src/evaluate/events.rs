//! The events of an evaluation, for the observers of its session.

use std::time::Duration;

use codicil_client::protocol::{ThreadId, TurnId};
use serde_json::Value;

use super::budget::TokenUsage;

/// The default of [`ClientConfig::adapter_name`](super::ClientConfig::adapter_name).
pub const ADAPTER_NAME: &str = "app_server";

/// An event of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum EvaluationEvent {
    /// The prompt was rendered.
    PromptRendered(PromptRendered),
    /// A tool was called: one of the prompt's, or one of the agent's own.
    ToolInvoked(ToolInvoked),
    /// The turn completed and its answer could be decoded.
    PromptExecuted(PromptExecuted),
}

impl EvaluationEvent {
    /// Returns the event's name, for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PromptRendered(_) => "PromptRendered",
            Self::ToolInvoked(_) => "ToolInvoked",
            Self::PromptExecuted(_) => "PromptExecuted",
        }
    }
}

/// A rendered prompt, before the turn starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptRendered {
    /// The configured [adapter name](super::ClientConfig::adapter_name).
    pub adapter: String,
    /// The prompt's name.
    pub prompt: String,
    /// The text that is sent: the prompt, the sections that the model asked for, or the message to go on.
    pub text: String,
    /// The names of the offered tools.
    pub tools: Vec<String>,
    /// The JSON schema of the answer, if a value was requested.
    pub output_schema: Option<Value>,
}

/// A finished tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInvoked {
    /// The configured [adapter name](super::ClientConfig::adapter_name).
    pub adapter: String,
    /// The prompt's name.
    pub prompt: String,
    /// The owner of the tool.
    pub kind: ToolKind,
    /// The name of the tool; `command` for commands, `file_change` for edits, `web_search` for searches.
    pub name: String,
    /// The server's id of the call or item.
    pub call_id: String,
    /// The arguments.
    pub params: Value,
    /// Whether the call succeeded.
    pub success: bool,
    /// The output, at most [`MAX_OUTPUT`] bytes.
    pub output: String,
    /// The duration, if known.
    pub duration: Option<Duration>,
}

/// Bytes of a tool's output that an event keeps: 32 KiB.
pub const MAX_OUTPUT: usize = 32 << 10;

/// The owner of the tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// A tool of the prompt.
    Bridged,
    /// A command of the agent.
    Command,
    /// An edit of the agent.
    FileChange,
    /// A tool of an MCP server.
    Mcp {
        /// The server's name in the configuration.
        server: String,
    },
    /// A search by the provider.
    WebSearch,
}

/// A successful evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptExecuted {
    /// The configured [adapter name](super::ClientConfig::adapter_name).
    pub adapter: String,
    /// The prompt's name.
    pub prompt: String,
    /// The answer.
    pub text: String,
    /// The tokens used by the turn, if the server reported them.
    pub usage: Option<TokenUsage>,
    /// The thread of the turn.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
}

/// Truncates a text to at most `max` bytes at a character boundary.
pub(super) fn truncate(text: &str, max: usize) -> String {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_truncated_at_character_boundaries() {
        assert_eq!(truncate("añb", 2), "a");
        assert_eq!(truncate("añb", 3), "añ");
        assert_eq!(truncate("añb", 99), "añb");
    }
}
