//! Requests about what the user has read, for threads that are loaded or not.

use codicil_protocol::{
    ThreadId, ThreadReadState, ThreadReadStateChanged, ThreadReadStateChangedNotification,
    ThreadReadStateUpdateParams,
};
use codicil_store::{Record, StoreError};

use super::{Threads, ids::canonical};
use crate::{
    error::{ReadStateError, ThreadError},
    thread::changed_read_state,
};

impl Threads {
    /// Marks a thread as read or unread. Its subscribers are notified before this returns, unless it is archived.
    pub async fn update_read_state(
        &self,
        params: ThreadReadStateUpdateParams,
    ) -> Result<ThreadReadState, ThreadError> {
        let id = canonical(&params.thread_id).map_err(|error| ReadStateError::ThreadId(error.to_string()))?;
        if let Ok(handle) = self.get(&id) {
            return handle.update_read_state(params).await;
        }
        let stored = self.0.engine.store.read(&id).await.map_err(not_loaded)?;
        let change = changed_read_state(stored.facts.read.state(&id), &params)?;
        self.0.engine.store.append_beside(&id, Record::fact(&change)).await?;
        let read_state = self.stored_read_state(&id).await?.ok_or(ReadStateError::None(id.clone()))?;
        if !stored.archived {
            let changed =
                ThreadReadStateChangedNotification { thread_id: id, read_state: read_state.clone() };
            self.notify::<ThreadReadStateChanged>(&changed.thread_id, &changed);
        }
        Ok(read_state)
    }

    pub(super) async fn stored_read_state(
        &self,
        id: &ThreadId,
    ) -> Result<Option<ThreadReadState>, ThreadError> {
        Ok(self.0.engine.store.read(id).await.map_err(not_loaded)?.facts.read.state(id))
    }
}

fn not_loaded(error: StoreError) -> ThreadError {
    match error {
        StoreError::NotFound(id) => ThreadError::NotLoaded(id),
        other => other.into(),
    }
}
