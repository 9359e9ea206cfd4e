//! The positions of messages within their threads.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Inspect, ThreadId};

/// The position of a message among the messages of its thread: `ordinal * 2^20 + sub`, an integer below 2^53.
///
/// The ordinal is that of a record of the thread, so positions of one thread increase over restarts and on other machines.
/// The messages of a record have its first sub numbers; messages that are not stored count on after them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct MessageSeq(u64);

impl MessageSeq {
    const SUB_BITS: u32 = 20;
    /// The first number of messages that are not stored.
    const FIRST_VOLATILE: u64 = 16;
    const LAST_SUB: u64 = (1 << Self::SUB_BITS) - 1;
    const CROWDED_SUB: u64 = 1 << 14;

    /// Returns the position of a message of a record; `index` counts the messages of the record.
    pub fn durable(ordinal: u64, index: usize) -> Self {
        let index = u64::try_from(index).unwrap_or(u64::MAX).min(Self::FIRST_VOLATILE - 1);
        Self((ordinal << Self::SUB_BITS) | index)
    }

    /// Returns the position after all messages of a record.
    pub fn end_of(ordinal: u64) -> Self {
        Self((ordinal << Self::SUB_BITS) | (Self::FIRST_VOLATILE - 1))
    }

    /// Returns the position of the next message that is not stored; `None` if the numbers of the record are used up.
    pub fn next_volatile(self) -> Option<Self> {
        let sub = (self.sub() + 1).max(Self::FIRST_VOLATILE);
        (sub <= Self::LAST_SUB).then_some(Self((self.ordinal() << Self::SUB_BITS) | sub))
    }

    /// Returns the position of a later message of the same record.
    #[must_use]
    pub fn plus(self, index: usize) -> Self {
        Self::durable(self.ordinal(), usize::try_from(self.sub()).unwrap_or(usize::MAX).saturating_add(index))
    }

    /// Returns the position directly before this one.
    pub fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Returns the first position of the next record.
    pub fn next_record(self) -> Self {
        Self::durable(self.ordinal() + 1, 0)
    }

    pub fn ordinal(self) -> u64 {
        self.0 >> Self::SUB_BITS
    }

    /// Returns whether so many messages follow the record that a new record should continue the positions. Most numbers
    /// are left then, so that this can wait for a moment.
    pub fn is_crowded(self) -> bool {
        self.sub() >= Self::CROWDED_SUB
    }

    pub fn value(self) -> u64 {
        self.0
    }

    fn sub(self) -> u64 {
        self.0 & Self::LAST_SUB
    }
}

impl From<u64> for MessageSeq {
    fn from(value: u64) -> Self {
        Self(value)
    }
}

impl fmt::Display for MessageSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Inspect for MessageSeq {}

/// The thread of a message and its position there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessagePlace {
    pub thread_id: ThreadId,
    pub seq: MessageSeq,
    /// Whether the message repeats one that was sent before.
    pub is_replay: bool,
}

impl MessagePlace {
    pub fn new(thread_id: ThreadId, seq: MessageSeq) -> Self {
        Self { thread_id, seq, is_replay: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_increase_with_records_and_messages() {
        let started = MessageSeq::durable(7, 0);
        let completed = MessageSeq::durable(7, 1);
        let first = completed.next_volatile().unwrap();
        let second = first.next_volatile().unwrap();
        let next = MessageSeq::durable(8, 0);
        assert!(started < completed && completed < first && first < second && second < next);
        assert!(completed < MessageSeq::end_of(7) && MessageSeq::end_of(7) < first);
        assert_eq!([started, first, next].map(MessageSeq::value), [7 << 20, (7 << 20) + 16, 8 << 20]);
        assert_eq!(next.before().ordinal(), 7);
    }

    #[test]
    fn numbers_never_leave_their_ordinal() {
        let last = MessageSeq((3 << 20) | MessageSeq::LAST_SUB);
        assert_eq!(last.next_volatile(), None);
        assert!(last.is_crowded() && !MessageSeq::end_of(3).is_crowded());
        assert_eq!(MessageSeq::durable(3, 400), MessageSeq::end_of(3));
    }
}
