//! The lock for changing the credentials of a home.
//!
//! A refresh token can be used once. A process that wants to use it takes this lock, reads the credentials again and
//! keeps the lock until the new ones are written, where the next process finds them.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_config::HomeDirectory;
use tokio::time::{Instant, sleep};

use super::StorageError;

/// Time to wait for the lock; longer than a refresh may take.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// The lock of a home. The system releases it when the process ends.
pub(crate) struct HomeLock {
    _file: File,
}

impl HomeLock {
    /// Waits for the lock.
    pub async fn acquire(home: &HomeDirectory) -> Result<Self, StorageError> {
        let path = home.path().join(".auth.lock");
        let file = open(home.clone(), path.clone()).await?;
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(PAUSE).await,
                Err(TryLockError::WouldBlock) => return Err(StorageError::Locked(home.path().to_path_buf())),
                // Some network file systems have no locks; the credentials are then changed without one.
                Err(TryLockError::Error(error)) => {
                    tracing::debug!("{} cannot be locked: {error}", path.display());
                    return Ok(Self { _file: file });
                }
            }
        }
    }
}

async fn open(home: HomeDirectory, path: PathBuf) -> Result<File, StorageError> {
    let opened = tokio::task::spawn_blocking({
        let path = path.clone();
        move || home.ensure().and_then(|()| create(&path))
    });
    let opened = opened.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    opened.map_err(|cause| StorageError::Write { path, cause })
}

fn create(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().create(true).write(true).truncate(false)).open(path)
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}
