//! The `item/*` notifications.
//!
//! Every item begins with `item/started` and ends with `item/completed`, which carries its final state. The deltas in
//! between only show progress.

use crate::{FileUpdateChange, ItemId, ThreadId, ThreadItem, TurnId, wire};

/// An item started. Deltas and approval requests refer to it by `itemId`.
#[wire]
pub struct ItemStartedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item: ThreadItem,
    /// Unix milliseconds.
    #[omit]
    #[since("0.166", required)]
    pub started_at_ms: Option<i64>,
}

/// An item ended. Its state here is authoritative and is stored.
#[wire]
pub struct ItemCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item: ThreadItem,
    /// Unix milliseconds.
    #[omit]
    #[since("0.166", required)]
    pub completed_at_ms: Option<i64>,
}

/// Text to append to an agent message.
#[wire]
pub struct AgentMessageDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
}

/// Text to append to a proposed plan.
#[wire]
pub struct PlanDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
}

/// A new section of a reasoning summary started.
#[wire]
pub struct ReasoningSummaryPartAddedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// The index of the section, from 0.
    pub summary_index: i64,
}

/// Text to append to one section of a reasoning summary.
#[wire]
pub struct ReasoningSummaryTextDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
    /// The index in the item's `summary`.
    pub summary_index: i64,
}

/// Text to append to raw reasoning. Most models do not return any.
#[wire]
pub struct ReasoningTextDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
    /// The index in the item's `content`.
    pub content_index: i64,
}

/// Output of a running command, with stdout and stderr in one stream.
#[wire]
pub struct CommandExecutionOutputDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Plain text, unlike the base64 of `command/exec/outputDelta`.
    pub delta: String,
}

/// The agent wrote to the standard input of a running command.
#[wire]
pub struct TerminalInteractionNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The item that started the command, possibly in an earlier turn.
    pub item_id: ItemId,
    pub process_id: String,
    pub stdin: String,
}

/// Human-readable output of the patch tool. The changes themselves are in the item.
#[wire]
pub struct FileChangeOutputDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
}

/// An MCP tool reported progress.
#[wire]
pub struct McpToolCallProgressNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub message: String,
}

/// The changes of an item that the agent is still writing.
#[wire]
pub struct FileChangePatchUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub changes: Vec<FileUpdateChange>,
}
