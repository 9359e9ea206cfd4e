//! What can go wrong, under the names that orchestrators know from the protocol's other clients.

use std::{fmt, sync::Arc, time::Duration};

use codicil_exec::ProcessExit;
use codicil_protocol::{TurnError, rpc::ErrorObject};
use serde_json::Value;
use thiserror::Error;

use crate::collect::CompletedTurn;

/// Why a call or a turn brought no result.
#[derive(Clone, Debug, Error)]
pub enum ClientError {
    /// There is no connection: no such program, nobody listens, the handshake was refused.
    #[error("cannot connect to {to}: {reason}")]
    Connect {
        /// The program or address, without what may be secret in it.
        to: String,
        /// For people.
        reason: String,
    },
    /// The server did not answer in time. It may still do what it was asked.
    #[error("{method} was not answered within {within:?}")]
    ResponseTimeout {
        /// What was asked; `connect` for the connection itself.
        method: String,
        /// The time that it had.
        within: Duration,
    },
    /// The connection ended before the answer, or had ended before the call.
    #[error("{0}")]
    PortExit(Arc<Disconnected>),
    /// The server answered with an error.
    #[error("{method} failed: {} (code {})", error.message, error.code)]
    ResponseError {
        /// What was asked.
        method: String,
        /// Code, message and data as they came.
        error: ErrorObject,
    },
    /// The server answered with something that is not the method's response.
    #[error("the answer to {method} cannot be read: {reason}")]
    ResponseInvalid {
        /// What was asked.
        method: String,
        /// What is wrong with the answer.
        reason: String,
    },
    /// The turn did not end in time, and was asked to stop.
    #[error("the turn did not end in time: {}", .0.message)]
    TurnTimeout(Box<UnfinishedTurn>),
    /// The turn ended in an error.
    #[error("the turn failed: {}", .0.message)]
    TurnFailed(Box<UnfinishedTurn>),
    /// Somebody interrupted the turn.
    #[error("the turn was interrupted: {}", .0.message)]
    TurnCancelled(Box<UnfinishedTurn>),
    /// The turn wants an answer that this client does not give ([`NoAnswer::EndTurn`](crate::NoAnswer)).
    #[error("the turn needs input: {}", .0.message)]
    TurnInputRequired(Box<UnfinishedTurn>),
    /// The turn wants an approval that this client does not give ([`NoAnswer::EndTurn`](crate::NoAnswer)).
    #[error("the turn needs an approval: {}", .0.message)]
    ApprovalRequired(Box<UnfinishedTurn>),
}

impl ClientError {
    /// The name in logs and metrics: `response_timeout`, `port_exit`, `turn_failed` and so on.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::ResponseTimeout { .. } => "response_timeout",
            Self::PortExit(_) => "port_exit",
            Self::ResponseError { .. } => "response_error",
            Self::ResponseInvalid { .. } => "response_invalid",
            Self::TurnTimeout(_) => "turn_timeout",
            Self::TurnFailed(_) => "turn_failed",
            Self::TurnCancelled(_) => "turn_cancelled",
            Self::TurnInputRequired(_) => "turn_input_required",
            Self::ApprovalRequired(_) => "approval_required",
        }
    }

    /// The JSON-RPC error, if the server answered with one.
    pub fn response_error(&self) -> Option<&ErrorObject> {
        match self {
            Self::ResponseError { error, .. } => Some(error),
            _ => None,
        }
    }

    /// The turn as far as it came, if there was one.
    pub fn unfinished(&self) -> Option<&UnfinishedTurn> {
        match self {
            Self::TurnTimeout(turn)
            | Self::TurnFailed(turn)
            | Self::TurnCancelled(turn)
            | Self::TurnInputRequired(turn)
            | Self::ApprovalRequired(turn) => Some(turn),
            _ => None,
        }
    }
}

/// A turn that did not complete: why, and what there is of it.
#[derive(Clone, Debug)]
pub struct UnfinishedTurn {
    /// For people.
    pub message: String,
    /// What the server said of the failure, if it said it in the protocol's form.
    pub error: Option<TurnError>,
    /// The message that ended the turn as it came: the request that was not answered, the params of
    /// `turn/failed`. Null when the turn ended with an ordinary `turn/completed`, or not at all.
    pub payload: Value,
    /// Everything up to then.
    pub so_far: CompletedTurn,
}

/// How a connection ended. Every call that waited gets to know.
#[derive(Clone, Debug)]
pub struct Disconnected {
    /// Who or what ended it.
    pub cause: DisconnectCause,
    /// The last that a spawned server wrote to standard error, at most
    /// [`ClientLimits::stderr_tail`](crate::ClientLimits) bytes. Empty for other connections.
    pub stderr_tail: String,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectCause {
    /// This client closed it, or was dropped.
    Closed,
    /// The spawned server's process ended.
    Exited(ProcessExit),
    /// The other side hung up; the text is what it said, if it said anything.
    Disconnected(String),
    /// The connection broke.
    Failed(String),
}

impl fmt::Display for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            DisconnectCause::Closed => f.write_str("the connection was closed by this client")?,
            DisconnectCause::Exited(ProcessExit::Code(code)) => {
                write!(f, "the server exited with code {code}")?
            }
            DisconnectCause::Exited(ProcessExit::Signal(signal)) => {
                write!(f, "the server was killed by signal {signal}")?
            }
            DisconnectCause::Exited(_) => f.write_str("the server exited")?,
            DisconnectCause::Disconnected(said) if said.is_empty() => {
                f.write_str("the server closed the connection")?
            }
            DisconnectCause::Disconnected(said) => write!(f, "the server closed the connection: {said}")?,
            DisconnectCause::Failed(reason) => write!(f, "the connection failed: {reason}")?,
        }
        // One line says most of it; the rest is in the field.
        match self.stderr_tail.trim_end().lines().last() {
            Some(line) if !line.trim().is_empty() => write!(f, "; its last words: {}", line.trim()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_says_how_and_the_last_words() {
        let check = |cause: DisconnectCause, stderr: &str, expected: &str| {
            assert_eq!(Disconnected { cause, stderr_tail: stderr.to_owned() }.to_string(), expected);
        };
        check(DisconnectCause::Exited(ProcessExit::Code(3)), "", "the server exited with code 3");
        check(
            DisconnectCause::Exited(ProcessExit::Signal(9)),
            "one\ntwo\n\n",
            "the server was killed by signal 9; its last words: two",
        );
        check(DisconnectCause::Disconnected(String::new()), "", "the server closed the connection");
        check(DisconnectCause::Closed, "", "the connection was closed by this client");
    }
}
