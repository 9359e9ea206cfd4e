//! The table of loaded threads.

use std::collections::{BTreeMap, BTreeSet};

use codicil_protocol::ThreadId;

use crate::thread::ThreadHandle;

/// The loaded threads by id. Subagents are few among many threads, so they have an index of their own.
#[derive(Debug, Default)]
pub(super) struct LoadedThreads {
    threads: BTreeMap<ThreadId, ThreadHandle>,
    agents: BTreeSet<ThreadId>,
    /// Threads that are being unloaded. They are not found any more.
    leaving: BTreeMap<ThreadId, ThreadHandle>,
    /// Threads that are being given up, until clients are told that they are closed.
    given_up: BTreeSet<ThreadId>,
    /// Whether the server stops. No thread is found or loaded any more.
    is_stopping: bool,
    ever_loaded: bool,
}

impl LoadedThreads {
    pub fn get(&self, id: &ThreadId) -> Option<&ThreadHandle> {
        self.threads.get(id)
    }

    /// In order.
    pub fn ids(&self) -> impl Iterator<Item = &ThreadId> {
        self.threads.keys()
    }

    /// In the order in which they were started.
    pub fn agents(&self) -> impl Iterator<Item = &ThreadHandle> {
        self.agents.iter().filter_map(|id| self.threads.get(id))
    }

    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Returns whether there has ever been a thread.
    pub fn ever_loaded(&self) -> bool {
        self.ever_loaded
    }

    pub fn insert(&mut self, handle: ThreadHandle) {
        self.ever_loaded = true;
        if handle.origin().is_some() {
            self.agents.insert(handle.id().clone());
        }
        self.threads.insert(handle.id().clone(), handle);
    }

    pub fn remove(&mut self, id: &ThreadId) -> Option<ThreadHandle> {
        self.agents.remove(id);
        self.threads.remove(id)
    }

    /// Removes a thread that is about to be unloaded.
    pub fn take_leaving(&mut self, id: &ThreadId) -> Option<ThreadHandle> {
        let handle = self.remove(id)?;
        self.leaving.insert(id.clone(), handle.clone());
        Some(handle)
    }

    /// Notes that threads are given up. Returns those that are not yet being given up by another call, which closes them.
    pub fn give_up(&mut self, mut ids: Vec<ThreadId>) -> Vec<ThreadId> {
        ids.retain(|id| self.given_up.insert(id.clone()));
        ids
    }

    /// Returns whether a thread exists that this server is about to close.
    pub fn is_given_up(&self, id: &ThreadId) -> bool {
        self.is_stopping || self.given_up.contains(id)
    }

    /// Notes that clients know that a thread is closed.
    pub fn note_closed(&mut self, id: &ThreadId) {
        self.given_up.remove(id);
    }

    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    pub fn leaving(&self, id: &ThreadId) -> Option<&ThreadHandle> {
        self.leaving.get(id)
    }

    /// Returns the threads that are being unloaded.
    pub fn all_leaving(&self) -> Vec<ThreadHandle> {
        self.leaving.values().cloned().collect()
    }

    /// Notes that a thread has been unloaded.
    pub fn forget(&mut self, id: &ThreadId) {
        self.leaving.remove(id);
    }

    /// Removes all threads, and refuses others from now on.
    pub fn stop(&mut self) -> Vec<ThreadHandle> {
        self.is_stopping = true;
        self.agents.clear();
        std::mem::take(&mut self.threads).into_values().collect()
    }
}
