//! The lock of a file that several processes change.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::Duration,
};

use tokio::time::{Instant, sleep};

/// Time to wait for the lock. Another process holds it for one request to a token endpoint.
const MAX_WAIT: Duration = Duration::from_secs(45);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(25);

/// The right to change the file, exclusive among processes; released on drop. Readers need no lock.
#[derive(Debug)]
pub(super) struct FileLock {
    _file: File,
}

impl FileLock {
    /// Waits for the lock of a file. The lock is a second file, since the file itself is replaced by each change.
    pub(super) async fn acquire(path: &Path) -> io::Result<FileLock> {
        let path = path.with_extension("lock");
        let until = Instant::now() + MAX_WAIT;
        loop {
            let lock_path = path.clone();
            match tokio::task::spawn_blocking(move || try_lock(&lock_path)).await? {
                Ok(Some(lock)) => return Ok(lock),
                Ok(None) if Instant::now() < until => sleep(PAUSE).await,
                Ok(None) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "another process holds the lock"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn try_lock(path: &Path) -> io::Result<Option<FileLock>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(FileLock { _file: file })),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Reads a file; empty if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        text => text,
    }
}
