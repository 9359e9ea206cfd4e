//! Errors of calls and turns. [`ClientError::name`] returns the names that other clients of the protocol use for them.

use std::{fmt, sync::Arc, time::Duration};

use codicil_exec::ProcessExit;
use codicil_protocol::{TurnError, rpc::ErrorObject};
use serde_json::Value;
use thiserror::Error;

use crate::collect::CompletedTurn;

/// The error of a call or a turn.
#[derive(Clone, Debug, Error)]
pub enum ClientError {
    /// The connection could not be opened: the program does not exist, no server listens at the address, or it refused
    /// the handshake.
    #[error("cannot connect to {to}: {reason}")]
    Connect {
        /// The program or address, without credentials.
        to: String,
        /// Human-readable explanation.
        reason: String,
    },
    /// The server did not respond in time. It may still carry out the request.
    #[error("{method} was not answered within {within:?}")]
    ResponseTimeout {
        /// The method that was called; `connect` while the connection was being opened.
        method: String,
        /// The timeout.
        within: Duration,
    },
    /// The connection ended before the response arrived, or before the call.
    #[error("{0}")]
    Disconnected(Arc<Disconnected>),
    /// The server responded with an error.
    #[error("{method} failed: {} (code {})", error.message, error.code)]
    ResponseError {
        /// The method that was called.
        method: String,
        /// The code, message and data of the response.
        error: ErrorObject,
    },
    /// The thread is at a node that cannot be reached, or has moved too often meanwhile. See
    /// [`ClientBuilder::resilient`](crate::ClientBuilder::resilient).
    #[error("{method} failed: the thread is at node {node}, which cannot be reached")]
    ThreadUnreachable {
        /// The method that was called.
        method: String,
        /// The name of the node.
        node: String,
        /// The address of the node, without credentials.
        url: String,
    },
    /// The server's response does not have the form that the method prescribes.
    #[error("the answer to {method} cannot be read: {reason}")]
    ResponseInvalid {
        /// The method that was called.
        method: String,
        /// The decoding error.
        reason: String,
    },
    /// The turn did not end in time. The client has requested its interruption.
    #[error("the turn did not end in time: {}", .0.message)]
    TurnTimeout(Box<UnfinishedTurn>),
    /// The turn failed.
    #[error("the turn failed: {}", .0.message)]
    TurnFailed(Box<UnfinishedTurn>),
    /// The turn was interrupted.
    #[error("the turn was interrupted: {}", .0.message)]
    TurnCancelled(Box<UnfinishedTurn>),
    /// The turn needs user input, and the handler ended it with [`NoAnswer::EndTurn`](crate::NoAnswer::EndTurn).
    #[error("the turn needs input: {}", .0.message)]
    TurnInputRequired(Box<UnfinishedTurn>),
    /// The turn needs an approval, and the handler ended it with [`NoAnswer::EndTurn`](crate::NoAnswer::EndTurn).
    #[error("the turn needs an approval: {}", .0.message)]
    ApprovalRequired(Box<UnfinishedTurn>),
}

impl ClientError {
    /// Returns a stable name for logs and metrics, such as `response_timeout`, `port_exit` or `turn_failed`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "connect",
            Self::ResponseTimeout { .. } => "response_timeout",
            Self::Disconnected(_) => "port_exit",
            Self::ResponseError { .. } => "response_error",
            Self::ThreadUnreachable { .. } => "thread_unreachable",
            Self::ResponseInvalid { .. } => "response_invalid",
            Self::TurnTimeout(_) => "turn_timeout",
            Self::TurnFailed(_) => "turn_failed",
            Self::TurnCancelled(_) => "turn_cancelled",
            Self::TurnInputRequired(_) => "turn_input_required",
            Self::ApprovalRequired(_) => "approval_required",
        }
    }

    /// Returns the JSON-RPC error, if the server responded with one.
    pub fn response_error(&self) -> Option<&ErrorObject> {
        match self {
            Self::ResponseError { error, .. } => Some(error),
            _ => None,
        }
    }

    /// Returns the partial turn, if a turn had started.
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

/// A turn that did not complete, with the reason and its partial result.
#[derive(Clone, Debug)]
pub struct UnfinishedTurn {
    /// Human-readable explanation.
    pub message: String,
    /// The turn's error as the server reported it.
    pub error: Option<TurnError>,
    /// The message that ended the turn: the unanswered request, or the params of `turn/failed`. Null when the turn
    /// ended with `turn/completed`, or has not ended.
    pub payload: Value,
    /// The partial result.
    pub so_far: CompletedTurn,
}

/// How a connection ended. Every pending call receives it.
#[derive(Clone, Debug)]
pub struct Disconnected {
    /// The reason.
    pub cause: DisconnectCause,
    /// The end of a spawned server's standard error, at most
    /// [`ClientLimits::stderr_tail`](crate::ClientLimits::stderr_tail) bytes. Empty for other connections.
    pub stderr_tail: String,
}

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DisconnectCause {
    /// This client closed the connection or was dropped.
    ClosedByClient,
    /// The spawned server's process exited.
    Exited(ProcessExit),
    /// The server closed the connection, with this explanation if it gave one.
    ClosedByServer(String),
    /// Reading or writing failed.
    Failed(String),
}

impl fmt::Display for Disconnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            DisconnectCause::ClosedByClient => f.write_str("the connection was closed by this client")?,
            DisconnectCause::Exited(ProcessExit::Code(code)) => {
                write!(f, "the server exited with code {code}")?
            }
            DisconnectCause::Exited(ProcessExit::Signal(signal)) => {
                write!(f, "the server was killed by signal {signal}")?
            }
            DisconnectCause::Exited(_) => f.write_str("the server exited")?,
            DisconnectCause::ClosedByServer(reason) if reason.is_empty() => {
                f.write_str("the server closed the connection")?
            }
            DisconnectCause::ClosedByServer(reason) => {
                write!(f, "the server closed the connection: {reason}")?
            }
            DisconnectCause::Failed(reason) => write!(f, "the connection failed: {reason}")?,
        }
        // The last line is usually the most useful one; `stderr_tail` has the rest.
        match self.stderr_tail.trim_end().lines().last() {
            Some(line) if !line.trim().is_empty() => {
                write!(f, "; last line of its standard error: {}", line.trim())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_includes_the_cause_and_the_last_line_of_stderr() {
        let check = |cause: DisconnectCause, stderr: &str, expected: &str| {
            assert_eq!(Disconnected { cause, stderr_tail: stderr.to_owned() }.to_string(), expected);
        };
        check(DisconnectCause::Exited(ProcessExit::Code(3)), "", "the server exited with code 3");
        check(
            DisconnectCause::Exited(ProcessExit::Signal(9)),
            "one\ntwo\n\n",
            "the server was killed by signal 9; last line of its standard error: two",
        );
        check(DisconnectCause::ClosedByServer(String::new()), "", "the server closed the connection");
        check(DisconnectCause::ClosedByClient, "", "the connection was closed by this client");
    }
}
