//! The SQLite database of the index: its schema, opening it, and replacing it.
//!
//! It contains nothing that is not in the threads' files. So a damaged or outdated database is recreated, and a home that is
//! not writable gets one in memory.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, config::DbConfig};

use crate::{
    error::{Result, StoreError},
    layout::{self, HomeLayout},
};

/// The version of the schema. An index with another version is rebuilt.
const SCHEMA_VERSION: i64 = 4;
/// The time that SQLite waits for other writers. [`ThreadIndex`](super::ThreadIndex) retries up to its own deadline.
const BUSY: Duration = Duration::from_millis(250);
/// The number of cached statements: all fixed ones and recent lists.
const STATEMENTS: usize = 48;
/// The size of the page cache. 10,000 threads fit into it, and a search reads every row.
const CACHE_KIB: i64 = 8 * 1024;

/// Rows are stored in the order of lists, so that a page or a search reads them sequentially.
const SCHEMA: &str = "
    CREATE TABLE dirs (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE,
        mtime INTEGER
    ) STRICT;
    CREATE TABLE threads (
        archived INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        id TEXT NOT NULL,
        updated_at INTEGER NOT NULL,
        has_user INTEGER NOT NULL,
        source_kind TEXT NOT NULL,
        model_provider TEXT NOT NULL,
        cwd TEXT NOT NULL,
        name TEXT,
        dir INTEGER NOT NULL REFERENCES dirs (id),
        file TEXT NOT NULL,
        size INTEGER NOT NULL,
        mtime INTEGER NOT NULL,
        source TEXT NOT NULL,
        cli_version TEXT NOT NULL,
        git TEXT,
        model TEXT,
        effort TEXT,
        forked_from_id TEXT,
        parent_thread_id TEXT,
        agent_nickname TEXT,
        agent_role TEXT,
        originator TEXT,
        thread_source TEXT,
        history_mode TEXT NOT NULL,
        open_requests TEXT,
        facts TEXT,
        section_id TEXT GENERATED ALWAYS AS (facts ->> '$.section.sectionId') VIRTUAL,
        section_rank TEXT GENERATED ALWAYS AS (facts ->> '$.section.rank') VIRTUAL,
        project_id TEXT GENERATED ALWAYS AS (facts ->> '$.projectId') VIRTUAL,
        preview TEXT,
        PRIMARY KEY (archived, created_at, id)
    ) STRICT, WITHOUT ROWID;
    CREATE UNIQUE INDEX threads_by_id ON threads (id);
    CREATE INDEX threads_by_update ON threads (archived, updated_at, id);
    CREATE INDEX threads_by_dir ON threads (dir);
    CREATE INDEX threads_by_requests ON threads (id) WHERE open_requests IS NOT NULL;
    CREATE INDEX threads_by_section ON threads (section_id, section_rank, id) WHERE section_id IS NOT NULL;
    CREATE INDEX threads_by_project ON threads (project_id, updated_at) WHERE project_id IS NOT NULL;
    CREATE INDEX threads_by_parent ON threads (parent_thread_id) WHERE parent_thread_id IS NOT NULL;
";

/// An open index.
pub struct IndexDb {
    pub connection: Connection,
    path: PathBuf,
}

impl IndexDb {
    /// Opens the index of a home. Creates or recreates it if needed.
    pub fn open(layout: &HomeLayout) -> Result<Self> {
        let path = layout.index();
        let connection = match prepare(layout, &path).and_then(|()| connect(&path)) {
            Ok(connection) => connection,
            Err(unusable) => replace(&path, unusable)?,
        };
        Ok(Self { connection, path })
    }

    /// Returns a replacement after an error: a new index for a damaged one, or one in memory if the file is not writable. Returns
    /// the error if neither helps.
    pub fn replacement(path: &Path, error: rusqlite::Error) -> Result<Self> {
        Ok(Self { connection: replace(path, UnusableIndex::from(error))?, path: path.to_owned() })
    }

    /// Returns a function that adds the path to an error.
    pub fn failed(&self) -> impl Fn(rusqlite::Error) -> StoreError + use<> {
        let path = self.path.clone();
        move |source| StoreError::Index { path: path.clone(), source }
    }

    /// Runs statements in a transaction.
    pub fn transaction<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        let failed = self.failed();
        let run = || {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        run().map_err(failed)
    }
}

enum UnusableIndex {
    Damaged(rusqlite::Error),
    /// The reason as text, which is only logged.
    NotWritable(String),
    Other(rusqlite::Error),
}

impl UnusableIndex {
    fn into_store_error(self, path: &Path) -> StoreError {
        match self {
            Self::Damaged(source) | Self::Other(source) => StoreError::Index { path: path.into(), source },
            Self::NotWritable(text) => StoreError::Unindexed(text),
        }
    }
}

impl From<rusqlite::Error> for UnusableIndex {
    fn from(error: rusqlite::Error) -> Self {
        if is_damaged(&error) {
            Self::Damaged(error)
        } else if is_unusable(&error) {
            Self::NotWritable(error.to_string())
        } else {
            Self::Other(error)
        }
    }
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// Returns whether [`IndexDb::replacement`] helps.
pub fn is_unusable(error: &rusqlite::Error) -> bool {
    let not_writable = matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::DiskFull
                | ErrorCode::SystemIoFailure
        )
    );
    not_writable || is_damaged(error)
}

fn replace(path: &Path, unusable: UnusableIndex) -> Result<Connection> {
    match unusable {
        UnusableIndex::Damaged(error) => {
            tracing::warn!(path = %path.display(), %error, "the index is damaged, recreating it");
            discard(path)?;
            connect(path).map_err(|error| error.into_store_error(path))
        }
        UnusableIndex::NotWritable(reason) => {
            tracing::warn!(path = %path.display(), reason, "the index is not writable, keeping it in memory");
            in_memory().map_err(|source| StoreError::Index { path: path.to_owned(), source })
        }
        UnusableIndex::Other(source) => Err(StoreError::Index { path: path.to_owned(), source }),
    }
}

/// Creates the file with mode 0600. SQLite would create it with the default mode, but keeps that of an existing file.
fn prepare(layout: &HomeLayout, path: &Path) -> Result<(), UnusableIndex> {
    let ready = layout::make_dir(layout.home()).map_err(|error| error.to_string()).and_then(|_| {
        match layout::create_file(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error.to_string()),
            // SQLite would block on a named pipe.
            Err(_) if fs::metadata(path).is_ok_and(|found| !found.is_file()) => {
                Err("not a regular file".to_owned())
            }
            _ => Ok(()),
        }
    });
    ready.map_err(UnusableIndex::NotWritable)
}

fn connect(path: &Path) -> Result<Connection, UnusableIndex> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    tune(&connection)?;
    if !is_current(&connection)? {
        // The database is still empty, so a power cut does no harm.
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        create_schema(&connection)?;
    }
    // A power cut may lose the last changes but must not make the database inconsistent.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(connection)
}

/// Sets options. Query plans must not depend on values, or SQLite would plan cached statements again each time.
fn tune(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn in_memory() -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    tune(&connection)?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

/// Returns whether the tables are those of this version. Otherwise the next server creates them.
pub fn is_current(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(schema_version(connection)? == SCHEMA_VERSION)
}

fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Creates the schema, in a transaction because two processes can find an empty file at the same time.
fn create_schema(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let created = match schema_version(connection) {
        Ok(SCHEMA_VERSION) => Ok(()),
        Ok(_) => connection
            .execute_batch("DROP TABLE IF EXISTS threads; DROP TABLE IF EXISTS dirs;")
            .and_then(|()| connection.execute_batch(SCHEMA))
            .and_then(|()| connection.pragma_update(None, "user_version", SCHEMA_VERSION)),
        Err(error) => Err(error),
    };
    connection.execute_batch(if created.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    created
}

/// Replaces an unusable index by an empty file.
fn discard(path: &Path) -> Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("remove", Path::new(&name))(error));
            }
            _ => {}
        }
    }
    layout::create_file(path).map_err(StoreError::io("create", path))?;
    Ok(())
}
