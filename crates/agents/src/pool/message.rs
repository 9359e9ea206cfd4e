//! The messages of a reply, as a product shows them.

use std::fmt;

use codicil_client::{
    ApprovalRequest, ClientError, CompletedTurn,
    protocol::{ItemId, PatchApplyStatus, ThreadId, ToolRequestUserInputQuestion, TurnId},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of an agent's reply. In JSON it is an object whose `type` is the variant in snake case; a product's frontend
/// written in Rust reads it back into this type.
///
/// A reply ends with exactly one [`Complete`](Self::Complete) or final [`Error`](Self::Error), and every
/// [`ToolUse`](Self::ToolUse) before it has its [`ToolResult`](Self::ToolResult).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum StreamMessage {
    /// A piece of the answer.
    Text {
        /// Text to append.
        text: String,
    },
    /// A piece of the model's visible reasoning.
    Thinking {
        /// Text to append.
        text: String,
    },
    /// A tool call started.
    ToolUse {
        /// The item; its result has the same id.
        id: ItemId,
        /// The name of the tool; `shell` for commands.
        name: String,
        /// The MCP server that provides the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        server: Option<String>,
        /// The arguments; for `shell` an object with `command` and `cwd`.
        input: Value,
    },
    /// A tool call ended.
    ToolResult {
        /// The item of the [`ToolUse`](StreamMessage::ToolUse).
        id: ItemId,
        /// The output: text, or JSON for other content.
        output: String,
        /// Whether the call failed, was declined, or did not end.
        is_error: bool,
    },
    /// The turn needs an approval; answered with [`Pool::decide`](super::Pool::decide).
    ApprovalRequest {
        /// The id for the answer.
        id: QuestionId,
        /// The subject of the approval. Edits come with their changes, after the [`Diff`](StreamMessage::Diff) that
        /// proposes them.
        approval: ApprovalRequest,
    },
    /// The agent has questions for the user; answered with [`Pool::answer`](super::Pool::answer).
    InputRequest {
        /// The id for the answer.
        id: QuestionId,
        /// One to three questions.
        questions: Vec<ToolRequestUserInputQuestion>,
    },
    /// A question was answered or is no longer open.
    Resolved {
        /// The id of the question.
        id: QuestionId,
    },
    /// Changes to files, as a unified diff.
    Diff {
        /// The item with the changes; `None` for all changes of the turn so far.
        #[serde(skip_serializing_if = "Option::is_none")]
        item_id: Option<ItemId>,
        /// The diff, file by file.
        diff: String,
        /// Whether the changes are made. The state of an item changes once, from proposed to one of the others.
        state: EditState,
    },
    /// An item started or completed. Only with [`PoolSettings::lifecycle`](super::PoolSettings::lifecycle).
    Item {
        /// The item.
        id: ItemId,
        /// Its type in the protocol, such as `agentMessage`.
        kind: String,
        /// Whether it started or completed.
        stage: ItemStage,
    },
    /// Messages were dropped here because they were not read in time.
    Missed {
        /// The number of dropped messages.
        count: u64,
    },
    /// The turn has ended. This is the final message.
    Complete {
        /// The thread, with which the conversation can be resumed.
        session_id: Option<ThreadId>,
        /// The turn, if it was started.
        turn_id: Option<TurnId>,
        /// How the turn ended.
        status: ReplyStatus,
    },
    /// An error.
    Error {
        /// Human-readable explanation.
        message: String,
        /// The name of the client's error, such as `turn_failed`; `error` for one that the server reported.
        code: String,
        /// Whether this is the final message. Otherwise the turn continues, or its end follows.
        is_final: bool,
    },
}

/// How a turn ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyStatus {
    /// The turn completed.
    Completed,
    /// The turn was interrupted.
    Interrupted,
}

/// The state of changes to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditState {
    /// The agent wants to make the changes; no file is changed yet.
    Proposed,
    /// The files are changed.
    Applied,
    /// The changes could not be made, or the turn ended before.
    Failed,
    /// A person or a policy declined the changes; no file is changed.
    Declined,
}

impl From<&PatchApplyStatus> for EditState {
    fn from(status: &PatchApplyStatus) -> Self {
        match status {
            PatchApplyStatus::InProgress => Self::Proposed,
            PatchApplyStatus::Completed => Self::Applied,
            PatchApplyStatus::Failed | PatchApplyStatus::Unrecognized(_) => Self::Failed,
            PatchApplyStatus::Declined => Self::Declined,
        }
    }
}

/// The stage of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStage {
    /// The item started.
    Started,
    /// The item completed.
    Completed,
}

/// The id of a question, unique within the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct QuestionId(pub u64);

impl fmt::Display for QuestionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StreamMessage {
    /// Returns whether this is the final message.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Complete { .. } | Self::Error { is_final: true, .. })
    }

    /// Returns the final message of a turn that the client has run.
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
        // The code gives the kind of failure; the message is the server's own text.
        let message = error.unfinished().map_or_else(|| error.to_string(), |turn| turn.message.clone());
        Self::Error { message, code: error.name().to_owned(), is_final: true }
    }

    pub(super) fn stopped(session_id: Option<ThreadId>) -> Self {
        Self::Complete { session_id, turn_id: None, status: ReplyStatus::Interrupted }
    }

    /// Returns the approximate size in memory.
    pub(super) fn size(&self) -> usize {
        const FIXED_SIZE: usize = 256;
        FIXED_SIZE
            + match self {
                Self::Text { text } | Self::Thinking { text } => text.len(),
                Self::ToolResult { output, .. } => output.len(),
                Self::Diff { diff, .. } => diff.len(),
                Self::ToolUse { input, .. } => value_size(input),
                Self::Error { message, .. } => message.len(),
                Self::ApprovalRequest { approval: ApprovalRequest::FileChange(edits), .. } => {
                    edits.changes.iter().map(|change| change.path.len() + change.diff.len()).sum()
                }
                _ => 0,
            }
    }
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_size).sum::<usize>() + 16 * values.len(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() + 32 + value_size(value)).sum()
        }
        _ => 16,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn approvals() -> Vec<Value> {
        let field = json!({ "type": "string", "title": "Name" });
        let form = json!({ "type": "object", "properties": { "name": field }, "required": ["name"] });
        let kind = json!({ "type": "update", "move_path": null });
        let change = json!({ "path": "a", "kind": kind, "diff": "@@ -1 +1 @@\n-a\n+b\n" });
        vec![
            json!({ "type": "command", "threadId": "t", "turnId": "u", "itemId": "i", "command": "ls", "cwd": "/" }),
            json!({
                "type": "file_change", "threadId": "t", "turnId": "u", "itemId": "i", "reason": "because", "changes": [change],
            }),
            json!({
                "type": "permissions", "threadId": "t", "turnId": "u", "itemId": "i",
                "permissions": { "network": { "enabled": true } },
            }),
            json!({
                "type": "elicitation", "threadId": "t", "turnId": "u", "serverName": "s", "mode": "form", "message": "?",
                "requestedSchema": form,
            }),
            json!({
                "type": "elicitation", "threadId": "t", "turnId": null, "serverName": "s", "mode": "url", "message": "?",
                "url": "https://a", "elicitationId": "e",
            }),
        ]
    }

    fn messages() -> Vec<Value> {
        let option = json!({ "label": "Yes", "description": "Do it" });
        let question = json!({ "id": "q", "header": "H", "question": "?", "options": [option] });
        let mut messages = vec![
            json!({ "type": "text", "text": "a" }),
            json!({ "type": "thinking", "text": "a" }),
            json!({ "type": "tool_use", "id": "i", "name": "find", "server": "s", "input": { "a": [1.5, null] } }),
            json!({ "type": "tool_use", "id": "i", "name": "shell", "input": { "command": "ls" } }),
            json!({ "type": "tool_result", "id": "i", "output": "o", "isError": true }),
            json!({ "type": "input_request", "id": 2, "questions": [question] }),
            json!({ "type": "resolved", "id": 2 }),
            json!({ "type": "diff", "itemId": "i", "diff": "d", "state": "proposed" }),
            json!({ "type": "diff", "diff": "d", "state": "applied" }),
            json!({ "type": "item", "id": "i", "kind": "agentMessage", "stage": "completed" }),
            json!({ "type": "missed", "count": 3 }),
            json!({ "type": "complete", "sessionId": "t", "turnId": null, "status": "interrupted" }),
            json!({ "type": "error", "message": "m", "code": "turn_failed", "isFinal": true }),
        ];
        let approvals = approvals().into_iter();
        messages.extend(
            approvals.map(|approval| json!({ "type": "approval_request", "id": 1, "approval": approval })),
        );
        messages
    }

    /// Fails to compile for a new kind, so that a message of it is added to [`messages`].
    fn kind(message: &StreamMessage) -> &'static str {
        match message {
            StreamMessage::Text { .. } => "text",
            StreamMessage::Thinking { .. } => "thinking",
            StreamMessage::ToolUse { .. } => "tool_use",
            StreamMessage::ToolResult { .. } => "tool_result",
            StreamMessage::ApprovalRequest { .. } => "approval_request",
            StreamMessage::InputRequest { .. } => "input_request",
            StreamMessage::Resolved { .. } => "resolved",
            StreamMessage::Diff { .. } => "diff",
            StreamMessage::Item { .. } => "item",
            StreamMessage::Missed { .. } => "missed",
            StreamMessage::Complete { .. } => "complete",
            StreamMessage::Error { .. } => "error",
        }
    }

    #[test]
    fn every_kind_of_message_is_read_as_it_was_written() {
        for json in messages() {
            let message: StreamMessage =
                serde_json::from_value(json.clone()).unwrap_or_else(|error| panic!("{error}: {json}"));
            assert_eq!(kind(&message), json["type"], "{json}");
            let written = serde_json::to_string(&message).unwrap();
            assert_eq!(serde_json::from_str::<StreamMessage>(&written).unwrap(), message, "{written}");
            // Every member of the example is written again: nothing was ignored.
            let written: Value = serde_json::from_str(&written).unwrap();
            assert_contains(&written, &json);
        }
    }

    #[track_caller]
    fn assert_contains(whole: &Value, part: &Value) {
        match (whole, part) {
            (Value::Object(whole), Value::Object(part)) => {
                for (name, value) in part {
                    assert_contains(whole.get(name).unwrap_or(&Value::Null), value);
                }
            }
            (Value::Array(whole), Value::Array(part)) => {
                assert_eq!(whole.len(), part.len());
                whole.iter().zip(part).for_each(|(whole, part)| assert_contains(whole, part));
            }
            _ => assert_eq!(whole, part),
        }
    }
}
