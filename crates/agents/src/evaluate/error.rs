//! The error of an evaluation: its phase, its cause, and what is known about it.

use std::fmt;

use codicil_client::{
    ClientError,
    protocol::{CodexErrorInfo, ThreadId, TurnError, TurnId},
};
use thiserror::Error;

use super::{
    budget::{BudgetExceeded, TokenUsage},
    config::ConfigError,
    expansion::SectionExpansion,
    schema::OutputError,
};

/// The error of an evaluation.
#[derive(Debug, Error)]
pub enum EvaluateError {
    /// The evaluation failed.
    #[error(transparent)]
    Failed(Box<FailedEvaluation>),
    /// A tool needs more sections of the prompt than the evaluation may expand; see [`SectionExpansion`].
    #[error("more of the prompt is needed: {}", .0.reason)]
    ExpansionRequired(SectionExpansion),
}

impl EvaluateError {
    /// Returns the phase of the failure; `None` if more sections are needed.
    pub fn phase(&self) -> Option<EvaluationPhase> {
        self.failed().map(|failed| failed.phase)
    }

    /// Returns the details of the failure; `None` if more sections are needed.
    pub fn failed(&self) -> Option<&FailedEvaluation> {
        match self {
            Self::Failed(failed) => Some(failed),
            Self::ExpansionRequired(_) => None,
        }
    }

    /// Returns whether the deadline was exceeded.
    pub fn is_deadline(&self) -> bool {
        self.failed().is_some_and(|failed| matches!(failed.cause, EvaluationCause::DeadlineExceeded))
    }
}

impl From<FailedEvaluation> for EvaluateError {
    fn from(failed: FailedEvaluation) -> Self {
        Self::Failed(Box::new(failed))
    }
}

/// The part of an evaluation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvaluationPhase {
    /// Before the model answered: starting the server, signing in, the thread, the turn, the provider; also an
    /// exceeded deadline.
    Request,
    /// The turn failed, or its answer cannot be used.
    Response,
    /// A tool failed.
    Tool,
    /// A limit was exceeded.
    Budget,
}

impl EvaluationPhase {
    /// Returns the phase of a failed turn with this error.
    pub fn of_turn_error(info: Option<&CodexErrorInfo>) -> Self {
        use CodexErrorInfo as E;
        match info {
            Some(E::UsageLimitExceeded | E::SessionBudgetExceeded | E::RateLimitExceeded) => Self::Budget,
            Some(E::SandboxError) => Self::Tool,
            Some(
                E::HttpConnectionFailed { .. }
                | E::Unauthorized
                | E::BadRequest
                | E::FlexUnavailable
                | E::ModelNotFound
                | E::PolicyCapacityUnavailable
                | E::ResponseTooManyFailedAttempts { .. }
                | E::ResponseStreamConnectionFailed { .. }
                | E::ResponseStreamDisconnected { .. },
            ) => Self::Request,
            // Early servers report a model's quota in this form.
            Some(E::Unrecognized(other)) if is_model_cap(other) => Self::Budget,
            Some(
                E::ContextWindowExceeded
                | E::CyberPolicy
                | E::MisalignmentPolicyViolation
                | E::TooManyDenials
                | E::ThreadRollbackFailed
                | E::InternalServerError
                | E::ServerOverloaded
                | E::ActiveTurnNotSteerable { .. }
                | E::Other
                | E::Unrecognized(_),
            )
            | None => Self::Response,
        }
    }
}

impl fmt::Display for EvaluationPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Tool => "tool",
            Self::Budget => "budget",
        })
    }
}

/// A failed evaluation.
#[derive(Debug, Error)]
#[error("{phase}: {cause}")]
pub struct FailedEvaluation {
    /// The phase.
    pub phase: EvaluationPhase,
    /// The cause.
    #[source]
    pub cause: EvaluationCause,
    /// The end of the server's standard error, at most [`STDERR_TAIL`] bytes.
    pub stderr_tail: String,
    /// The thread, if it was started.
    pub thread_id: Option<ThreadId>,
    /// The turn, if it was started.
    pub turn_id: Option<TurnId>,
    /// The tokens used anyway.
    pub usage: Option<TokenUsage>,
}

/// Bytes of the server's standard error that an error keeps: 8 KiB.
pub const STDERR_TAIL: usize = 8 << 10;

impl FailedEvaluation {
    pub(super) fn new(cause: impl Into<EvaluationCause>) -> Self {
        let cause = cause.into();
        Self {
            phase: cause.phase(),
            cause,
            stderr_tail: String::new(),
            thread_id: None,
            turn_id: None,
            usage: None,
        }
    }

    /// Returns the server's error of a failed turn: its message, `codexErrorInfo` and `additionalDetails`.
    pub fn turn_error(&self) -> Option<&TurnError> {
        match &self.cause {
            EvaluationCause::TurnFailed(error) => Some(error),
            _ => None,
        }
    }

    /// Returns the kind of a failed turn's error.
    pub fn codex_error_info(&self) -> Option<&CodexErrorInfo> {
        self.turn_error()?.codex_error_info.as_ref()
    }
}

/// The cause of a failed evaluation.
#[derive(Debug, Error)]
pub enum EvaluationCause {
    /// The configuration or the prompt is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server program does not exist, or is not in `PATH`.
    #[error("cannot start {program}: there is no such program; install it, or set `program`")]
    ProgramNotFound {
        /// The configured program.
        program: String,
    },
    /// The working directory does not exist, or cannot be determined.
    #[error("cannot use the working directory: {0}")]
    Cwd(#[source] std::io::Error),
    /// The deadline passed, or had passed before the evaluation began.
    #[error("the deadline has passed")]
    DeadlineExceeded,
    /// A token limit was exceeded.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The server could not be started or reached, refused a request, or disconnected.
    #[error(transparent)]
    Client(ClientError),
    /// The turn failed.
    #[error("the turn failed: {}", .0.message)]
    TurnFailed(TurnError),
    /// The turn was interrupted by another client or by the server.
    #[error("the turn was interrupted")]
    Interrupted,
    /// The answer cannot be decoded as the requested type.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A tool ended the evaluation; see [`ToolError::fatal`](super::ToolError::fatal).
    #[error("tool {name} failed: {message}")]
    Tool {
        /// The name of the tool.
        name: String,
        /// Its message.
        message: String,
    },
}

impl EvaluationCause {
    fn phase(&self) -> EvaluationPhase {
        match self {
            Self::Config(_)
            | Self::ProgramNotFound { .. }
            | Self::Cwd(_)
            | Self::DeadlineExceeded
            | Self::Client(_) => EvaluationPhase::Request,
            Self::Budget(_) => EvaluationPhase::Budget,
            Self::TurnFailed(error) => EvaluationPhase::of_turn_error(error.codex_error_info.as_ref()),
            Self::Interrupted | Self::Output(_) => EvaluationPhase::Response,
            Self::Tool { .. } => EvaluationPhase::Tool,
        }
    }
}

/// Converts a failed turn into the server's error, and keeps everything else as the client's error.
impl From<ClientError> for EvaluationCause {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::TurnFailed(unfinished) => Self::TurnFailed(unfinished.error.unwrap_or(TurnError {
                message: unfinished.message,
                codex_error_info: None,
                additional_details: None,
                misalignment: None,
            })),
            ClientError::TurnCancelled(_)
            | ClientError::TurnInputRequired(_)
            | ClientError::ApprovalRequired(_) => Self::Interrupted,
            error => Self::Client(error),
        }
    }
}

fn is_model_cap(info: &serde_json::Value) -> bool {
    let names = ["modelCap", "model_cap"];
    names.iter().any(|name| info == name || info.get(name).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_kind_of_failed_turn_has_its_phase() {
        let check = |info: Value, expected: EvaluationPhase| {
            let info: Option<CodexErrorInfo> = serde_json::from_value(info.clone()).unwrap();
            assert_eq!(EvaluationPhase::of_turn_error(info.as_ref()), expected, "{info:?}");
        };
        let status = |name: &str| json!({ name: { "httpStatusCode": 503 } });
        check(json!("contextWindowExceeded"), EvaluationPhase::Response);
        check(json!("usageLimitExceeded"), EvaluationPhase::Budget);
        check(status("httpConnectionFailed"), EvaluationPhase::Request);
        check(json!("unauthorized"), EvaluationPhase::Request);
        check(json!("badRequest"), EvaluationPhase::Request);
        check(json!("sandboxError"), EvaluationPhase::Tool);
        check(status("responseTooManyFailedAttempts"), EvaluationPhase::Request);
        check(status("responseStreamConnectionFailed"), EvaluationPhase::Request);
        check(status("responseStreamDisconnected"), EvaluationPhase::Request);
        check(json!("threadRollbackFailed"), EvaluationPhase::Response);
        check(json!("internalServerError"), EvaluationPhase::Response);
        check(json!({ "modelCap": { "model": "m", "reset_after_seconds": 60 } }), EvaluationPhase::Budget);
        check(json!("other"), EvaluationPhase::Response);
        check(json!("somethingNew"), EvaluationPhase::Response);
        check(Value::Null, EvaluationPhase::Response);
    }
}
