//! Requests about the queues of threads, loaded or not. Only a loaded thread starts turns.

use codicil_protocol::{
    QueuedSubmission, ThreadId, ThreadQueueAddParams, ThreadQueueListParams, ThreadQueueListResponse,
    ThreadQueueUpdateParams, Turn,
};
use codicil_store::{FactChange, QueueChange, Record, StoreError, StoredThread};

use super::{Threads, ids::canonical};
use crate::{
    error::{QueueError, ThreadError},
    queue,
    request_key::RequestKey,
    thread::{AnnouncedReply, TurnOrigin},
};

impl Threads {
    pub async fn queue_add(
        &self,
        params: ThreadQueueAddParams,
        origin: TurnOrigin,
        key: Option<RequestKey>,
    ) -> Result<AnnouncedReply<QueuedSubmission>, ThreadError> {
        let id = &canonical(&params.thread_id)?;
        if let Ok(handle) = self.get(id) {
            return handle.with_key(key).queue_add(params, origin).await;
        }
        self.check_queue_place(id).await?;
        let add = |stored: StoredThread| {
            let submission = queue::added(&stored.facts.queue, params.clone())?;
            Ok((Some(queue_record(QueueChange::Set(submission.clone()))), submission))
        };
        let added = self.change_stored(id, key.as_ref(), add).await.map_err(no_thread)?;
        Ok(AnnouncedReply::new(added).0)
    }

    pub async fn queue_list(
        &self,
        params: &ThreadQueueListParams,
    ) -> Result<ThreadQueueListResponse, ThreadError> {
        let id = &canonical(&params.thread_id)?;
        let queue = match self.get(id) {
            Ok(handle) => handle.queue().await?,
            Err(_) => {
                self.check_queue_place(id).await?;
                self.0.engine.store.read(id).await.map_err(|error| no_thread(error.into()))?.facts.queue
            }
        };
        Ok(queue::page(&queue, params)?)
    }

    pub async fn queue_update(
        &self,
        params: ThreadQueueUpdateParams,
        key: Option<RequestKey>,
    ) -> Result<QueuedSubmission, ThreadError> {
        let id = &canonical(&params.thread_id)?;
        if let Ok(handle) = self.get(id) {
            return handle.with_key(key).queue_update(params).await;
        }
        self.check_queue_place(id).await?;
        let update = |stored: StoredThread| {
            let ThreadQueueUpdateParams { queued_submission_id, input, .. } = params.clone();
            let submission = queue::updated(&stored.facts.queue, &queued_submission_id, input)?;
            Ok((Some(queue_record(QueueChange::Set(submission.clone()))), submission))
        };
        self.change_stored(id, key.as_ref(), update).await.map_err(no_thread)
    }

    /// Removes a submission. Returns false if the queue does not have it.
    pub async fn queue_delete(
        &self,
        id: &ThreadId,
        submission: String,
        key: Option<RequestKey>,
    ) -> Result<bool, ThreadError> {
        let id = &canonical(id)?;
        if let Ok(handle) = self.get(id) {
            return handle.with_key(key).queue_delete(submission).await;
        }
        self.check_queue_place(id).await?;
        let delete = |stored: StoredThread| {
            let is_queued = stored.facts.queue.iter().any(|queued| queued.id == submission);
            Ok((is_queued.then(|| queue_record(QueueChange::Remove(submission.clone()))), is_queued))
        };
        self.change_stored(id, key.as_ref(), delete).await.map_err(no_thread)
    }

    pub async fn queue_reorder(
        &self,
        id: &ThreadId,
        order: Vec<String>,
        key: Option<RequestKey>,
    ) -> Result<(), ThreadError> {
        let id = &canonical(id)?;
        if let Ok(handle) = self.get(id) {
            return handle.with_key(key).queue_reorder(order).await;
        }
        self.check_queue_place(id).await?;
        let reorder = |stored: StoredThread| {
            queue::check_order(&stored.facts.queue, &order)?;
            Ok((Some(queue_record(QueueChange::Order(order.clone()))), ()))
        };
        self.change_stored(id, key.as_ref(), reorder).await.map_err(no_thread)
    }

    /// Starts a turn with a submission of a loaded thread.
    pub async fn queue_start(
        &self,
        id: &ThreadId,
        submission: Option<String>,
        origin: TurnOrigin,
        key: Option<RequestKey>,
    ) -> Result<AnnouncedReply<Turn>, ThreadError> {
        let id = &canonical(id)?;
        if let Ok(handle) = self.get(id) {
            return handle.with_key(key).queue_start(submission, origin).await;
        }
        self.check_queue_place(id).await?;
        Err(QueueError::NotLoaded.into())
    }

    /// Rejects requests about threads that are archived or unknown.
    async fn check_queue_place(&self, id: &ThreadId) -> Result<(), ThreadError> {
        let place = self.0.engine.store.find(id).await.map_err(|error| no_thread(error.into()))?;
        if place.archived {
            return Err(QueueError::Archived(id.clone()).into());
        }
        Ok(())
    }
}

fn queue_record(change: QueueChange) -> Record {
    Record::fact(&FactChange::Queue(change))
}

/// Reports an unknown thread in the words of the reference server.
fn no_thread(error: ThreadError) -> ThreadError {
    match error {
        ThreadError::NotFound(id) | ThreadError::Store(StoreError::NotFound(id)) => {
            QueueError::NoThread(id).into()
        }
        other => other,
    }
}
