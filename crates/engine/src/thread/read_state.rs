//! What the user has read of a thread.
//!
//! Each end of a turn that left something to read makes a new revision: a message of the agent, or an error. The first
//! unread turn is stored when it changes; the ends of further turns change the revision by themselves.
//! Ephemeral threads and subagents have no read state.

use codicil_protocol::{
    ThreadReadState, ThreadReadStateChanged, ThreadReadStateChangedNotification, ThreadReadStateOperation,
    ThreadReadStateUpdateParams, ThreadUnreadPosition, TurnId, TurnStatus,
};
use codicil_store::{FactChange, Record, StoredTurn};

use super::{active_turn::ActiveTurn, actor::ThreadActor};
use crate::{
    error::{ReadStateError, ThreadError},
    subagent::SubagentOrigin,
};

/// Whether another turn of the same goal follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoalContinuation {
    Follows,
    Ends,
}

/// Whether a turn left something for the user to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnNews {
    /// A message of the agent, or an error.
    Some,
    None,
}

impl TurnNews {
    pub fn of(active: &ActiveTurn, status: &TurnStatus) -> Self {
        let is_news = *status == TurnStatus::Failed || active.last_message.is_some();
        if is_news { Self::Some } else { Self::None }
    }
}

impl ThreadActor {
    pub(super) fn read_state(&self) -> Option<ThreadReadState> {
        self.state.facts.read.state(&self.state.id)
    }

    pub(super) async fn on_update_read_state(
        &mut self,
        params: ThreadReadStateUpdateParams,
    ) -> Result<ThreadReadState, ThreadError> {
        self.refresh_records().await;
        let change = changed(self.read_state(), &params)?;
        self.store(vec![Record::fact(&change)]).await?;
        self.announce_read_state();
        Ok(self.read_state().ok_or(ReadStateError::None(params.thread_id))?)
    }

    /// Returns the records about the read state that precede the end of a turn.
    pub(super) fn read_state_records(
        &self,
        turn: &TurnId,
        continuation: GoalContinuation,
        news: TurnNews,
    ) -> Vec<Record> {
        if continuation == GoalContinuation::Follows {
            return vec![Record::continues(turn)];
        }
        if news == TurnNews::None {
            return self.first_read_record().into_iter().chain([Record::continues(turn)]).collect();
        }
        self.unread_record(turn).into_iter().collect()
    }

    fn unread_record(&self, turn: &TurnId) -> Option<Record> {
        if !self.has_read_state() || self.state.facts.read.first_unread.is_some() {
            return None;
        }
        let first_unread = Some(ThreadUnreadPosition::Turn { turn_id: turn.clone() });
        Some(Record::fact(&FactChange::ReadState { first_unread }))
    }

    /// Returns the record with which a stored thread without turns gets a read state.
    pub(super) fn first_read_record(&self) -> Option<Record> {
        let is_first = self.has_read_state() && self.read_state().is_none();
        is_first.then(|| Record::fact(&FactChange::ReadState { first_unread: None }))
    }

    fn has_read_state(&self) -> bool {
        self.state.log.is_some() && SubagentOrigin::of(&self.state.source).is_none()
    }

    /// Adds the record about the read state to the records of a turn that ends, before the last one.
    pub(super) fn note_unread(&self, turn: &TurnId, mut records: Vec<Record>) -> Vec<Record> {
        let before_end = records.len().saturating_sub(1);
        records.splice(before_end..before_end, self.unread_record(turn));
        records
    }

    /// Keeps the first read state of a thread to itself: all of it is read, as clients assume.
    pub(super) fn skip_read_state(&mut self) {
        self.announced_read = self.state.facts.read.revision;
    }

    /// Announces the read state unless clients have its revision.
    pub(super) fn announce_read_state(&mut self) {
        let revision = self.state.facts.read.revision;
        if std::mem::replace(&mut self.announced_read, revision) == revision {
            return;
        }
        if let Some(read_state) = self.read_state() {
            let thread_id = self.state.id.clone();
            let params = ThreadReadStateChangedNotification { thread_id, read_state };
            self.notifier.notify::<ThreadReadStateChanged>(&params);
        }
    }

    /// Returns the record that marks everything as read, if the first unread turn is not among those that are left.
    pub(super) fn unread_dropped_record(&self, kept: &[StoredTurn]) -> Option<Record> {
        match &self.state.facts.read.first_unread {
            Some(ThreadUnreadPosition::Turn { turn_id }) if !kept.iter().any(|turn| turn.id == *turn_id) => {
                Some(Record::fact(&FactChange::ReadState { first_unread: None }))
            }
            _ => None,
        }
    }
}

/// Returns the change that a request makes to a read state.
pub(crate) fn changed(
    current: Option<ThreadReadState>,
    params: &ThreadReadStateUpdateParams,
) -> Result<FactChange, ReadStateError> {
    let current = current.ok_or_else(|| ReadStateError::None(params.thread_id.clone()))?;
    if current.revision != params.expected_revision {
        return Err(ReadStateError::Conflict(Box::new(current)));
    }
    let first_unread = match &params.operation {
        ThreadReadStateOperation::Read => None,
        ThreadReadStateOperation::Unread => Some(ThreadUnreadPosition::ThreadStart),
        ThreadReadStateOperation::Unrecognized(_) => return Err(ReadStateError::Operation),
    };
    Ok(FactChange::ReadState { first_unread })
}
