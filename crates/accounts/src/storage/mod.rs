//! The storage of credentials: a file in the home, the desktop's keyring, or memory.
//!
//! All functions but `lock` block; callers run them on a blocking thread.

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

/// The reason why credentials could not be read or written. The texts never repeat contents.
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

/// Credentials in memory, for `cli_auth_credentials_store = "ephemeral"`.
#[derive(Clone)]
pub(crate) struct MemoryStorage {
    stored: Arc<Mutex<Option<StoredCredentials>>>,
    /// Serialises changes, as the lock of a home does.
    changing: Arc<Semaphore>,
}

/// The right to change credentials, held from before they are read until they are written.
pub(crate) enum StorageLock {
    Home(#[expect(dead_code, reason = "released on drop")] HomeLock),
    Memory(#[expect(dead_code, reason = "released on drop")] Option<OwnedSemaphorePermit>),
}

/// The storage that the configuration selects.
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
            // Falls back to the file if the keyring is not available.
            CredentialsStore::Auto => match KeyringStorage::of(home) {
                keyring if keyring.is_usable() => Self::Keyring(keyring),
                _ => Self::File(AuthFile::of(home)),
            },
            CredentialsStore::Ephemeral => Self::Memory(memory.clone()),
        }
    }

    /// Waits for the exclusive right, among all processes, to change the credentials.
    pub async fn lock(
        kind: CredentialsStore,
        home: &HomeDirectory,
        memory: &MemoryStorage,
    ) -> Result<StorageLock, StorageError> {
        match kind {
            CredentialsStore::Ephemeral => {
                Ok(StorageLock::Memory(memory.changing.clone().acquire_owned().await.ok()))
            }
            _ => HomeLock::acquire(home).await.map(StorageLock::Home),
        }
    }

    /// Returns the stored credentials; `None` if there are none.
    pub fn load(&self) -> Result<Option<StoredCredentials>, StorageError> {
        match self {
            Self::File(file) => file.load(),
            Self::Keyring(keyring) => keyring.load(),
            Self::Memory(memory) => Ok(memory.stored.lock().clone()),
        }
    }

    pub fn save(&self, stored: &StoredCredentials) -> Result<(), StorageError> {
        match self {
            Self::File(file) => file.save(stored),
            Self::Keyring(keyring) => keyring.save(stored),
            Self::Memory(memory) => {
                *memory.stored.lock() = Some(stored.clone());
                Ok(())
            }
        }
    }

    /// Removes the credentials. Returns false if there were none.
    pub fn remove(&self) -> Result<bool, StorageError> {
        match self {
            Self::File(file) => file.remove(),
            Self::Keyring(keyring) => keyring.remove(),
            Self::Memory(memory) => Ok(memory.stored.lock().take().is_some()),
        }
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self { stored: Arc::default(), changing: Arc::new(Semaphore::new(1)) }
    }
}

/// Parses stored credentials. The error names only the position, since the parser's own text may quote a secret.
fn parse(path: &Path, text: &[u8]) -> Result<StoredCredentials, StorageError> {
    serde_json::from_slice(text).map_err(|error| StorageError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
    })
}

/// Renders credentials as indented JSON.
fn render(stored: &StoredCredentials) -> String {
    serde_json::to_string_pretty(stored).expect("credentials are strings")
}
