//! What a product shows of a turn: one small, flat message at a time.

use std::fmt;

use codicil_client::{
    ClientError, CompletedTurn,
    protocol::{
        CommandExecutionRequestApprovalParams, FileChangeRequestApprovalParams, ItemId,
        McpServerElicitationRequestParams, PermissionsRequestApprovalParams, ThreadId,
        ToolRequestUserInputQuestion, TurnId,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One piece of an agent's reply. In JSON it is an object whose `type` is the variant in snake case.
///
/// A reply ends with exactly one [`Complete`](Self::Complete) or final [`Error`](Self::Error), and every
/// [`ToolUse`](Self::ToolUse) before it has its [`ToolResult`](Self::ToolResult).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum StreamMessage {
    /// More of the answer.
    Text {
        /// To be appended to what there is.
        text: String,
    },
    /// More of what the model lets be seen of its thinking.
    Thinking {
        /// To be appended to what there is.
        text: String,
    },
    /// A tool begins to work.
    ToolUse {
        /// The same as in its result.
        id: ItemId,
        /// `shell` for commands.
        name: String,
        /// The MCP server that has it.
        #[serde(skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The tool's arguments; for `shell` an object with `command` and `cwd`.
        input: Value,
    },
    /// What came of it.
    ToolResult {
        /// That of the [`ToolUse`](StreamMessage::ToolUse).
        id: ItemId,
        /// Text, or JSON where the tool gave something else.
        output: String,
        /// It failed, was refused, or did not get to its end.
        is_error: bool,
    },
    /// Somebody has to decide before the turn goes on; see [`Pool::decide`](super::Pool::decide).
    ApprovalRequest {
        /// To be named in the answer.
        id: QuestionId,
        /// What is to be approved.
        approval: ApprovalSubject,
    },
    /// The agent asks the person; see [`Pool::answer`](super::Pool::answer).
    InputRequest {
        /// To be named in the answer.
        id: QuestionId,
        /// One to three of them.
        questions: Vec<ToolRequestUserInputQuestion>,
    },
    /// A question was answered or is void.
    Resolved {
        /// That of the question.
        id: QuestionId,
    },
    /// Changes to files, as a unified diff.
    Diff {
        /// The item that made them; none for all changes of the turn so far.
        #[serde(skip_serializing_if = "Option::is_none")]
        item_id: Option<ItemId>,
        /// One file after the other.
        diff: String,
    },
    /// An item began or ended. Only with [`PoolSettings::lifecycle`](super::PoolSettings::lifecycle).
    Item {
        /// The item.
        id: ItemId,
        /// Its type in the protocol's words, such as `agentMessage`.
        kind: String,
        /// Which of the two.
        stage: ItemStage,
    },
    /// So many messages were dropped here, because they were not read in time.
    Missed {
        /// How many.
        count: u64,
    },
    /// The turn is over. Always the last message.
    Complete {
        /// The thread, under which the conversation can be resumed.
        session_id: Option<ThreadId>,
        /// The turn, if it had begun.
        turn_id: Option<TurnId>,
        /// Whether it came to its end.
        status: ReplyStatus,
    },
    /// Something went wrong.
    Error {
        /// For people.
        message: String,
        /// The client's name for it, such as `turn_failed`; `error` for one that the server reported.
        code: String,
        /// Nothing follows. Otherwise the turn goes on, or its end is still to come.
        is_final: bool,
    },
}

/// How a turn ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyStatus {
    /// By itself.
    Completed,
    /// Somebody stopped it.
    Interrupted,
}

/// Where an item is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStage {
    /// It has begun.
    Started,
    /// It has its final state.
    Completed,
}

/// A question of a server, unique within the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionId(pub u64);

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What an approval is about, as the server asked. In JSON its `kind` tells which.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovalSubject {
    /// May this command run?
    Command(CommandExecutionRequestApprovalParams),
    /// May these edits be made? The edits are in the item, of which a [`StreamMessage::Diff`] was sent.
    FileChange(FileChangeRequestApprovalParams),
    /// May the agent have these permissions?
    Permissions(PermissionsRequestApprovalParams),
    /// Does an MCP server get what it wants, usually the approval of a call?
    Elicitation(McpServerElicitationRequestParams),
}

impl StreamMessage {
    /// Whether nothing follows.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Complete { .. } | Self::Error { is_final: true, .. })
    }

    /// The last message of a turn that the client has run.
    pub(super) fn ending(session: &ThreadId, result: Result<CompletedTurn, ClientError>) -> Self {
        let complete = |turn: &CompletedTurn, status| Self::Complete {
            session_id: Some(session.clone()),
            turn_id: Some(turn.turn.id.clone()).filter(|id| !id.is_empty()),
            status,
        };
        match result {
            Ok(done) => complete(&done, ReplyStatus::Completed),
            Err(ClientError::TurnCancelled(turn)) => complete(&turn.so_far, ReplyStatus::Interrupted),
            Err(error) => Self::failure(&error),
        }
    }

    pub(super) fn failure(error: &ClientError) -> Self {
        // The kind of failure is in the code; people want to read what the server said.
        let message = error.unfinished().map_or_else(|| error.to_string(), |turn| turn.message.clone());
        Self::Error { message, code: error.name().to_owned(), is_final: true }
    }

    pub(super) fn stopped(session_id: Option<ThreadId>) -> Self {
        Self::Complete { session_id, turn_id: None, status: ReplyStatus::Interrupted }
    }

    /// Roughly what it takes in memory.
    pub(super) fn size(&self) -> usize {
        const SMALL: usize = 256;
        SMALL
            + match self {
                Self::Text { text } | Self::Thinking { text } => text.len(),
                Self::ToolResult { output, .. } => output.len(),
                Self::Diff { diff, .. } => diff.len(),
                Self::ToolUse { input, .. } => weight(input),
                Self::Error { message, .. } => message.len(),
                _ => 0,
            }
    }
}

fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(weight).sum::<usize>() + 16 * values.len(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + 32 + weight(value)).sum(),
        _ => 16,
    }
}
