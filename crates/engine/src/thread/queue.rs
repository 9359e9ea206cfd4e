//! The queue of a thread: submissions that start turns of their own.
//!
//! The next submission starts when the thread is idle after a turn that completed or failed. An interrupt pauses the queue,
//! also over loading the thread. `thread/queue/start` and a turn of the user that ends otherwise let it go on.

use codicil_protocol::{
    QueuedSubmission, ThreadQueueAddParams, ThreadQueueChanged, ThreadQueueChangedNotification, Turn,
    TurnStartParams, TurnStatus, UserInput,
};
use codicil_store::{FactChange, QueueChange, Record};
use serde::Serialize;

use super::{
    AnnouncedReply, CommandReply, TurnOrigin,
    actor::{ThreadActor, answer},
    input::RequestInput,
    other_writers::MAX_RELOADS,
};
use crate::{
    error::{QueueError, ThreadError},
    queue,
};

impl ThreadActor {
    pub(super) async fn queued(&mut self) -> Result<Vec<QueuedSubmission>, ThreadError> {
        self.refresh_queue().await?;
        Ok(self.state.facts.queue.clone())
    }

    /// Takes over what other processes have changed of the queue.
    async fn refresh_queue(&mut self) -> Result<(), ThreadError> {
        self.check_has_queue()?;
        let Some(log) = &self.state.log else { return Ok(()) };
        if log.is_current().await {
            return Ok(());
        }
        if self.is_idle() {
            return self.take_newer_records().await;
        }
        // The next append adopts the same changes again, which makes no difference.
        self.state.facts.queue = self.engine.store.read(&self.state.id).await?.facts.queue;
        Ok(())
    }

    fn check_has_queue(&self) -> Result<(), QueueError> {
        match self.state.log {
            Some(_) => Ok(()),
            None => Err(QueueError::Ephemeral(self.state.id.clone())),
        }
    }

    pub(super) async fn on_queue_add(
        &mut self,
        params: ThreadQueueAddParams,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<QueuedSubmission>>,
    ) {
        match self.queue_add(params).await {
            Ok(submission) => {
                self.last_origin = origin;
                self.accept(reply, submission).await;
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    async fn queue_add(&mut self, params: ThreadQueueAddParams) -> Result<QueuedSubmission, ThreadError> {
        let add = |queue: &[QueuedSubmission]| {
            let submission = queue::added(queue, params.clone())?;
            Ok((Some(QueueChange::Set(submission.clone())), submission))
        };
        self.change_queue(add).await
    }

    pub(super) async fn on_queue_update(
        &mut self,
        id: &str,
        input: Vec<UserInput>,
    ) -> Result<QueuedSubmission, ThreadError> {
        let update = |queue: &[QueuedSubmission]| {
            let submission = queue::updated(queue, id, input.clone())?;
            Ok((Some(QueueChange::Set(submission.clone())), submission))
        };
        self.change_queue(update).await
    }

    /// Removes a submission. Returns false if the queue does not have it.
    pub(super) async fn on_queue_delete(&mut self, id: String) -> Result<bool, ThreadError> {
        let delete = |queue: &[QueuedSubmission]| {
            let is_queued = queue.iter().any(|submission| submission.id == id);
            Ok((is_queued.then(|| QueueChange::Remove(id.clone())), is_queued))
        };
        self.change_queue(delete).await
    }

    pub(super) async fn on_queue_reorder(&mut self, ids: Vec<String>) -> Result<(), ThreadError> {
        let reorder = |queue: &[QueuedSubmission]| {
            queue::check_order(queue, &ids)?;
            Ok((Some(QueueChange::Order(ids.clone())), ()))
        };
        self.change_queue(reorder).await
    }

    /// Stores a change of the queue as it is now, also if another process changes it meanwhile, with the key of the request.
    /// `change` returns the change, if there is one, and the result.
    async fn change_queue<T: Serialize>(
        &mut self,
        change: impl Fn(&[QueuedSubmission]) -> Result<(Option<QueueChange>, T), QueueError>,
    ) -> Result<T, ThreadError> {
        self.refresh_queue().await?;
        for _ in 0..MAX_RELOADS {
            let (change, result) = change(&self.state.facts.queue)?;
            let is_changed = change.is_some();
            let record = change.map(|change| Record::fact(&FactChange::Queue(change)));
            let records = record.into_iter().chain(self.key_records(&result)?).collect();
            match self.store_once(records).await {
                Ok(()) if is_changed => {
                    self.announce_queue();
                    return Ok(result);
                }
                Ok(()) => return Ok(result),
                Err(error) if error.is_conflict() => self.check_key_again().await?,
                Err(error) if error.is_overtaken() && self.is_idle() => self.take_newer_records().await?,
                Err(error) => return Err(error),
            }
        }
        Err(ThreadError::Busy)
    }

    pub(super) fn announce_queue(&self) {
        let thread_id = self.state.id.clone();
        self.notifier.notify::<ThreadQueueChanged>(&ThreadQueueChangedNotification { thread_id });
    }

    /// Starts a turn with a submission and lets a paused queue go on.
    pub(super) async fn on_queue_start(
        &mut self,
        id: Option<String>,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<Turn>>,
    ) {
        let started = self.queue_start(id, origin).await;
        match started {
            Ok(turn) => {
                self.accept(reply, turn.clone()).await;
                self.announce_begun(&turn.id);
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    async fn queue_start(&mut self, id: Option<String>, origin: TurnOrigin) -> Result<Turn, ThreadError> {
        self.refresh_queue().await?;
        if self.active.is_some() {
            return Err(QueueError::TurnRunning.into());
        }
        let submission = queue::next(&self.state.facts.queue, id.as_deref())?.clone();
        let turn = self.begin_queued(submission, origin).await?;
        self.is_queue_paused = false;
        Ok(turn)
    }

    async fn begin_queued(
        &mut self,
        submission: QueuedSubmission,
        origin: TurnOrigin,
    ) -> Result<Turn, ThreadError> {
        self.claim_conversation().await?;
        self.refresh_config().await;
        let input = RequestInput::queued(submission);
        input.check(|| self.dialect())?;
        let params = TurnStartParams::new(self.state.id.clone(), Vec::new());
        let id = self.begin_turn(input, params, origin).await?;
        self.announce_queue();
        Ok(Turn::in_progress(id))
    }

    /// Starts the first submission, if the queue is not paused. Returns whether a turn runs now.
    pub(super) async fn start_queued(&mut self) -> bool {
        if self.is_queue_paused || self.state.facts.queue.is_empty() {
            return false;
        }
        match self.begin_first_queued().await {
            Ok(Some(turn)) => {
                self.announce_begun(&turn.id);
                true
            }
            Ok(None) => false,
            Err(error) => {
                tracing::warn!(thread = %self.state.id, "cannot start a queued submission, pausing the queue: {error}");
                self.is_queue_paused = true;
                false
            }
        }
    }

    /// Starts the first submission that no other process removes or starts meanwhile.
    async fn begin_first_queued(&mut self) -> Result<Option<Turn>, ThreadError> {
        self.refresh_queue().await?;
        while let Some(submission) = self.state.facts.queue.first().cloned() {
            match self.begin_queued(submission, self.last_origin.clone()).await {
                Err(ThreadError::Queue(QueueError::NotQueued(_))) => {}
                begun => return begun.map(Some),
            }
        }
        Ok(None)
    }

    /// Pauses the queue after an interrupt, and lets it go on after a turn that ended otherwise.
    pub(super) fn pause_or_resume_queue(&mut self, status: &TurnStatus) {
        self.is_unresumed = false;
        match status {
            TurnStatus::Interrupted => self.is_queue_paused = true,
            TurnStatus::Completed | TurnStatus::Failed => self.is_queue_paused = false,
            _ => {}
        }
    }
}
