//! The history of a thread: compaction, injected items, dropping turns (`thread/rollback`, `thread/revert`), and the tokens
//! that it has used.

use serde_json::Value;

use crate::{Thread, ThreadId, TurnId, wire};

/// Starts compacting the model's history of a thread. The turns and items that clients read do not change.
#[wire]
pub struct ThreadCompactStartParams {
    pub thread_id: ThreadId,
}

/// The compaction has started, as a turn with one `contextCompaction` item.
#[wire]
#[derive(Default)]
pub struct ThreadCompactStartResponse {}

/// Adds items to the model's history of a loaded thread. They are stored, but are not items of the thread. A running turn
/// sends one more request with them.
#[wire]
pub struct ThreadInjectItemsParams {
    pub thread_id: ThreadId,
    /// Items in the format of [`ResponseItem`](crate::ResponseItem); must not be empty. If one is invalid, none is added.
    pub items: Vec<Value>,
}

/// The items are added.
#[wire]
pub struct ThreadInjectItemsResponse {}

/// Removes the last turns of a thread permanently. Files that they changed are not restored. Rejected while a turn is
/// running.
#[wire]
pub struct ThreadRollbackParams {
    pub thread_id: ThreadId,
    /// The number of turns, at least 1. If the thread has fewer, all are removed.
    pub num_turns: u32,
}

/// The thread with the remaining turns.
#[wire]
pub struct ThreadRollbackResponse {
    pub thread: Thread,
}

/// Removes a turn and all turns after it permanently. Files that they changed are not restored. A running turn is
/// interrupted first.
#[wire]
pub struct ThreadRevertParams {
    pub thread_id: ThreadId,
    /// The first turn that is removed.
    pub before_turn_id: TurnId,
}

/// The thread after the change, without its turns; `thread/reverted` follows.
#[wire]
pub struct ThreadRevertResponse {
    pub thread: Thread,
    /// The cursor of `thread/turns/list` that starts at the last remaining turn, newest first; null if none is left.
    pub turns_backwards_cursor: Option<String>,
    /// The same for `thread/items/list` and the last remaining item.
    pub items_backwards_cursor: Option<String>,
}

/// Turns of a thread were removed by `thread/revert`. Sent to its subscribers.
#[wire]
pub struct ThreadRevertedNotification {
    pub thread_id: ThreadId,
}

/// The token usage of a thread, sent after each response of the model and after a rollback.
#[wire]
pub struct ThreadTokenUsageUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub token_usage: ThreadTokenUsage,
}

/// Tokens used by a thread. `last`, not `total`, shows how much of the model's context window is in use.
#[wire]
#[derive(Default, Eq)]
pub struct ThreadTokenUsage {
    /// The sum over all responses.
    pub total: TokenUsageBreakdown,
    /// The latest response.
    pub last: TokenUsageBreakdown,
    /// The usable size of the model's context window in tokens; null if it is not known.
    pub model_context_window: Option<i64>,
}

/// Tokens by kind, as the provider counts them.
#[wire]
#[derive(Default, Eq)]
pub struct TokenUsageBreakdown {
    pub total_tokens: i64,
    pub input_tokens: i64,
    /// Included in `input_tokens`.
    pub cached_input_tokens: i64,
    pub output_tokens: i64,
    /// Input tokens that the provider stored in its cache. Included in `input_tokens`.
    #[since("0.166")]
    pub cache_write_input_tokens: i64,
    /// Included in `output_tokens`.
    pub reasoning_output_tokens: i64,
}
