//! Threads that are taken away for good, with those of their agents.

use codicil_protocol::ThreadId;

use super::{Threads, names::canonical, not_stored};
use crate::error::ThreadError;

/// How many threads one request takes away at most: stored files could name each other as parents.
const MOST: usize = 10_000;

impl Threads {
    /// Ends a thread and its agents and takes their files away. Returns what is gone, agents first.
    pub async fn delete(&self, id: &ThreadId) -> Result<Vec<ThreadId>, ThreadError> {
        let id = canonical(id)?;
        if let Ok(handle) = self.get(&id)
            && handle.snapshot().await?.thread.ephemeral
        {
            return Err(ThreadError::EphemeralDelete(id));
        }
        self.0.world.store.find(&id).await.map_err(not_stored)?;
        self.unload(&id).await;
        let mut gone = Vec::new();
        for agent in self.stored_below(&id).await? {
            self.unload(&agent).await;
            // Somebody else may have been faster.
            if self.0.world.store.delete(&agent).await.is_ok() {
                gone.push(agent);
            }
        }
        self.0.world.store.delete(&id).await.map_err(not_stored)?;
        gone.push(id);
        Ok(gone)
    }

    /// The stored agents below a thread, those furthest down first.
    async fn stored_below(&self, id: &ThreadId) -> Result<Vec<ThreadId>, ThreadError> {
        let mut found = vec![id.clone()];
        let mut next = 0;
        while let Some(parent) = found.get(next).cloned().filter(|_| next < MOST) {
            for child in self.0.world.store.children(&parent).await? {
                if !found.contains(&child) {
                    found.push(child);
                }
            }
            next += 1;
        }
        found.remove(0);
        found.reverse();
        Ok(found)
    }
}
