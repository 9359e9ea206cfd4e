//! What can go wrong in a pool, beyond what a turn reports by itself.

use codicil_client::ClientError;
use thiserror::Error;

use super::message::QuestionId;

/// Why there is no agent, window or answer.
#[derive(Debug, Error)]
pub enum PoolError {
    /// The server could not be reached, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no directory to work in.
    #[error("cannot make a working directory: {0}")]
    Directory(#[from] std::io::Error),
    /// The pool was closed, or the agent disposed of.
    #[error("the agent or its pool is closed")]
    Closed,
    /// As many servers run as may.
    #[error("there are {0} servers already, which is the limit")]
    TooManyServers(usize),
    /// The question was answered already, is void, or takes another kind of answer.
    #[error("question {0} is not open for such an answer")]
    NotAsked(QuestionId),
    /// The turn whose text was wanted failed.
    #[error("{message}")]
    Turn {
        /// As in [`StreamMessage::Error`](super::StreamMessage::Error).
        code: String,
        /// For people.
        message: String,
    },
}
