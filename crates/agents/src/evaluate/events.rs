//! What an evaluation tells the observers of its session.

use std::time::Duration;

use codicil_client::protocol::{ThreadId, TurnId};
use serde_json::Value;

use super::budget::TokenUsage;

/// Under which name events say who evaluated.
pub const ADAPTER_NAME: &str = "codex_app_server";

/// Something that happened in an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum EvaluationEvent {
    /// The prompt has its final text.
    PromptRendered(PromptRendered),
    /// A tool was called: one of the prompt's, or one that the agent has by itself.
    ToolInvoked(ToolInvoked),
    /// The turn completed, and its answer could be used.
    PromptExecuted(PromptExecuted),
}

impl EvaluationEvent {
    /// The event's name, for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PromptRendered(_) => "PromptRendered",
            Self::ToolInvoked(_) => "ToolInvoked",
            Self::PromptExecuted(_) => "PromptExecuted",
        }
    }
}

/// A prompt as the model will see it, before the turn starts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromptRendered {
    /// [`ADAPTER_NAME`].
    pub adapter: &'static str,
    /// The prompt's name.
    pub prompt: String,
    /// The whole text.
    pub text: String,
    /// The tools that are offered, by name.
    pub tools: Vec<String>,
    /// The schema of the answer, if it has to be a value.
    pub output_schema: Option<Value>,
}

/// A call of a tool, when it is over.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolInvoked {
    /// [`ADAPTER_NAME`].
    pub adapter: &'static str,
    /// The prompt's name.
    pub prompt: String,
    /// Whose tool it is.
    pub kind: ToolKind,
    /// The tool; for commands `command`, for edits `file_change`, for searches `web_search`.
    pub name: String,
    /// The server's id of the call or item.
    pub call_id: String,
    /// What it was called with.
    pub params: Value,
    /// Whether it did what it should.
    pub success: bool,
    /// What it said, at most [`MAX_OUTPUT`] bytes.
    pub output: String,
    /// How long it took, if known.
    pub duration: Option<Duration>,
}

/// The most of a tool's output that an event holds: 32 KiB.
pub const MAX_OUTPUT: usize = 32 << 10;

/// Whose tool was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolKind {
    /// One of the prompt's.
    Bridged,
    /// A command of the agent.
    Command,
    /// An edit of the agent.
    FileChange,
    /// A tool of an MCP server.
    Mcp {
        /// Its name in the configuration.
        server: String,
    },
    /// A search by the provider.
    WebSearch,
}

/// An evaluation that came out well.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptExecuted {
    /// [`ADAPTER_NAME`].
    pub adapter: &'static str,
    /// The prompt's name.
    pub prompt: String,
    /// The answer.
    pub text: String,
    /// What the turn used, if the server said it.
    pub usage: Option<TokenUsage>,
    /// Where it ran.
    pub thread_id: ThreadId,
    /// The turn.
    pub turn_id: TurnId,
}

/// The first so many bytes of a text, without cutting a character.
pub(super) fn shortened(text: &str, max: usize) -> String {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(shortened("añb", 2), "a");
        assert_eq!(shortened("añb", 3), "añ");
        assert_eq!(shortened("añb", 99), "añb");
    }
}
