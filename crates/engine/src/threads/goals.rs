//! The goals of threads, loaded or not.

use codicil_protocol::{ThreadGoal, ThreadGoalSetParams, ThreadId};
use codicil_store::{Record, StoreError};

use super::{Threads, names::canonical};
use crate::{clock::unix_now, error::ThreadError, goals, thread::ThreadHandle};

impl Threads {
    pub async fn goal(&self, id: &ThreadId) -> Result<Option<ThreadGoal>, ThreadError> {
        let id = &canonical(id)?;
        match self.durable(id).await? {
            Some(handle) => handle.goal().await,
            None => self.stored_goal(id).await,
        }
    }

    /// Sets the goal, or changes the one that there is.
    pub async fn set_goal(&self, change: ThreadGoalSetParams) -> Result<ThreadGoal, ThreadError> {
        let id = &canonical(&change.thread_id)?;
        if let Some(handle) = self.durable(id).await? {
            return handle.set_goal(change).await;
        }
        let goal = goals::changed(id, self.stored_goal(id).await?, change, unix_now())?;
        self.store_goal(id, Some(&goal)).await?;
        Ok(goal)
    }

    /// Takes the goal away; false if there is none.
    pub async fn clear_goal(&self, id: &ThreadId) -> Result<bool, ThreadError> {
        let id = &canonical(id)?;
        if let Some(handle) = self.durable(id).await? {
            return handle.clear_goal().await;
        }
        let had_one = self.stored_goal(id).await?.is_some();
        if had_one {
            self.store_goal(id, None).await?;
        }
        Ok(had_one)
    }

    /// The thread if it is loaded. One that is only in memory cannot keep a goal.
    async fn durable(&self, id: &ThreadId) -> Result<Option<ThreadHandle>, ThreadError> {
        let Ok(handle) = self.get(id) else { return Ok(None) };
        if handle.snapshot().await?.thread.ephemeral {
            return Err(ThreadError::EphemeralGoal(id.clone()));
        }
        Ok(Some(handle))
    }

    async fn stored_goal(&self, id: &ThreadId) -> Result<Option<ThreadGoal>, ThreadError> {
        Ok(self.0.world.store.read(id).await.map_err(not_found)?.goal)
    }

    async fn store_goal(&self, id: &ThreadId, goal: Option<&ThreadGoal>) -> Result<(), ThreadError> {
        let mut log = self.0.world.store.open_log(id).await.map_err(not_found)?;
        Ok(log.append(&[Record::goal(goal)]).await?)
    }
}

fn not_found(error: StoreError) -> ThreadError {
    match error {
        StoreError::NotFound(id) => ThreadError::NotFound(id),
        other => other.into(),
    }
}
