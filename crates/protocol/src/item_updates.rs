//! The `item/*` notifications: an item begins, grows and ends.
//!
//! Every item is announced by `item/started` and closed by `item/completed`; the latter carries its final
//! state, so deltas in between are only for showing progress.

use crate::{ItemId, ThreadId, ThreadItem, TurnId, wire};

/// A unit of work began. Its id is the `itemId` of the deltas and approval requests that follow.
#[wire]
pub struct ItemStartedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item: ThreadItem,
    /// Unix milliseconds. Servers of the 0.118 generation do not send it.
    #[omit]
    pub started_at_ms: Option<i64>,
}

/// A unit of work ended; whatever was streamed before, this is what counts and is stored.
#[wire]
pub struct ItemCompletedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item: ThreadItem,
    /// Unix milliseconds. Servers of the 0.118 generation do not send it.
    #[omit]
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

/// A new section of a reasoning summary begins.
#[wire]
pub struct ReasoningSummaryPartAddedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Counts from 0.
    pub summary_index: i64,
}

/// Text to append to one section of a reasoning summary.
#[wire]
pub struct ReasoningSummaryTextDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
    /// Which entry of the item's `summary`.
    pub summary_index: i64,
}

/// Text to append to raw reasoning; most models never cause it.
#[wire]
pub struct ReasoningTextDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
    /// Which entry of the item's `content`.
    pub content_index: i64,
}

/// Output of a running command, stdout and stderr in one stream.
#[wire]
pub struct CommandExecutionOutputDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// Plain text, unlike the base64 of `command/exec/outputDelta`.
    pub delta: String,
}

/// The agent typed into a command that is still running.
#[wire]
pub struct TerminalInteractionNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The item that started the command, even when that was in an earlier turn.
    pub item_id: ItemId,
    pub process_id: String,
    pub stdin: String,
}

/// What the patch tool answered, for people; the edits themselves are in the item.
#[wire]
pub struct FileChangeOutputDeltaNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub delta: String,
}

/// An MCP tool said how it is getting on.
#[wire]
pub struct McpToolCallProgressNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub item_id: ItemId,
    pub message: String,
}
