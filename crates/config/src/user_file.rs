//! Updating the user's file: read, change, check and replace it, under a lock.
//!
//! The lock is a separate file in the home, because the configuration file is replaced with every write. It synchronises servers
//! that share a home. Changes by other programs, such as editors, are detected right before the file is replaced, and the update
//! is repeated with the new content.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value as Json, json};
use toml::Table;

use crate::{
    HomeDirectory,
    atomic_file::{follow_links, open_private, replace_if},
    document::{CannotEdit, rewrite},
    edit::EditError,
    error::ConfigError,
    files::{BYTE_ORDER_MARK, FileFingerprint, parse_table, read_text},
    keypath::KeyPathError,
    version::version,
};

/// The time to wait for the lock. No write takes that long.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(2);
/// The maximum number of attempts if other programs change the file meanwhile.
const MAX_ATTEMPTS: usize = 8;

/// The reason why nothing was written. The texts of the first three are the reference server's.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("Only writes to the user config are allowed")]
    Readonly,
    #[error("Configuration was modified since last read. Fetch latest version and retry.")]
    VersionConflict,
    #[error("Invalid configuration: {0}")]
    Invalid(String),
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(transparent)]
    CannotEdit(#[from] CannotEdit),
    /// The existing file cannot be read, so it cannot be changed.
    #[error(transparent)]
    Unusable(ConfigError),
    #[error("another process is writing {}", path.display())]
    Busy { path: PathBuf },
    #[error("failed to write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl From<KeyPathError> for WriteError {
    fn from(error: KeyPathError) -> Self {
        Self::Edit(error.into())
    }
}

impl WriteError {
    /// Returns the `config_write_error_code` of the protocol; `None` for internal errors.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Readonly => Some("configLayerReadonly"),
            Self::VersionConflict => Some("configVersionConflict"),
            Self::Invalid(_) | Self::Edit(_) | Self::CannotEdit(_) => Some("configValidationError"),
            Self::Unusable(_) | Self::Busy { .. } | Self::Io { .. } => None,
        }
    }

    /// Returns the `data` of the error response.
    pub fn data(&self) -> Option<Json> {
        self.code().map(|code| json!({ "config_write_error_code": code }))
    }
}

/// The result of a write.
#[derive(Clone, Debug)]
pub(crate) struct WriteResult {
    pub version: String,
}

/// Applies a change to the user's table and writes it. `change` can be called more than once.
pub(crate) fn update(
    home: &HomeDirectory,
    expected_version: Option<&str>,
    mut change: impl FnMut(&Table) -> Result<Table, WriteError>,
) -> Result<WriteResult, WriteError> {
    let path = home.config_file();
    let failed = |source| WriteError::Io { path: path.clone(), source };
    home.ensure().map_err(failed)?;
    let _lock = lock(home)?;
    let target = follow_links(&path).map_err(failed)?;
    for _ in 0..MAX_ATTEMPTS {
        let before = CurrentFile::read(&target)?;
        if expected_version.is_some_and(|expected| expected != version(&before.table)) {
            return Err(WriteError::VersionConflict);
        }
        let wanted = change(&before.table)?;
        if wanted == before.table {
            return Ok(WriteResult { version: version(&wanted) });
        }
        let text = rewrite(&before.text, &before.table, &wanted)?;
        let written = parse_table(&target, text.trim_start_matches(BYTE_ORDER_MARK));
        let written = written.map_err(WriteError::Unusable)?;
        if replace_if(&target, &text, || before.is_current(&target)).map_err(failed)? {
            return Ok(WriteResult { version: version(&written) });
        }
    }
    Err(WriteError::Busy { path })
}

/// Returns the text of another configuration file, such as a project's, after a change. Comments are kept. The caller writes the
/// file.
pub fn edit_text(path: &Path, text: &str, change: impl FnOnce(&mut Table)) -> Result<String, WriteError> {
    let before = parse_table(path, text.trim_start_matches(BYTE_ORDER_MARK)).map_err(WriteError::Unusable)?;
    let mut wanted = before.clone();
    change(&mut wanted);
    if wanted == before { Ok(text.to_owned()) } else { Ok(rewrite(text, &before, &wanted)?) }
}

/// The content of the file when it was read.
struct CurrentFile {
    text: String,
    table: Table,
    fingerprint: Option<FileFingerprint>,
}

impl CurrentFile {
    fn read(path: &Path) -> Result<Self, WriteError> {
        let (text, fingerprint) = match read_text(path).map_err(WriteError::Unusable)? {
            Some((text, fingerprint)) => (text, Some(fingerprint)),
            None => (String::new(), None),
        };
        let table =
            parse_table(path, text.trim_start_matches(BYTE_ORDER_MARK)).map_err(WriteError::Unusable)?;
        Ok(Self { text, table, fingerprint })
    }

    fn is_current(&self, path: &Path) -> bool {
        FileFingerprint::of(path).is_ok_and(|now| now == self.fingerprint)
    }
}

/// Waits for the lock. It is released when the returned file is closed.
pub(crate) fn lock(home: &HomeDirectory) -> Result<File, WriteError> {
    let path = home.path().join("config.lock");
    let failed = |source| WriteError::Io { path: path.clone(), source };
    let mut options = OpenOptions::new();
    open_private(options.write(true).create(true).truncate(false));
    let file = options.open(&path).map_err(failed)?;
    match lock_within(&file, LOCK_TIMEOUT) {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(WriteError::Busy { path }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Waits for the lock of a file, but not longer than this. Fails with `WouldBlock` if another process has it all that time.
pub fn lock_within(file: &File, limit: Duration) -> Result<(), TryLockError> {
    let until = Instant::now() + limit;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_POLL),
            locked => return locked,
        }
    }
}
