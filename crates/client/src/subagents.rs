//! Which subagents of its threads a client follows after a new subscription, and from where.
//!
//! A subscription with the scope `tree` includes the subagents of a thread. Its answer lists them, but does not send what the
//! client has missed of them: a subagent that the client does not follow yet is subscribed to by itself.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use codicil_protocol::{MessageSeq, SubagentPosition, SubscriptionScope};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::resilient::ThreadPositions;

/// The subagents that are remembered while they are not followed.
const MAX_IDLE: usize = 10_000;

/// What a client remembers of the subagents of its threads.
#[derive(Debug, Default)]
pub(crate) struct SubagentTable(Mutex<SubagentState>);

#[derive(Debug, Default)]
struct SubagentState {
    /// The threads that the program has subscribed to without their subagents.
    without_subagents: HashSet<Arc<str>>,
    /// The time at which threads had changed last when they were opened, in Unix seconds. Later subagents are new.
    opened_at: HashMap<Arc<str>, i64>,
    /// The positions of subagents that have ended, or that the client has no message of.
    idle: ThreadPositions,
}

impl SubagentTable {
    /// Notes a thread that a call has opened, which includes its subagents.
    pub fn note_opened(&self, thread: &str, updated_at: i64) {
        let mut state = self.0.lock();
        state.without_subagents.remove(thread);
        state.opened_at.insert(Arc::from(thread), updated_at);
    }

    /// Notes that the program has subscribed to a thread.
    pub fn note_subscribed(&self, thread: &str, scope: &SubscriptionScope) {
        let mut state = self.0.lock();
        if *scope == SubscriptionScope::Thread {
            state.without_subagents.insert(Arc::from(thread));
        } else {
            state.without_subagents.remove(thread);
        }
    }

    /// Returns the scope with which a thread is subscribed to again.
    pub fn scope_of(&self, thread: &str) -> SubscriptionScope {
        if self.0.lock().without_subagents.contains(thread) {
            SubscriptionScope::Thread
        } else {
            SubscriptionScope::Tree
        }
    }

    /// Notes the position of a thread that has ended and is not followed any more.
    pub fn note_ended(&self, thread: &str, last: u64) {
        let last = MessageSeq::from(last);
        self.note_idle(thread, last.max(MessageSeq::end_of(last.ordinal())));
    }

    /// Notes the position of a subagent that is not followed.
    pub fn note_idle(&self, thread: &str, last: MessageSeq) {
        let mut state = self.0.lock();
        if state.idle.len() >= MAX_IDLE {
            // A subagent that is listed again is replayed from its beginning.
            state.idle.clear();
        }
        let last = last.value();
        let position = state.idle.entry(Arc::from(thread)).or_insert(last);
        *position = last.max(*position);
    }

    /// Returns the position after which the client has missed messages of a subagent that it does not follow; `None` if it has
    /// missed none.
    pub fn missed_after(&self, thread: &str, subagent: &SubagentPosition) -> Option<u64> {
        let known = {
            let state = self.0.lock();
            let is_new = || state.is_new(thread, &subagent.thread_id);
            state.idle.get(&*subagent.thread_id).copied().or_else(|| is_new().then_some(0))
        };
        let missed = known.filter(|known| *known < subagent.at.value());
        if missed.is_none() {
            self.note_idle(&subagent.thread_id, subagent.at);
        }
        missed
    }

    /// Takes the position up to which the client has the messages of a thread that it follows from now on.
    pub fn take_idle(&self, thread: &str) -> u64 {
        self.0.lock().idle.remove(thread).unwrap_or(0)
    }

    pub fn forget(&self, thread: &str) {
        let mut state = self.0.lock();
        state.without_subagents.remove(thread);
        state.opened_at.remove(thread);
    }
}

impl SubagentState {
    /// Returns whether a subagent started after its thread was opened, by the times in the ids of threads. If in doubt it did:
    /// to send old messages is better than to leave new ones out.
    fn is_new(&self, thread: &str, subagent: &str) -> bool {
        let opened_at = self.opened_at.get(thread).copied().unwrap_or(0);
        let started = Uuid::parse_str(subagent).ok().and_then(|id| id.get_timestamp());
        started.and_then(|started| i64::try_from(started.to_unix().0).ok()).is_none_or(|at| at >= opened_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An id of the second 1_700_000_000.
    const AGENT: &str = "018bcfe5-6800-7000-8000-000000000000";

    fn listed(at: u64) -> SubagentPosition {
        SubagentPosition { thread_id: AGENT.into(), at: MessageSeq::from(at) }
    }

    #[test]
    fn a_subagent_that_started_meanwhile_is_followed_from_its_beginning() {
        let check = |opened_at: i64, expected: Option<u64>| {
            let table = SubagentTable::default();
            table.note_opened("t", opened_at);
            assert_eq!(table.missed_after("t", &listed(40)), expected, "{opened_at}");
        };
        check(1_699_999_999, Some(0));
        check(1_700_000_000, Some(0));
        check(1_700_000_001, None);
    }

    #[test]
    fn a_subagent_that_was_idle_is_followed_from_where_it_was() {
        let table = SubagentTable::default();
        let last = MessageSeq::durable(3, 0);
        table.note_ended(AGENT, last.value());
        let end = MessageSeq::end_of(3);
        assert_eq!(table.missed_after("t", &listed(end.value())), None);
        let later = MessageSeq::durable(4, 0).value();
        assert_eq!(table.missed_after("t", &listed(later)), Some(end.value()));
        assert_eq!((table.take_idle(AGENT), table.take_idle(AGENT)), (end.value(), 0));
    }

    #[test]
    fn a_thread_is_subscribed_to_again_with_the_scope_of_before() {
        let table = SubagentTable::default();
        assert_eq!(table.scope_of("t"), SubscriptionScope::Tree);
        table.note_subscribed("t", &SubscriptionScope::Thread);
        assert_eq!(table.scope_of("t"), SubscriptionScope::Thread);
        table.note_opened("t", 0);
        assert_eq!(table.scope_of("t"), SubscriptionScope::Tree);
    }
}
