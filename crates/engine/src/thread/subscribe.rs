//! Clients that subscribe at a position in the thread's messages, with `codicil/subscribe`.
//!
//! The answer is a replay of the missed messages, made of the records and of the recent messages, or a snapshot of the
//! thread. The thread sends nothing until the client has it, so that the messages after it follow without a gap.

use codicil_metrics::METRICS;
use codicil_protocol::{
    Frame, MessageSeq, NotificationMethod, SnapshotReason, Thread, ThreadItem, ThreadStatusChanged,
    TurnPlanUpdated,
};
use codicil_store::{RecordTail, StoredTurn};

use super::{
    AnnouncedReply, CommandReply, ThreadSnapshot,
    actor::{ThreadActor, answer},
    recent_frames,
    record_messages::{RecordMessage, RecordMessageBody, RecordMessages},
};
use crate::{error::ThreadError, threads::stored_turns};

/// The longest replay. A longer one is a snapshot.
pub const MAX_REPLAY_MESSAGES: usize = 10_000;
pub const MAX_REPLAY_BYTES: usize = 4 << 20;

/// The beginning of a subscription.
#[derive(Debug)]
pub enum ThreadSubscription {
    /// The messages after the client's position.
    Replay { from: MessageSeq, at: MessageSeq, frames: Vec<Frame> },
    Snapshot {
        at: MessageSeq,
        thread: Box<Thread>,
        turns: Vec<StoredTurn>,
        open: Vec<ThreadItem>,
        why: Option<SnapshotReason>,
    },
}

/// The result of looking for the messages after a position.
enum MissedMessages {
    Found(Vec<Frame>),
    /// The client needs a snapshot.
    Impossible(SnapshotReason),
}

impl ThreadActor {
    pub(super) async fn on_subscribe(
        &mut self,
        after: Option<MessageSeq>,
        reply: CommandReply<AnnouncedReply<ThreadSubscription>>,
    ) {
        self.refresh_records().await;
        self.continue_turn().await;
        self.notifier.pause();
        match self.subscription(after).await {
            Ok(subscription) => self.accept(reply, subscription).await,
            Err(error) => answer(reply, Err(error)),
        }
        self.notifier.resume();
    }

    async fn subscription(&mut self, after: Option<MessageSeq>) -> Result<ThreadSubscription, ThreadError> {
        self.note_position();
        let Some(from) = after else { return self.subscription_snapshot(None).await };
        // A thread that was loaded again counts messages without records from the start. The client has seen more.
        if self.active.is_none() {
            self.notifier.raise_within_record(from);
        }
        let at = self.notifier.position();
        match self.missed_messages(from, at).await? {
            MissedMessages::Found(frames) => {
                METRICS.replays.inc();
                let at = self.notifier.position();
                Ok(ThreadSubscription::Replay { from, at, frames })
            }
            MissedMessages::Impossible(reason) => self.subscription_snapshot(Some(reason)).await,
        }
    }

    /// Moves the position of an idle thread behind records without messages. Returns it.
    pub(super) fn note_position(&self) -> MessageSeq {
        if let Some(log) = self.state.log.as_ref().filter(|_| self.active.is_none()) {
            self.notifier.advance(log.next_ordinal().saturating_sub(1));
        }
        self.notifier.position()
    }

    async fn missed_messages(
        &self,
        after: MessageSeq,
        at: MessageSeq,
    ) -> Result<MissedMessages, ThreadError> {
        if after > at {
            return Ok(MissedMessages::Impossible(SnapshotReason::Unknown));
        }
        if let Some(reason) = self.notifier.snapshot_reason(after) {
            return Ok(MissedMessages::Impossible(reason));
        }
        let (floor, recent) =
            self.notifier.recent(|recent| (recent.is_open().then(|| recent.floor()), recent.after(after)));
        let floor = floor.unwrap_or(at);
        let Some(recent) = recent else {
            return Ok(MissedMessages::Impossible(SnapshotReason::TooFar));
        };
        if after >= floor {
            return Ok(MissedMessages::Found(recent));
        }
        if self.state.log.is_none() {
            return Err(ThreadError::NotReplayable(self.state.id.clone()));
        }
        let store = &self.engine.store;
        let tail = store.record_tail(&self.state.id, after.ordinal(), MAX_REPLAY_BYTES).await?;
        if tail.was_rolled_back {
            return Ok(MissedMessages::Impossible(SnapshotReason::RolledBack));
        }
        if tail.is_too_long {
            return Ok(MissedMessages::Impossible(SnapshotReason::TooFar));
        }
        let mut frames = self.stored_messages(&tail, after, floor);
        let states = self.states_without_record(&tail);
        // A newer state is among the recent messages.
        let has_newer = |frame: &Frame| recent.iter().any(|newer| newer.method() == frame.method());
        frames.retain(|frame| !is_state(frame) || !has_newer(frame));
        let states = states.into_iter().filter(|frame| !has_newer(frame));
        frames.extend(states.filter_map(|frame| self.notifier.place_state(frame)));
        frames.extend(recent);
        frames.sort_by_key(|frame| frame.place().map(|place| place.seq));
        let bytes: usize = frames.iter().map(|frame| frame.bytes().len()).sum();
        if frames.len() > MAX_REPLAY_MESSAGES || bytes > MAX_REPLAY_BYTES {
            return Ok(MissedMessages::Impossible(SnapshotReason::TooFar));
        }
        Ok(MissedMessages::Found(frames))
    }

    /// Returns messages about the states that follow from no record. What the client knows of them may have changed.
    fn states_without_record(&self, tail: &RecordTail) -> Vec<Frame> {
        let settings = tail.has_settings.then(|| self.settings_frame());
        let status = Frame::notification::<ThreadStatusChanged>(&self.status_params());
        settings.into_iter().chain([status]).collect()
    }

    /// Returns the messages of records after one position and up to another. Of messages about a state only the last.
    fn stored_messages(&self, tail: &RecordTail, after: MessageSeq, until: MessageSeq) -> Vec<Frame> {
        let mut records = RecordMessages::default();
        let mut messages: Vec<RecordMessage<'_>> = Vec::new();
        for placed in &tail.records {
            for message in records.next(placed.ordinal, placed.at, &placed.record) {
                let is_same_state = |earlier: &RecordMessage<'_>| {
                    if let (RecordMessageBody::Plan(earlier), RecordMessageBody::Plan(later)) =
                        (&earlier.body, &message.body)
                    {
                        return earlier.turn_id == later.turn_id;
                    }
                    matches!(
                        (&earlier.body, &message.body),
                        (RecordMessageBody::Usage { .. }, RecordMessageBody::Usage { .. })
                            | (RecordMessageBody::Goal(_), RecordMessageBody::Goal(_))
                            | (RecordMessageBody::Name(_), RecordMessageBody::Name(_))
                            | (RecordMessageBody::Queue, RecordMessageBody::Queue)
                            | (RecordMessageBody::ReadState, RecordMessageBody::ReadState)
                    )
                };
                messages.retain(|earlier| !is_same_state(earlier));
                messages.push(message);
            }
        }
        let read_state = self.read_state();
        let frames =
            messages.into_iter().flat_map(|message| message.into_frames(&self.state.id, read_state.as_ref()));
        let is_missed =
            |frame: &Frame| frame.place().is_some_and(|place| place.seq > after && place.seq <= until);
        frames.filter(is_missed).collect()
    }

    async fn subscription_snapshot(
        &self,
        why: Option<SnapshotReason>,
    ) -> Result<ThreadSubscription, ThreadError> {
        if self.state.log.is_none() {
            return Err(ThreadError::NotReplayable(self.state.id.clone()));
        }
        let active = self.active.as_ref();
        // The open items are listed beside the turns.
        let live = ThreadSnapshot { open_items: Vec::new(), ..self.snapshot().await };
        let turns = stored_turns(&self.engine, &self.state.id, Some(&live)).await?;
        let items = active.into_iter().flat_map(|active| active.open_items.values());
        let items: Vec<_> = items.chain(self.commands.items()).cloned().collect();
        let open =
            self.notifier.recent(|recent| items.into_iter().map(|item| recent.progress(item)).collect());
        let thread = Box::new(live.thread);
        METRICS.snapshots.inc();
        Ok(ThreadSubscription::Snapshot { at: self.notifier.position(), thread, turns, open, why })
    }
}

/// Returns whether a message of a record describes a state of the thread, of which only the last value counts. Each turn has
/// a plan of its own.
fn is_state(frame: &Frame) -> bool {
    frame.method().is_some_and(|method| method != TurnPlanUpdated::NAME && recent_frames::is_state(method))
}
