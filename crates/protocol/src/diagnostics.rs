//! Things a client should tell people about: `error`, `model/rerouted`, `deprecationNotice`,
//! `configWarning`.
//!
//! An `error` is not the end of a turn. That is always `turn/completed`, with the same error if it failed.

use crate::{ThreadId, TurnError, TurnId, wire};

/// Something went wrong while a turn ran.
#[wire]
pub struct ErrorNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub error: TurnError,
    /// The server tries again by itself and the turn goes on.
    pub will_retry: bool,
}

/// The provider answers with another model than it was asked for.
#[wire]
pub struct ModelReroutedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub from_model: String,
    pub to_model: String,
    pub reason: ModelRerouteReason,
}

/// Why a provider chose another model.
#[wire(open)]
#[derive(Eq)]
pub enum ModelRerouteReason {
    HighRiskCyberActivity,
}

/// A setting or method in use will go away. Sent after the request that uses it.
#[wire]
pub struct DeprecationNoticeNotification {
    pub summary: String,
    /// What to use instead.
    pub details: Option<String>,
}

/// Part of the configuration is ignored or cannot be read; the server runs on without it.
#[wire]
pub struct ConfigWarningNotification {
    pub summary: String,
    pub details: Option<String>,
    /// The file at fault, when it is one file.
    #[omit]
    pub path: Option<String>,
    /// The place in that file.
    #[omit]
    pub range: Option<TextRange>,
}

/// A stretch of a configuration file.
#[wire]
pub struct TextRange {
    pub start: TextPosition,
    pub end: TextPosition,
}

/// A place in a file; both numbers count from 1, columns in characters.
#[wire]
pub struct TextPosition {
    pub line: u64,
    pub column: u64,
}
