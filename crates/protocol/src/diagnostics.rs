//! Messages that a client should show to the user: `error`, `model/rerouted`, `deprecationNotice`, `configWarning`.
//!
//! An `error` does not end a turn. `turn/completed` does, and carries the same error if the turn failed.

use crate::{ThreadId, TurnError, TurnId, wire};

/// An error that occurred during a turn.
#[wire]
pub struct ErrorNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub error: TurnError,
    /// Whether the server retries and the turn goes on.
    pub will_retry: bool,
}

/// The provider served a request with another model than the requested one.
#[wire]
pub struct ModelReroutedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub from_model: String,
    pub to_model: String,
    pub reason: ModelRerouteReason,
}

/// The reason for which a provider chose another model.
#[wire(open)]
#[derive(Eq)]
pub enum ModelRerouteReason {
    HighRiskCyberActivity,
}

/// A deprecated setting or method is in use. Sent after the request that uses it.
#[wire]
pub struct DeprecationNoticeNotification {
    pub summary: String,
    /// The replacement, if there is one.
    pub details: Option<String>,
}

/// Part of the configuration was ignored because it cannot be used.
#[wire]
pub struct ConfigWarningNotification {
    pub summary: String,
    pub details: Option<String>,
    /// The file with the problem, if it is a single file.
    #[omit]
    pub path: Option<String>,
    /// The location in that file.
    #[omit]
    pub range: Option<TextRange>,
}

/// A range in a configuration file.
#[wire]
pub struct TextRange {
    pub start: TextPosition,
    pub end: TextPosition,
}

/// A position in a file. Line and column count from 1; columns are characters.
#[wire]
pub struct TextPosition {
    pub line: u64,
    pub column: u64,
}
