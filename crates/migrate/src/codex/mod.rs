//! Imports the threads of a codex home.
//!
//! [`ImportSource`] lists the rollout files, [`import_threads`] turns each one into a thread with the same
//! id. The source is only read. A repeated import adds what is new: unchanged files are skipped, grown files
//! are continued, and threads that have been continued here are left alone.
//!
//! `rollout` and `head` parse the lines of a file, `convert` turns them into records (with `items`,
//! `tool_items` and `whole_items` for the items of a turn), and `transfer` writes the records to the store.

mod convert;
mod head;
mod import_mark;
mod items;
mod report;
mod rollout;
mod source;
mod tool_items;
mod transfer;
mod whole_items;

#[cfg(fuzzing)]
pub mod fuzzing;

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use codicil_config::HomeDirectory;
use codicil_store::{Store, StoreError};

use self::{report::error_chain, transfer::FileTransfer};
pub use self::{
    report::{FailedFile, ImportProgress, ImportReport},
    source::{ImportSource, RolloutFile},
    transfer::{ImportOutcome, ImportedFile, RolloutError},
};

/// Reasons why an import as a whole is not possible. A single file that cannot be imported is a
/// [`RolloutError`] in the [`ImportReport`] instead.
#[derive(Debug, thiserror::Error)]
pub enum CodexImportError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(
        "{} is not a home of codex: it has neither sessions nor archived_sessions. Name the home, or one of \
         its rollout files, as in `codicil import PATH`",
        .0.display()
    )]
    NotCodexHome(PathBuf),
    /// A thread keeps its id, and with it the name of its file, so one home cannot hold both copies.
    #[error(
        "{} is also the home of codicil, and a thread cannot be stored there twice: set CODICIL_HOME to another \
         directory",
        .0.display()
    )]
    SameHome(PathBuf),
    #[error("cannot create the home directory")]
    CreateHome(#[source] io::Error),
    #[error("cannot open {}", path.display())]
    OpenLock { path: PathBuf, source: io::Error },
    #[error("another import into {} is running", .0.display())]
    Running(PathBuf),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
    Write,
    /// Reads and converts every file, and writes nothing.
    DryRun,
}

/// Imports all files of `source` into the store of `home`. A file that fails is reported and does not stop the others.
pub async fn import_threads(
    source: &ImportSource,
    home: &HomeDirectory,
    store: &Store,
    mode: ImportMode,
    progress: &mut dyn ImportProgress,
) -> Result<ImportReport, CodexImportError> {
    if store.backend().is_none() {
        check_different(&source.root, home.path())?;
    }
    let _lock = match mode {
        ImportMode::Write => Some(lock_imports(home)?),
        ImportMode::DryRun => None,
    };
    let mut report = ImportReport::default();
    for file in &source.files {
        let transfer = FileTransfer { store, file, names: &source.names, mode };
        match transfer.run().await {
            Ok(imported) => report.imported.push(imported),
            Err(error) => {
                let failed = FailedFile { path: file.path.clone(), error: error_chain(&error) };
                progress.file_failed(&failed);
                report.failed.push(failed);
            }
        }
        progress.file_finished(&report);
    }
    Ok(report)
}

fn check_different(source: &Path, home: &Path) -> Result<(), CodexImportError> {
    let is_same = match (source.canonicalize(), home.canonicalize()) {
        (Ok(source), Ok(home)) => source == home,
        _ => source == home,
    };
    if is_same { Err(CodexImportError::SameHome(home.to_owned())) } else { Ok(()) }
}

/// Allows one import into a home at a time. The lock is released when the file is closed.
fn lock_imports(home: &HomeDirectory) -> Result<File, CodexImportError> {
    home.ensure().map_err(CodexImportError::CreateHome)?;
    let path = home.path().join(".import.lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let lock = lock.map_err(|source| CodexImportError::OpenLock { path, source })?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Err(CodexImportError::Running(home.path().to_path_buf())),
        // Some file systems have no locks. There, the user must not run two imports at once.
        _ => Ok(lock),
    }
}
