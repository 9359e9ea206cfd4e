//! Messages that a client should show to the user: `error`, `model/rerouted`, `deprecationNotice`, `configWarning`.
//!
//! An `error` does not end a turn. `turn/completed` does, and carries the same error if the turn failed.

use serde_json::Value;

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

/// Returns the memory and load of the server. Has no parameters.
#[wire]
#[derive(Default)]
pub struct ServerDiagnosticsParams {}

/// The memory and load of the server.
#[wire]
pub struct ServerDiagnosticsResponse {
    pub gauges: Vec<ServerDiagnosticsGauge>,
    pub process: ServerDiagnosticsProcess,
}

/// The process of the server.
#[wire]
pub struct ServerDiagnosticsProcess {
    pub id: u32,
    pub physical_footprint_bytes: Option<u64>,
    pub resident_memory_bytes: Option<u64>,
}

/// A number about the state of the server.
#[wire]
pub struct ServerDiagnosticsGauge {
    pub name: String,
    pub value: u64,
}

/// Something that the user should know.
#[wire]
pub struct WarningNotification {
    /// The thread that it is about. Null: the whole server.
    pub thread_id: Option<ThreadId>,
    pub message: String,
}

/// The provider asks the user to verify something before it serves a model fully.
#[wire]
pub struct ModelVerificationNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub verifications: Vec<ModelVerification>,
}

/// What is to be verified.
#[wire(open)]
#[derive(Eq)]
pub enum ModelVerification {
    TrustedAccessForCyber,
}

/// The provider checks the model's output before it sends it, which takes longer.
#[wire]
pub struct ModelSafetyBufferingUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub model: String,
    pub reasons: Vec<String>,
    pub show_buffering_ui: bool,
    pub use_cases: Vec<String>,
    pub faster_model: Option<String>,
}

/// The credentials of a provider are being renewed, or were renewed.
#[wire]
pub struct AuthRecoveryNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub message: String,
    pub provider: String,
}

/// The provider's assessment of a turn.
#[wire]
pub struct TurnModerationMetadataNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub metadata: Value,
}
