//! Where credentials are kept: a file in the home, the desktop's keyring, or memory.
//!
//! Everything here blocks; callers run it where that is allowed.

mod file;
mod keyring;
mod lock;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_config::{CredentialsStore, HomeDirectory};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::{file::AuthFile, keyring::KeyringStorage, lock::HomeLock};
use crate::credentials::StoredCredentials;

/// Why credentials could not be read or written. The texts name places, never contents.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("cannot read {}: {cause}", path.display())]
    Read { path: PathBuf, cause: io::Error },
    #[error("{} is not an auth file (line {line}, column {column})", path.display())]
    Malformed { path: PathBuf, line: usize, column: usize },
    #[error("cannot write {}: {cause}", path.display())]
    Write { path: PathBuf, cause: io::Error },
    #[error("another process has been changing the credentials in {} for too long", .0.display())]
    Locked(PathBuf),
    #[error("{0}")]
    Keyring(String),
}

/// What lives as long as the process, for `cli_auth_credentials_store = "ephemeral"`.
#[derive(Clone)]
pub(crate) struct MemoryStorage {
    stored: Arc<Mutex<Option<StoredCredentials>>>,
    /// One change at a time, as in a home.
    changing: Arc<Semaphore>,
}

/// Held by whoever changes credentials, from before they are read until they are written.
pub(crate) enum StorageLock {
    Home(#[expect(dead_code, reason = "its end is what matters")] HomeLock),
    Memory(#[expect(dead_code, reason = "its end is what matters")] Option<OwnedSemaphorePermit>),
}

/// The place that the configuration names.
pub(crate) enum CredentialStorage {
    File(AuthFile),
    Keyring(KeyringStorage),
    Memory(MemoryStorage),
}

impl CredentialStorage {
    pub fn new(kind: CredentialsStore, home: &HomeDirectory, memory: &MemoryStorage) -> Self {
        match kind {
            CredentialsStore::File => Self::File(AuthFile::of(home)),
            CredentialsStore::Keyring => Self::Keyring(KeyringStorage::of(home)),
            // A keyring that cannot be reached is no reason to fail here.
            CredentialsStore::Auto => match KeyringStorage::of(home) {
                keyring if keyring.is_usable() => Self::Keyring(keyring),
                _ => Self::File(AuthFile::of(home)),
            },
            CredentialsStore::Ephemeral => Self::Memory(memory.clone()),
        }
    }

    /// Waits until nobody else, in this process or another, changes the credentials.
    pub async fn lock(
        kind: CredentialsStore,
        home: &HomeDirectory,
        memory: &MemoryStorage,
    ) -> Result<StorageLock, StorageError> {
        match kind {
            CredentialsStore::Ephemeral => {
                Ok(StorageLock::Memory(memory.changing.clone().acquire_owned().await.ok()))
            }
            _ => HomeLock::take(home).await.map(StorageLock::Home),
        }
    }

    /// `None` when nobody has signed in.
    pub fn load(&self) -> Result<Option<StoredCredentials>, StorageError> {
        match self {
            Self::File(file) => file.load(),
            Self::Keyring(keyring) => keyring.load(),
            Self::Memory(memory) => Ok(memory.lock().clone()),
        }
    }

    pub fn save(&self, stored: &StoredCredentials) -> Result<(), StorageError> {
        match self {
            Self::File(file) => file.save(stored),
            Self::Keyring(keyring) => keyring.save(stored),
            Self::Memory(memory) => {
                *memory.lock() = Some(stored.clone());
                Ok(())
            }
        }
    }

    /// False when there was nothing.
    pub fn remove(&self) -> Result<bool, StorageError> {
        match self {
            Self::File(file) => file.remove(),
            Self::Keyring(keyring) => keyring.remove(),
            Self::Memory(memory) => Ok(memory.lock().take().is_some()),
        }
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self { stored: Arc::default(), changing: Arc::new(Semaphore::new(1)) }
    }
}

impl MemoryStorage {
    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<StoredCredentials>> {
        self.stored.lock()
    }
}

/// Reads what was stored. A parser's own words may quote what it read, so only the place is told.
fn parse(path: &Path, text: &[u8]) -> Result<StoredCredentials, StorageError> {
    serde_json::from_slice(text).map_err(|error| StorageError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
    })
}

/// As people may want to read it.
fn render(stored: &StoredCredentials) -> String {
    serde_json::to_string_pretty(stored).expect("credentials are strings")
}
