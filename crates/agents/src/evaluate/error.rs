//! Why an evaluation brought no answer: in which phase, because of what, and what is known about it.

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

/// Why an evaluation brought no answer.
#[derive(Debug, Error)]
pub enum EvaluateError {
    /// It failed.
    #[error(transparent)]
    Failed(Box<FailedEvaluation>),
    /// A tool needs more of the prompt than is allowed to be shown without asking; see [`SectionExpansion`].
    #[error("more of the prompt is needed: {}", .0.reason)]
    ExpansionRequired(SectionExpansion),
}

impl EvaluateError {
    /// The phase in which it failed; `None` when it only needs more of the prompt.
    pub fn phase(&self) -> Option<EvaluationPhase> {
        self.failed().map(|failed| failed.phase)
    }

    /// All that is known, unless it only needs more of the prompt.
    pub fn failed(&self) -> Option<&FailedEvaluation> {
        match self {
            Self::Failed(failed) => Some(failed),
            Self::ExpansionRequired(_) => None,
        }
    }

    /// Whether time ran out.
    pub fn is_deadline(&self) -> bool {
        self.failed().is_some_and(|failed| matches!(failed.cause, EvaluationCause::DeadlineExceeded))
    }
}

impl From<FailedEvaluation> for EvaluateError {
    fn from(failed: FailedEvaluation) -> Self {
        Self::Failed(Box::new(failed))
    }
}

/// Where in an evaluation something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvaluationPhase {
    /// On the way to the model: starting the server, signing in, thread, turn, provider; and when time ran out.
    Request,
    /// In what came back: the turn failed, or its answer cannot be used.
    Response,
    /// In a tool.
    Tool,
    /// With what may be used.
    Budget,
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
    /// Where it failed.
    pub phase: EvaluationPhase,
    /// Because of what.
    #[source]
    pub cause: EvaluationCause,
    /// What the server wrote to standard error last, at most [`STDERR_TAIL`] bytes.
    pub stderr_tail: String,
    /// The thread, if it came that far.
    pub thread_id: Option<ThreadId>,
    /// The turn, if it came that far.
    pub turn_id: Option<TurnId>,
    /// What was used all the same.
    pub usage: Option<TokenUsage>,
}

/// The most of the server's standard error that an error holds: 8 KiB.
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

    /// What the server said of a failed turn: its message, `codexErrorInfo` and `additionalDetails`.
    pub fn turn_error(&self) -> Option<&TurnError> {
        match &self.cause {
            EvaluationCause::TurnFailed(error) => Some(error),
            _ => None,
        }
    }

    /// The kind of a failed turn, for programs.
    pub fn codex_error_info(&self) -> Option<&CodexErrorInfo> {
        self.turn_error()?.codex_error_info.as_ref()
    }
}

/// What an evaluation failed of.
#[derive(Debug, Error)]
pub enum EvaluationCause {
    /// The configuration or the prompt cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The program that serves is not installed, or not where `PATH` leads.
    #[error("cannot start {program}: there is no such program; install it, or set codex_bin")]
    ProgramNotFound {
        /// As configured.
        program: String,
    },
    /// The directory to work in is not there, or cannot be told.
    #[error("cannot use the working directory: {0}")]
    Cwd(#[source] std::io::Error),
    /// The deadline passed, or had passed before the evaluation began.
    #[error("the deadline has passed")]
    DeadlineExceeded,
    /// More tokens were used than may be.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The server could not be started or reached, refused something, or went away.
    #[error(transparent)]
    Client(ClientError),
    /// The turn completed as failed.
    #[error("the turn failed: {}", .0.message)]
    TurnFailed(TurnError),
    /// The turn ended early, and not because of this evaluation.
    #[error("the turn was interrupted")]
    Interrupted,
    /// The answer is not the value that it should be.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A tool ended the evaluation; see [`ToolError::fatal`](super::ToolError::fatal).
    #[error("tool {name} failed: {message}")]
    Tool {
        /// The tool.
        name: String,
        /// What it said.
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
            Self::TurnFailed(error) => phase_of(error.codex_error_info.as_ref()),
            Self::Interrupted | Self::Output(_) => EvaluationPhase::Response,
            Self::Tool { .. } => EvaluationPhase::Tool,
        }
    }
}

/// A failed turn tells what the server said of it; everything else is the client's error.
impl From<ClientError> for EvaluationCause {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::TurnFailed(unfinished) => Self::TurnFailed(unfinished.error.unwrap_or(TurnError {
                message: unfinished.message,
                codex_error_info: None,
                additional_details: None,
            })),
            ClientError::TurnCancelled(_)
            | ClientError::TurnInputRequired(_)
            | ClientError::ApprovalRequired(_) => Self::Interrupted,
            error => Self::Client(error),
        }
    }
}

/// The phase that a failed turn belongs to, by what the server says of it.
pub fn phase_of(info: Option<&CodexErrorInfo>) -> EvaluationPhase {
    use CodexErrorInfo as E;
    match info {
        Some(E::UsageLimitExceeded) => EvaluationPhase::Budget,
        Some(E::SandboxError) => EvaluationPhase::Tool,
        Some(
            E::HttpConnectionFailed { .. }
            | E::Unauthorized
            | E::BadRequest
            | E::ResponseTooManyFailedAttempts { .. }
            | E::ResponseStreamConnectionFailed { .. }
            | E::ResponseStreamDisconnected { .. },
        ) => EvaluationPhase::Request,
        // Servers of the first generation say so when a model's own quota is used up.
        Some(E::Unrecognized(other)) if is_model_cap(other) => EvaluationPhase::Budget,
        Some(
            E::ContextWindowExceeded
            | E::ThreadRollbackFailed
            | E::InternalServerError
            | E::ServerOverloaded
            | E::ActiveTurnNotSteerable { .. }
            | E::Other
            | E::Unrecognized(_),
        )
        | None => EvaluationPhase::Response,
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
            assert_eq!(phase_of(info.as_ref()), expected, "{info:?}");
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
