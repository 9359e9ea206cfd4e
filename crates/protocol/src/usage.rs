//! What a thread has used: `thread/tokenUsage/updated`.

use crate::{ThreadId, TurnId, wire};

/// The model finished a response, or a rollback changed what it sees, and this is what has been used.
#[wire]
pub struct ThreadTokenUsageUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub token_usage: ThreadTokenUsage,
}

/// Tokens used by a thread; how full the model is can be told from `last`, not from `total`.
#[wire]
#[derive(Default, Eq)]
pub struct ThreadTokenUsage {
    /// All responses together.
    pub total: TokenUsageBreakdown,
    /// The latest response.
    pub last: TokenUsageBreakdown,
    /// The part of the model's window that a thread may fill; null when the window is not known.
    pub model_context_window: Option<i64>,
}

/// Tokens by kind, as the provider counts them.
#[wire]
#[derive(Default, Eq)]
pub struct TokenUsageBreakdown {
    pub total_tokens: i64,
    pub input_tokens: i64,
    /// Contained in `input_tokens`.
    pub cached_input_tokens: i64,
    pub output_tokens: i64,
    /// Contained in `output_tokens`.
    pub reasoning_output_tokens: i64,
}
