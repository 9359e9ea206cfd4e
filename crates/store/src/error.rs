//! Errors of the store. The messages name the path and a remedy.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use codicil_protocol::{ThreadId, TurnId};
use rusqlite::ErrorCode;

use crate::thread_log::AdoptedRecord;

pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("thread not found: {0}")]
    NotFound(ThreadId),
    #[error("thread already exists: {0}")]
    Exists(ThreadId),
    /// An id that cannot be part of a file name.
    #[error("invalid thread id: {0}")]
    InvalidId(String),
    /// A fork point that is not in the thread, or was rolled back.
    #[error("turn not found: {0}")]
    TurnNotFound(TurnId),
    #[error("invalid cursor: {0}")]
    InvalidCursor(String),
    /// A file with the name of a thread that was not written by this program or lost its first line.
    #[error("{} is not a stored thread: {reason}", .path.display())]
    NotAThread { path: PathBuf, reason: &'static str },
    #[error("cannot {action} {}: {source}{}", .path.display(), ErrorAdvice(.action, .source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// Another process held a lock for longer than [`LOCK_TIME`](crate::LOCK_TIME).
    #[error("{} is locked by another process; try again when it has let go of it", .path.display())]
    Locked { path: PathBuf },
    /// Another writer has extended the conversation. The thread has to be loaded again.
    #[error("another process has written to thread {thread}: expected record {expected} to be the next one")]
    Overtaken { thread: ThreadId, expected: u64 },
    /// Another writer has written a record that the appended ones depend on, such as a key. Nothing was written, and the next
    /// append follows that record. `adopted` are the records of other writers that the log has not returned before.
    #[error("another process has changed what a request to thread {thread} depends on")]
    Conflict { thread: ThreadId, adopted: Vec<AdoptedRecord> },
    #[error("the index {} failed: {source}; `codicil reindex` rebuilds it", .path.display())]
    Index { path: PathBuf, source: rusqlite::Error },
    /// Files were found that could not be added to the index.
    #[error("the index of threads is incomplete: {0}")]
    Unindexed(String),
    #[error("a record cannot be written as JSON: {0}")]
    Encode(#[from] serde_json::Error),
    /// Another server that is alive owns the thread.
    #[error("thread {thread} belongs to node {node}, at {url}")]
    OwnedElsewhere { thread: ThreadId, node: String, url: String },
    /// The database could not be reached. Whether a write took effect is unknown: the thread has to be read again before it
    /// is written.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database has refused something.
    #[error("the database has failed: {0}")]
    Database(String),
    #[error("the store is closing")]
    Closed,
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    /// Returns whether another process used the index for too long.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self, Self::Index { source, .. } if is_busy(source))
    }

    /// Returns the kind of the underlying file error, if there is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }
}

/// Returns whether SQLite gave up because of another process.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The remedy for a file error; empty if there is none.
struct ErrorAdvice<'a>(&'static str, &'a io::Error);

impl fmt::Display for ErrorAdvice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.1.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                "; free some space there and try again"
            }
            io::ErrorKind::PermissionDenied if self.0 == "read" => "; make it readable for this user",
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "; make it writable for this user, or set CODICIL_HOME to a directory that is"
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => {
                "; something else has that name, move it away"
            }
            _ if self.1.raw_os_error() == Some(TOO_MANY_FILES) => {
                "; raise the limit of open files (`ulimit -n`)"
            }
            _ => "",
        })
    }
}

/// `EMFILE`, the same number on Linux and macOS; the standard library has no kind for it.
const TOO_MANY_FILES: i32 = 24;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(action: &'static str, kind: io::ErrorKind, expected: &str) {
        let error = StoreError::io(action, Path::new("/home/x"))(kind.into());
        let text = error.to_string();
        assert!(text.starts_with(&format!("cannot {action} /home/x: ")), "{text}");
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn file_errors_name_the_path_and_the_remedy() {
        check("append to", io::ErrorKind::StorageFull, "; free some space there and try again");
        check("append to", io::ErrorKind::FileTooLarge, "; free some space there and try again");
        check("create", io::ErrorKind::PermissionDenied, "set CODICIL_HOME to a directory that is");
        check("create", io::ErrorKind::ReadOnlyFilesystem, "set CODICIL_HOME to a directory that is");
        check("read", io::ErrorKind::PermissionDenied, "; make it readable for this user");
        check("create", io::ErrorKind::NotADirectory, "; something else has that name, move it away");
    }
}
