//! Errors of the PostgreSQL store. Messages never contain the password of the database.

use std::{borrow::Cow, time::Duration};

use tokio_postgres::error::SqlState;
use uuid::Uuid;

pub type Result<T, E = PostgresError> = std::result::Result<T, E>;

/// An error of the PostgreSQL store.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    #[error("thread not found: {0}")]
    NotFound(Uuid),
    #[error("thread already exists: {0}")]
    Exists(Uuid),
    /// Another node has taken the tree, or another writer has extended the thread.
    #[error("another node has written to thread {thread}: expected line {first} to be the next one")]
    Overtaken { thread: Uuid, first: u64 },
    /// Another node carries out the request, because this one did not renew its lease in time.
    #[error("another node has taken the key of the request over")]
    KeyLost,
    #[error("{what} has {bytes} bytes, more than the {limit} that the database takes")]
    TooLarge { what: &'static str, bytes: usize, limit: usize },
    /// Another process has registered under this name and is not known to be dead.
    #[error("a node named {name} is registered already; its lease ends in {} s", remaining.as_secs_f32().ceil())]
    NameInUse { name: String, remaining: Duration },
    #[error("invalid address of a database: {0}")]
    InvalidAddress(String),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    #[error(
        "the database was changed by a later version: it has migration {found}, this version ends with {known}"
    )]
    TooNew { found: i32, known: i32 },
    #[error(
        "the tables of the database are those of migration {found}, not {known}: start a server, which updates them"
    )]
    TooOld { found: i32, known: i32 },
    /// The database could not be reached in time. Whether a write took effect is unknown: the thread has to be read again
    /// before it is written.
    #[error("the database is not available: {0}")]
    Unavailable(Cow<'static, str>),
    /// The database has refused a statement. Nothing was changed.
    #[error("cannot {action}: {}", describe(source))]
    Refused { action: &'static str, source: tokio_postgres::Error },
    #[error("the store is closing")]
    Closed,
}

impl PostgresError {
    /// Classifies the error of a statement: an error of the connection, and some of the server, are worth repeating.
    pub(crate) fn of(action: &'static str, source: tokio_postgres::Error) -> Self {
        match source.code() {
            Some(code) if !is_passing(code) => Self::Refused { action, source },
            _ => Self::Unavailable(describe(&source).into()),
        }
    }

    pub(crate) fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// Returns whether the same statement can succeed later or on another connection: the server stops or starts, is a standby,
/// has too many connections, or has chosen this statement to end a deadlock.
fn is_passing(code: &SqlState) -> bool {
    let class = code.code().get(..2).unwrap_or_default();
    let codes = [
        &SqlState::READ_ONLY_SQL_TRANSACTION,
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
        &SqlState::TOO_MANY_CONNECTIONS,
    ];
    matches!(class, "08" | "57") || codes.contains(&code)
}

/// Returns the message of the server if there is one: the error's own text omits it.
fn describe(source: &tokio_postgres::Error) -> String {
    match (source.as_db_error(), std::error::Error::source(source)) {
        (Some(error), _) => format!("{} ({})", error.message(), error.code().code()),
        (None, Some(cause)) if !source.to_string().contains(&cause.to_string()) => {
            format!("{source}: {cause}")
        }
        _ => source.to_string(),
    }
}
