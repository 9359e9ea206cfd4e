//! The queue of a thread: submissions that start turns of their own.
//!
//! The next submission starts when the thread is idle after a turn that completed or failed. An interrupt pauses the queue,
//! also over loading the thread. `thread/queue/start` and a turn of the user that ends otherwise let it go on.

use codicil_protocol::{
    QueuedSubmission, ThreadQueueAddParams, ThreadQueueChanged, ThreadQueueChangedNotification, Turn,
    TurnStartParams, TurnStatus, UserInput,
};
use codicil_store::{FactChange, QueueChange, Record};

use super::{
    AnnouncedReply, CommandReply, TurnOrigin,
    actor::{ThreadActor, answer},
    input::RequestInput,
};
use crate::{
    error::{QueueError, ThreadError},
    queue,
};

impl ThreadActor {
    pub(super) fn queued(&self) -> Result<Vec<QueuedSubmission>, ThreadError> {
        self.check_has_queue()?;
        Ok(self.state.facts.queue.clone())
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
        self.check_has_queue()?;
        let submission = queue::added(&self.state.facts.queue, params)?;
        self.change_queue(QueueChange::Set(submission.clone()), self.key_records(&submission)?).await?;
        Ok(submission)
    }

    pub(super) async fn on_queue_update(
        &mut self,
        id: &str,
        input: Vec<UserInput>,
    ) -> Result<QueuedSubmission, ThreadError> {
        self.check_has_queue()?;
        let submission = queue::updated(&self.state.facts.queue, id, input)?;
        self.change_queue(QueueChange::Set(submission.clone()), self.key_records(&submission)?).await?;
        Ok(submission)
    }

    /// Removes a submission. Returns false if the queue does not have it.
    pub(super) async fn on_queue_delete(&mut self, id: String) -> Result<bool, ThreadError> {
        self.check_has_queue()?;
        let is_queued = self.state.facts.queue.iter().any(|submission| submission.id == id);
        if is_queued {
            self.change_queue(QueueChange::Remove(id), self.key_records(&true)?).await?;
        } else {
            self.store_key(&false).await?;
        }
        Ok(is_queued)
    }

    pub(super) async fn on_queue_reorder(&mut self, ids: Vec<String>) -> Result<(), ThreadError> {
        self.check_has_queue()?;
        queue::check_order(&self.state.facts.queue, &ids)?;
        self.change_queue(QueueChange::Order(ids), self.key_records(&())?).await
    }

    async fn change_queue(&mut self, change: QueueChange, key: Vec<Record>) -> Result<(), ThreadError> {
        let record = Record::fact(&FactChange::Queue(change));
        self.store([record].into_iter().chain(key).collect()).await?;
        self.announce_queue();
        Ok(())
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
        self.check_has_queue()?;
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
        if self.is_queue_paused {
            return false;
        }
        let Some(submission) = self.state.facts.queue.first().cloned() else { return false };
        match self.begin_queued(submission, self.last_origin.clone()).await {
            Ok(turn) => {
                self.announce_begun(&turn.id);
                true
            }
            Err(error) => {
                tracing::warn!(thread = %self.state.id, "cannot start a queued submission, pausing the queue: {error}");
                self.is_queue_paused = true;
                false
            }
        }
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
