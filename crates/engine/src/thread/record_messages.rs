//! The messages that follow from stored records.
//!
//! [`RecordMessages`] is the one function from records to messages. A running thread applies it to the records that it
//! stores, and a subscription applies it to the records of the file, so both produce the same messages with the same
//! positions.

use std::borrow::Cow;

use codicil_protocol::{
    Frame, ItemCompleted, ItemCompletedNotification, ItemId, ItemStarted, ItemStartedNotification,
    MessagePlace, MessageSeq, ThreadGoalCleared, ThreadGoalClearedNotification, ThreadGoalUpdated,
    ThreadGoalUpdatedNotification, ThreadId, ThreadItem, ThreadNameUpdated, ThreadNameUpdatedNotification,
    ThreadTokenUsage, ThreadTokenUsageUpdated, ThreadTokenUsageUpdatedNotification, Turn, TurnCompleted,
    TurnCompletedNotification, TurnId, TurnStarted, TurnStartedNotification,
};
use codicil_store::{GoalChange, ItemMark, Record};
use jiff::Timestamp;

/// The state that the messages of a record depend on, besides the record itself.
#[derive(Debug, Default)]
pub(crate) struct RecordMessages {
    /// The turn that began last, and when.
    turn: Option<(TurnId, Timestamp)>,
    /// Inputs of that turn that clients have not seen. The item is there once it is stored.
    queued: Vec<(ItemId, Option<ThreadItem>)>,
    /// Inputs of that turn that clients have seen.
    announced: Vec<ItemId>,
}

/// What clients learn from a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordMessage<'a> {
    /// The position of the first message.
    pub seq: MessageSeq,
    pub at: Timestamp,
    pub body: RecordMessageBody<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordMessageBody<'a> {
    TurnStarted(Turn),
    /// Two messages: `item/started` and `item/completed`.
    Item {
        turn_id: TurnId,
        item: Cow<'a, ThreadItem>,
    },
    TurnCompleted(Turn),
    Name(&'a str),
    Usage {
        turn_id: &'a TurnId,
        usage: &'a ThreadTokenUsage,
    },
    Goal(GoalChange),
}

impl RecordMessages {
    /// Continues with a turn whose first records are not among the next ones.
    pub fn continue_turn(&mut self, id: TurnId, started: Timestamp) {
        self.turn = Some((id, started));
    }

    /// Returns the messages of the next record.
    pub fn next<'a>(&mut self, ordinal: u64, at: Timestamp, record: &'a Record) -> Vec<RecordMessage<'a>> {
        let mut index = 0;
        let place = |body: RecordMessageBody<'a>| {
            let seq = MessageSeq::durable(ordinal, index);
            index += if matches!(body, RecordMessageBody::Item { .. }) { 2 } else { 1 };
            RecordMessage { seq, at, body }
        };
        self.bodies(at, record).into_iter().map(place).collect()
    }

    fn bodies<'a>(&mut self, at: Timestamp, record: &'a Record) -> Vec<RecordMessageBody<'a>> {
        match record {
            // A process that continues the turn of an earlier one writes its record again.
            Record::Turn { turn_id, .. } if self.turn.as_ref().is_some_and(|(id, _)| id == turn_id) => {
                Vec::new()
            }
            Record::Turn { turn_id, .. } => {
                self.turn = Some((turn_id.clone(), at));
                self.queued.clear();
                self.announced.clear();
                let started_at = Some(at.as_second());
                vec![RecordMessageBody::TurnStarted(Turn {
                    started_at,
                    ..Turn::in_progress(turn_id.clone())
                })]
            }
            Record::Item { turn_id, item } => self.item(turn_id, item).into_iter().collect(),
            Record::TurnEnd { turn_id, status, error, .. } => {
                let queued = std::mem::take(&mut self.queued).into_iter().filter_map(|(_, item)| item);
                let unseen =
                    |item| RecordMessageBody::Item { turn_id: turn_id.clone(), item: Cow::Owned(item) };
                let mut bodies: Vec<_> = queued.map(unseen).collect();
                let started = self.turn.take().filter(|(id, _)| id == turn_id).map(|(_, started)| started);
                bodies.push(RecordMessageBody::TurnCompleted(Turn {
                    status: status.clone(),
                    error: error.clone(),
                    started_at: started.map(Timestamp::as_second),
                    completed_at: Some(at.as_second()),
                    duration_ms: started.map(|started| milliseconds(started, at)),
                    ..Turn::in_progress(turn_id.clone())
                }));
                bodies
            }
            Record::Name { name } => vec![RecordMessageBody::Name(name)],
            Record::Usage { turn_id, usage } => vec![RecordMessageBody::Usage { turn_id, usage }],
            Record::Extra { .. } => {
                match record.marked_item() {
                    Some((ItemMark::Queued, id)) => self.queued.push((id, None)),
                    Some((ItemMark::Withdrawn, id)) => self.queued.retain(|(queued, _)| *queued != id),
                    None => {}
                }
                record.goal_change().map(RecordMessageBody::Goal).into_iter().collect()
            }
            Record::Meta(_)
            | Record::Settings(_)
            | Record::Context { .. }
            | Record::Rollback { .. }
            | Record::Compaction { .. }
            | Record::Begun { .. }
            | Record::Asked { .. }
            | Record::Answered { .. }
            | Record::Git { .. } => Vec::new(),
        }
    }

    /// Returns the message of an item, unless it is an input that clients see later or have seen before.
    fn item<'a>(&mut self, turn_id: &TurnId, item: &'a ThreadItem) -> Option<RecordMessageBody<'a>> {
        if let (ThreadItem::UserMessage { .. }, Some(id)) = (item, item.id()) {
            if let Some((_, stored)) = self.queued.iter_mut().find(|(queued, _)| queued == id) {
                if stored.is_none() {
                    *stored = Some(item.clone());
                    return None;
                }
                self.queued.retain(|(queued, _)| queued != id);
            } else if self.announced.contains(id) {
                return None;
            }
            self.announced.push(id.clone());
        }
        Some(RecordMessageBody::Item { turn_id: turn_id.clone(), item: Cow::Borrowed(item) })
    }
}

fn milliseconds(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond().saturating_sub(from.as_millisecond()).max(0)
}

impl RecordMessage<'_> {
    /// Returns the messages in the form in which they are replayed.
    pub fn into_frames(self, thread_id: &ThreadId) -> Vec<Frame> {
        let Self { seq, at, body } = self;
        let thread = || thread_id.clone();
        let frames = match body {
            RecordMessageBody::TurnStarted(turn) => {
                vec![Frame::notification::<TurnStarted>(&TurnStartedNotification {
                    thread_id: thread(),
                    turn,
                })]
            }
            RecordMessageBody::Item { turn_id, item } => {
                vec![
                    item_started(thread_id, &turn_id, &item, at),
                    item_completed(thread_id, &turn_id, &item, at),
                ]
            }
            RecordMessageBody::TurnCompleted(turn) => {
                let params = TurnCompletedNotification { thread_id: thread(), turn };
                vec![Frame::notification::<TurnCompleted>(&params)]
            }
            RecordMessageBody::Name(name) => {
                let params =
                    ThreadNameUpdatedNotification { thread_id: thread(), thread_name: Some(name.to_owned()) };
                vec![Frame::notification::<ThreadNameUpdated>(&params)]
            }
            RecordMessageBody::Usage { turn_id, usage } => {
                let params = ThreadTokenUsageUpdatedNotification {
                    thread_id: thread(),
                    turn_id: turn_id.clone(),
                    token_usage: usage.clone(),
                };
                vec![Frame::notification::<ThreadTokenUsageUpdated>(&params)]
            }
            RecordMessageBody::Goal(GoalChange::Set(goal)) => {
                let params =
                    ThreadGoalUpdatedNotification { thread_id: thread(), turn_id: None, goal: *goal };
                vec![Frame::notification::<ThreadGoalUpdated>(&params)]
            }
            RecordMessageBody::Goal(GoalChange::Removed) => {
                let params = ThreadGoalClearedNotification { thread_id: thread() };
                vec![Frame::notification::<ThreadGoalCleared>(&params)]
            }
        };
        let seqs = (0..).map(|index| seq.plus(index));
        let place = |(frame, seq): (Frame, _)| frame.at(MessagePlace::new(thread_id.clone(), seq));
        frames.into_iter().zip(seqs).map(place).collect()
    }
}

pub(super) fn item_started(thread: &ThreadId, turn: &TurnId, item: &ThreadItem, at: Timestamp) -> Frame {
    Frame::notification::<ItemStarted>(&ItemStartedNotification {
        thread_id: thread.clone(),
        turn_id: turn.clone(),
        item: item.clone(),
        started_at_ms: Some(at.as_millisecond()),
    })
}

pub(super) fn item_completed(thread: &ThreadId, turn: &TurnId, item: &ThreadItem, at: Timestamp) -> Frame {
    Frame::notification::<ItemCompleted>(&ItemCompletedNotification {
        thread_id: thread.clone(),
        turn_id: turn.clone(),
        item: item.clone(),
        completed_at_ms: Some(at.as_millisecond()),
    })
}
