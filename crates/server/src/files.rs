//! File watches, file searches and the order of file operations.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use codicil_fs::{FileSearches, FileWatch, FileWatcher, SearchSession};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::limits::{MAX_FILE_OPERATIONS, MAX_SEARCH_SESSIONS, MAX_WATCHES};

/// Services that all connections share.
#[derive(Debug, Default)]
pub struct FileServices {
    pub watcher: FileWatcher,
    pub searches: FileSearches,
}

/// The watches, searches and file operations of one connection.
#[derive(Debug)]
pub struct ClientFiles {
    operations: Arc<Semaphore>,
    large_responses: Arc<Semaphore>,
    watches: Mutex<HashMap<String, FileWatch>>,
    searches: Mutex<HashMap<String, CancellationToken>>,
    sessions: Mutex<HashMap<String, SearchSession>>,
}

/// Why a path is not watched.
#[derive(Debug, thiserror::Error)]
pub enum ClientWatchError {
    #[error("too many watches: limit is {MAX_WATCHES}")]
    TooMany,
    #[error("watchId already exists: {0}")]
    IdInUse(String),
}

/// Why a search session is not started or updated. The texts are those of the reference server.
#[derive(Debug, thiserror::Error)]
pub enum SearchSessionError {
    #[error("sessionId must not be empty")]
    EmptyId,
    #[error("failed to start fuzzy file search session: at least one search directory is required")]
    NoRoots,
    #[error("too many search sessions: limit is {MAX_SEARCH_SESSIONS}")]
    TooMany,
    #[error("fuzzy file search session not found: {0}")]
    NotFound(String),
}

impl Default for ClientFiles {
    fn default() -> Self {
        Self {
            operations: Arc::new(Semaphore::new(MAX_FILE_OPERATIONS as usize)),
            large_responses: Arc::new(Semaphore::new(1)),
            watches: Mutex::default(),
            searches: Mutex::default(),
            sessions: Mutex::default(),
        }
    }
}

impl ClientFiles {
    /// Waits until files may be read. Reads run at the same time, but not together with a write, and permits are
    /// granted in order of arrival: a client can rely on an earlier request without waiting for its response.
    pub async fn read_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.operations.clone().acquire_owned().await.ok()
    }

    /// Waits until files may be changed. A write runs alone.
    pub async fn write_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.operations.clone().acquire_many_owned(MAX_FILE_OPERATIONS).await.ok()
    }

    /// Waits until a response may be sent that fills a good part of the outbox.
    pub async fn large_response_permit(&self) -> Option<OwnedSemaphorePermit> {
        self.large_responses.clone().acquire_owned().await.ok()
    }

    /// Checks that no watch has this id.
    pub fn check_watch_id(&self, id: &str) -> Result<(), ClientWatchError> {
        if self.watches.lock().contains_key(id) {
            return Err(ClientWatchError::IdInUse(id.to_owned()));
        }
        Ok(())
    }

    pub fn add_watch(&self, id: String, watch: FileWatch) -> Result<(), ClientWatchError> {
        let mut watches = self.watches.lock();
        if watches.len() >= MAX_WATCHES {
            return Err(ClientWatchError::TooMany);
        }
        // Another request with the same id may have been faster.
        match watches.entry(id) {
            Entry::Occupied(taken) => Err(ClientWatchError::IdInUse(taken.key().clone())),
            Entry::Vacant(free) => {
                free.insert(watch);
                Ok(())
            }
        }
    }

    /// Lets a watch send its notifications.
    pub fn start_watch(&self, id: &str) {
        if let Some(watch) = self.watches.lock().get(id) {
            watch.listen();
        }
    }

    pub fn remove_watch(&self, id: &str) {
        // Dropped after the lock is released.
        let removed = self.watches.lock().remove(id);
        drop(removed);
    }

    /// Registers a search and cancels an earlier one with the same token.
    pub fn begin_search(&self, token: Option<String>) -> CancellationToken {
        let cancelled = CancellationToken::new();
        let Some(token) = token else { return cancelled };
        let mut searches = self.searches.lock();
        // A search that has ended counts as cancelled.
        searches.retain(|_, search| !search.is_cancelled());
        if let Some(earlier) = searches.insert(token, cancelled.clone()) {
            earlier.cancel();
        }
        cancelled
    }

    /// Checks that a session can be added. A session with the same id would be replaced.
    pub fn check_session_room(&self, id: &str) -> Result<(), SearchSessionError> {
        let sessions = self.sessions.lock();
        if sessions.len() < MAX_SEARCH_SESSIONS || sessions.contains_key(id) {
            Ok(())
        } else {
            Err(SearchSessionError::TooMany)
        }
    }

    pub fn add_session(&self, id: String, session: SearchSession) {
        // Dropped after the lock is released.
        let replaced = self.sessions.lock().insert(id, session);
        drop(replaced);
    }

    pub fn has_session(&self, id: &str) -> bool {
        self.sessions.lock().contains_key(id)
    }

    pub fn update_session(&self, id: &str, query: String) {
        if let Some(session) = self.sessions.lock().get(id) {
            session.update(query);
        }
    }

    pub fn remove_session(&self, id: &str) {
        // Dropped after the lock is released.
        let removed = self.sessions.lock().remove(id);
        drop(removed);
    }

    /// Ends everything. Called when the connection is over.
    pub fn end(&self) {
        drop(std::mem::take(&mut *self.watches.lock()));
        drop(std::mem::take(&mut *self.sessions.lock()));
        self.searches.lock().drain().for_each(|(_, search)| search.cancel());
    }
}
