//! What a client remembers to continue after its connection was opened again.
//!
//! The messages of a thread have positions. The connection remembers the newest position of each thread and subscribes
//! there again. Each reader has positions of its own, so that what is replayed for one reader reaches no other reader
//! twice. A reader that is too slow stops taking messages of a thread, and the thread is subscribed again at its position
//! once it has caught up.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::{connection_state::ConnectionState, nodes::ThreadNodes, subagents::SubagentTable};

/// How a connection is opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReconnectOptions {
    /// Delay before the first attempt: 100 ms. Each delay doubles.
    pub first_delay: Duration,
    /// Longest delay: 5 s.
    pub max_delay: Duration,
    /// Time after which the client gives up and every call fails: 5 min. `None` sets no limit.
    pub give_up_after: Option<Duration>,
    /// Attempts in a row after which the client gives up; `None`, the default, sets no limit.
    pub max_attempts: Option<u32>,
    /// Duration after which a connection counts as stable: 10 s. Attempts and time are counted from the end of the last
    /// stable connection, so that a server that crashes at once is not started again and again.
    pub stable_after: Duration,
}

impl Default for ReconnectOptions {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(5),
            give_up_after: Some(Duration::from_secs(300)),
            max_attempts: None,
            stable_after: Duration::from_secs(10),
        }
    }
}

impl ReconnectOptions {
    /// Returns whether another attempt is made, after this many since this time.
    pub(crate) fn allows(&self, attempts: u32, since: Instant) -> bool {
        self.max_attempts.is_none_or(|limit| attempts < limit)
            && self.give_up_after.is_none_or(|limit| since.elapsed() < limit)
    }
}

/// The place of a message in the messages of its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadPlace<'a> {
    pub thread: &'a str,
    pub seq: u64,
}

impl<'a> ThreadPlace<'a> {
    /// Returns the place of a message that names a thread and has a position.
    pub fn of(thread: Option<&'a str>, seq: Option<u64>) -> Option<Self> {
        Some(Self { thread: thread?, seq: seq? })
    }
}

/// Positions of threads.
pub(crate) type ThreadPositions = HashMap<Arc<str>, u64>;

/// The state of a client that reconnects.
#[derive(Debug)]
pub(crate) struct Resilience {
    positions: Mutex<ThreadPositions>,
    /// Threads that are to be subscribed again, and from where.
    wanted: Mutex<ThreadPositions>,
    /// Which connections the threads are followed over.
    pub nodes: ThreadNodes,
    pub subagents: SubagentTable,
    /// The number of connections to the first server so far.
    pub connections: watch::Sender<u64>,
    /// The number of connections that were lost, to any server.
    pub losses: AtomicU64,
}

impl Resilience {
    pub fn new(nodes: ThreadNodes) -> Self {
        Self {
            positions: Mutex::default(),
            wanted: Mutex::default(),
            nodes,
            subagents: SubagentTable::default(),
            connections: watch::Sender::new(1),
            losses: AtomicU64::new(0),
        }
    }

    /// Returns the state of a client without a server.
    #[cfg(test)]
    pub fn alone() -> Self {
        let (outgoing, _) = tokio::sync::mpsc::channel(1);
        let first = Arc::new(ConnectionState::first(outgoing, Default::default()));
        Self::new(ThreadNodes::new(first, Default::default(), None))
    }

    /// Notes a message. Its thread is followed from now on. Returns whether it was not before.
    pub fn advance(&self, place: ThreadPlace<'_>) -> bool {
        advance(&mut self.positions.lock(), place)
    }

    pub fn forget(&self, thread: &str) {
        self.positions.lock().remove(thread);
        self.wanted.lock().remove(thread);
        self.subagents.forget(thread);
    }

    pub fn positions(&self) -> ThreadPositions {
        self.positions.lock().clone()
    }

    /// Returns the position of a thread, if it is followed.
    pub fn position(&self, thread: &str) -> Option<u64> {
        self.positions.lock().get(thread).copied()
    }

    /// Returns the threads that are followed over a connection, and where they are to be subscribed again.
    pub fn positions_at(&self, connection: &ConnectionState) -> ThreadPositions {
        let wanted = self.take_wanted(connection);
        let mut positions = self.positions();
        positions.retain(|thread, _| self.nodes.connection_of(thread).number == connection.number);
        for (thread, after) in &mut positions {
            let earlier = wanted.get(thread).copied().unwrap_or(*after);
            *after = earlier.min(*after);
        }
        positions
    }

    /// Has a thread subscribed again after this position.
    pub fn subscribe_again(&self, place: ThreadPlace<'_>) {
        let mut wanted = self.wanted.lock();
        let after = wanted.entry(Arc::from(place.thread)).or_insert(place.seq);
        *after = place.seq.min(*after);
        drop(wanted);
        self.nodes.connection_of(place.thread).wanted_changed.notify_one();
    }

    /// Takes the threads of a connection that are to be subscribed again.
    pub fn take_wanted(&self, connection: &ConnectionState) -> ThreadPositions {
        let is_own =
            |thread: &Arc<str>, _: &mut u64| self.nodes.connection_of(thread).number == connection.number;
        self.wanted.lock().extract_if(is_own).collect()
    }
}

/// Raises the position of a thread. Returns whether it had none.
pub(crate) fn advance(positions: &mut ThreadPositions, place: ThreadPlace<'_>) -> bool {
    match positions.get_mut(place.thread) {
        Some(position) => {
            *position = place.seq.max(*position);
            false
        }
        None => positions.insert(Arc::from(place.thread), place.seq).is_none(),
    }
}

/// Returns the position of a message. It is the last member, followed at most by `replay`.
pub(crate) fn seq_of(message: &str) -> Option<u64> {
    let rest = message.trim_end().strip_suffix('}')?;
    let rest = rest.strip_suffix(r#","replay":true"#).unwrap_or(rest);
    let digits = rest.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (rest, digits) = rest.split_at_checked(rest.len() - digits)?;
    if rest.ends_with(r#","seq":"#) { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_the_last_member() {
        let check = |message: &str, expected: Option<u64>| assert_eq!(seq_of(message), expected, "{message}");
        check(r#"{"method":"turn/started","params":{},"seq":1048576}"#, Some(1_048_576));
        check(r#"{"method":"turn/started","params":{},"seq":7,"replay":true}"#, Some(7));
        check(r#"{"method":"turn/started","params":{"a":1,"seq":7}}"#, None);
        check(r#"{"method":"turn/started","params":"x,\"seq\":7}"}"#, None);
        check(r#"{"method":"turn/started","params":{},"seq":-7}"#, None);
        check("", None);
    }

    #[test]
    fn a_thread_is_subscribed_again_at_the_earliest_position() {
        let resilience = Resilience::alone();
        let first = resilience.nodes.first.clone();
        for seq in [5, 3, 9] {
            resilience.subscribe_again(ThreadPlace { thread: "t", seq });
        }
        assert_eq!(resilience.take_wanted(&first), HashMap::from([(Arc::from("t"), 3)]));
        assert!(resilience.take_wanted(&first).is_empty());
    }
}
