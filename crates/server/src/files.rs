//! What the server and each of its connections have going on with files.

use std::{collections::HashMap, sync::Arc};

use codicil_fs::{FileSearches, FileWatch, FileWatcher, SearchSession};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::limits::{FILE_OPERATIONS, MAX_SEARCH_SESSIONS, MAX_WATCHES};

/// Shared by all connections.
#[derive(Debug, Default)]
pub struct FileServices {
    pub watcher: FileWatcher,
    pub searches: FileSearches,
}

/// Of one connection, and over with it.
#[derive(Debug)]
pub struct ClientFiles {
    operations: Arc<Semaphore>,
    large_answers: Arc<Semaphore>,
    watches: Mutex<HashMap<String, FileWatch>>,
    searches: Mutex<HashMap<String, CancellationToken>>,
    sessions: Mutex<HashMap<String, SearchSession>>,
}

/// The client has as many of something as it may have.
#[derive(Debug)]
pub struct LimitReached;

impl Default for ClientFiles {
    fn default() -> Self {
        Self {
            operations: Arc::new(Semaphore::new(FILE_OPERATIONS as usize)),
            large_answers: Arc::new(Semaphore::new(1)),
            watches: Mutex::default(),
            searches: Mutex::default(),
            sessions: Mutex::default(),
        }
    }
}

impl ClientFiles {
    /// Waits for a turn to look at files. Several may look at the same time, but not while something is
    /// being changed; whoever comes first goes first. So a client need not wait for an answer to rely on
    /// what it asked for.
    pub async fn looking(&self) -> Option<OwnedSemaphorePermit> {
        self.operations.clone().acquire_owned().await.ok()
    }

    /// Waits for a turn to change files, alone.
    pub async fn changing(&self) -> Option<OwnedSemaphorePermit> {
        self.operations.clone().acquire_many_owned(FILE_OPERATIONS).await.ok()
    }

    /// Waits for a turn to make an answer that fills a good part of what may wait to be read.
    pub async fn answering_at_length(&self) -> Option<OwnedSemaphorePermit> {
        self.large_answers.clone().acquire_owned().await.ok()
    }

    pub fn add_watch(&self, id: String, watch: FileWatch) -> Result<(), LimitReached> {
        let mut watches = lock(&self.watches);
        if watches.len() >= MAX_WATCHES {
            return Err(LimitReached);
        }
        watches.insert(id, watch);
        Ok(())
    }

    /// Lets a watch speak.
    pub fn listen(&self, id: &str) {
        if let Some(watch) = lock(&self.watches).get(id) {
            watch.listen();
        }
    }

    pub fn remove_watch(&self, id: &str) {
        let watch = lock(&self.watches).remove(id);
        drop(watch);
    }

    /// Notes that a search begins and cancels an earlier one with the same token.
    pub fn begin_search(&self, token: Option<String>) -> CancellationToken {
        let cancelled = CancellationToken::new();
        let Some(token) = token else { return cancelled };
        let mut searches = lock(&self.searches);
        // A search that is over counts as cancelled.
        searches.retain(|_, search| !search.is_cancelled());
        if let Some(earlier) = searches.insert(token, cancelled.clone()) {
            earlier.cancel();
        }
        cancelled
    }

    /// Whether a session can be opened under this name. One that has it makes room.
    pub fn check_session_room(&self, id: &str) -> Result<(), LimitReached> {
        let sessions = lock(&self.sessions);
        if sessions.len() < MAX_SEARCH_SESSIONS || sessions.contains_key(id) {
            Ok(())
        } else {
            Err(LimitReached)
        }
    }

    pub fn add_session(&self, id: String, session: SearchSession) {
        let replaced = lock(&self.sessions).insert(id, session);
        drop(replaced);
    }

    pub fn has_session(&self, id: &str) -> bool {
        lock(&self.sessions).contains_key(id)
    }

    pub fn update_session(&self, id: &str, query: String) {
        if let Some(session) = lock(&self.sessions).get(id) {
            session.update(query);
        }
    }

    pub fn remove_session(&self, id: &str) {
        let session = lock(&self.sessions).remove(id);
        drop(session);
    }

    /// The connection is over.
    pub fn end(&self) {
        drop(std::mem::take(&mut *lock(&self.watches)));
        drop(std::mem::take(&mut *lock(&self.sessions)));
        lock(&self.searches).drain().for_each(|(_, search)| search.cancel());
    }
}

/// The maps are changed in single steps, so a panic elsewhere cannot leave them half done.
fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock()
}
