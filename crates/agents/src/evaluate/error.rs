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
    expansion::Expansion,
    schema::OutputError,
};

/// Why an evaluation brought no answer.
#[derive(Debug, Error)]
pub enum EvaluateError {
    /// It failed.
    #[error(transparent)]
    Failed(Box<Failed>),
    /// A tool needs more of the prompt than is allowed to be shown without asking; see [`Expansion`].
    #[error("more of the prompt is needed: {}", .0.reason)]
    ExpansionRequired(Expansion),
}

impl EvaluateError {
    /// The phase in which it failed; `None` when it only needs more of the prompt.
    pub fn phase(&self) -> Option<Phase> {
        self.failed().map(|failed| failed.phase)
    }

    /// All that is known, unless it only needs more of the prompt.
    pub fn failed(&self) -> Option<&Failed> {
        match self {
            Self::Failed(failed) => Some(failed),
            Self::ExpansionRequired(_) => None,
        }
    }

    /// Whether time ran out.
    pub fn is_deadline(&self) -> bool {
        self.failed().is_some_and(|failed| matches!(failed.cause, Cause::DeadlineExceeded))
    }
}

impl From<Failed> for EvaluateError {
    fn from(failed: Failed) -> Self {
        Self::Failed(Box::new(failed))
    }
}

/// Where in an evaluation something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// On the way to the model: starting the server, signing in, thread, turn, provider; and when time ran out.
    Request,
    /// In what came back: the turn failed, or its answer cannot be used.
    Response,
    /// In a tool.
    Tool,
    /// With what may be used.
    Budget,
}

impl fmt::Display for Phase {
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
pub struct Failed {
    /// Where it failed.
    pub phase: Phase,
    /// Because of what.
    #[source]
    pub cause: Cause,
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

impl Failed {
    pub(super) fn new(cause: impl Into<Cause>) -> Self {
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
            Cause::TurnFailed(error) => Some(error),
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
pub enum Cause {
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

impl Cause {
    fn phase(&self) -> Phase {
        match self {
            Self::Config(_)
            | Self::ProgramNotFound { .. }
            | Self::Cwd(_)
            | Self::DeadlineExceeded
            | Self::Client(_) => Phase::Request,
            Self::Budget(_) => Phase::Budget,
            Self::TurnFailed(error) => phase_of(error.codex_error_info.as_ref()),
            Self::Interrupted | Self::Output(_) => Phase::Response,
            Self::Tool { .. } => Phase::Tool,
        }
    }
}

/// A failed turn tells what the server said of it; everything else is the client's error.
impl From<ClientError> for Cause {
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
pub fn phase_of(info: Option<&CodexErrorInfo>) -> Phase {
    use CodexErrorInfo as E;
    match info {
        Some(E::UsageLimitExceeded) => Phase::Budget,
        Some(E::SandboxError) => Phase::Tool,
        Some(
            E::HttpConnectionFailed { .. }
            | E::Unauthorized
            | E::BadRequest
            | E::ResponseTooManyFailedAttempts { .. }
            | E::ResponseStreamConnectionFailed { .. }
            | E::ResponseStreamDisconnected { .. },
        ) => Phase::Request,
        // Servers of the first generation say so when a model's own quota is used up.
        Some(E::Unrecognized(other)) if is_model_cap(other) => Phase::Budget,
        Some(
            E::ContextWindowExceeded
            | E::ThreadRollbackFailed
            | E::InternalServerError
            | E::ServerOverloaded
            | E::ActiveTurnNotSteerable { .. }
            | E::Other
            | E::Unrecognized(_),
        )
        | None => Phase::Response,
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
        let check = |info: Value, expected: Phase| {
            let info: Option<CodexErrorInfo> = serde_json::from_value(info.clone()).unwrap();
            assert_eq!(phase_of(info.as_ref()), expected, "{info:?}");
        };
        let status = |name: &str| json!({ name: { "httpStatusCode": 503 } });
        check(json!("contextWindowExceeded"), Phase::Response);
        check(json!("usageLimitExceeded"), Phase::Budget);
        check(status("httpConnectionFailed"), Phase::Request);
        check(json!("unauthorized"), Phase::Request);
        check(json!("badRequest"), Phase::Request);
        check(json!("sandboxError"), Phase::Tool);
        check(status("responseTooManyFailedAttempts"), Phase::Request);
        check(status("responseStreamConnectionFailed"), Phase::Request);
        check(status("responseStreamDisconnected"), Phase::Request);
        check(json!("threadRollbackFailed"), Phase::Response);
        check(json!("internalServerError"), Phase::Response);
        check(json!({ "modelCap": { "model": "m", "reset_after_seconds": 60 } }), Phase::Budget);
        check(json!("other"), Phase::Response);
        check(json!("somethingNew"), Phase::Response);
        check(Value::Null, Phase::Response);
    }
}
