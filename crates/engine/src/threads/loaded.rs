//! The loaded threads by their ids, and which of them are agents.

use std::collections::{BTreeMap, BTreeSet};

use codicil_protocol::ThreadId;

use crate::thread::ThreadHandle;

/// Threads are many and agents are few: whoever looks for agents looks at agents only.
#[derive(Debug, Default)]
pub(super) struct LoadedThreads {
    threads: BTreeMap<ThreadId, ThreadHandle>,
    agents: BTreeSet<ThreadId>,
    /// Those that are being unloaded; nobody else is given them.
    leaving: BTreeMap<ThreadId, ThreadHandle>,
}

impl LoadedThreads {
    pub fn get(&self, id: &ThreadId) -> Option<&ThreadHandle> {
        self.threads.get(id)
    }

    /// In order.
    pub fn ids(&self) -> impl Iterator<Item = &ThreadId> {
        self.threads.keys()
    }

    /// In order, and so those who were started first come first.
    pub fn agents(&self) -> impl Iterator<Item = &ThreadHandle> {
        self.agents.iter().filter_map(|id| self.threads.get(id))
    }

    pub fn len(&self) -> usize {
        self.threads.len()
    }

    pub fn insert(&mut self, handle: ThreadHandle) {
        if handle.kin().is_some() {
            self.agents.insert(handle.id().clone());
        }
        self.threads.insert(handle.id().clone(), handle);
    }

    pub fn remove(&mut self, id: &ThreadId) -> Option<ThreadHandle> {
        self.agents.remove(id);
        self.threads.remove(id)
    }

    /// Takes one out that is about to end.
    pub fn let_go(&mut self, id: &ThreadId) -> Option<ThreadHandle> {
        let handle = self.remove(id)?;
        self.leaving.insert(id.clone(), handle.clone());
        Some(handle)
    }

    pub fn leaving(&self, id: &ThreadId) -> Option<&ThreadHandle> {
        self.leaving.get(id)
    }

    /// It has ended.
    pub fn forget(&mut self, id: &ThreadId) {
        self.leaving.remove(id);
    }

    /// Takes them all.
    pub fn take(&mut self) -> Vec<ThreadHandle> {
        self.agents.clear();
        std::mem::take(&mut self.threads).into_values().collect()
    }
}
