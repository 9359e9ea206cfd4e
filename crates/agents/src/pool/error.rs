//! Errors of a pool, beyond those that a turn reports.

use codicil_client::{ClientError, DecisionError};
use thiserror::Error;

use super::message::QuestionId;

/// The error of an operation of a pool.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The server could not be reached, or refused a request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The working directory could not be created.
    #[error("cannot make a working directory: {0}")]
    Directory(#[from] std::io::Error),
    /// The pool is closed, or the agent is disposed of.
    #[error("the agent or its pool is closed")]
    Closed,
    /// The maximum number of servers is running.
    #[error("there are {0} servers already, which is the limit")]
    TooManyServers(usize),
    /// The question is not open, or takes another kind of answer.
    #[error("question {0} is not open for such an answer")]
    NotAsked(QuestionId),
    /// The decision does not answer the question, which stays open.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// There is no turn to add input to.
    #[error("no turn of the agent is running; send a message with `ask`")]
    NoTurn,
    /// The turn whose text was requested failed.
    #[error("{message}")]
    Turn {
        /// As in [`StreamMessage::Error`](super::StreamMessage::Error).
        code: String,
        /// Human-readable explanation.
        message: String,
    },
}
