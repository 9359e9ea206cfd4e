//! What a client remembers to continue after its connection was opened again.
//!
//! The messages of a thread have positions. The connection remembers the newest position of each thread and subscribes
//! there again. Each reader has positions of its own, so that what is replayed for one reader reaches no other reader
//! twice. A reader that is too slow stops taking messages of a thread, and the thread is subscribed again at its position
//! once it has caught up.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

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

/// Positions of threads.
pub(crate) type ThreadPositions = HashMap<Arc<str>, u64>;

/// The state of a client that reconnects.
#[derive(Debug)]
pub(crate) struct Resilience {
    positions: Mutex<ThreadPositions>,
    /// Threads that are to be subscribed again, and from where.
    wanted: Mutex<ThreadPositions>,
    /// Notified when a thread is to be subscribed again.
    pub wanted_changed: Notify,
    /// The number of connections so far.
    pub connections: watch::Sender<u64>,
    /// Whether there is no connection at the moment. Answers to server requests are then kept: the next server may use their
    /// ids for other requests.
    pub is_recovering: RwLock<bool>,
}

impl Default for Resilience {
    fn default() -> Self {
        Self {
            positions: Mutex::default(),
            wanted: Mutex::default(),
            wanted_changed: Notify::new(),
            connections: watch::Sender::new(1),
            is_recovering: RwLock::new(false),
        }
    }
}

impl Resilience {
    /// Notes a message. Its thread is followed from now on.
    pub fn advance(&self, place: ThreadPlace<'_>) {
        advance(&mut self.positions.lock(), place);
    }

    pub fn forget(&self, thread: &str) {
        self.positions.lock().remove(thread);
        self.wanted.lock().remove(thread);
    }

    pub fn positions(&self) -> ThreadPositions {
        self.positions.lock().clone()
    }

    /// Has a thread subscribed again after this position.
    pub fn subscribe_again(&self, place: ThreadPlace<'_>) {
        let mut wanted = self.wanted.lock();
        let after = wanted.entry(Arc::from(place.thread)).or_insert(place.seq);
        *after = place.seq.min(*after);
        drop(wanted);
        self.wanted_changed.notify_one();
    }

    pub fn take_wanted(&self) -> ThreadPositions {
        std::mem::take(&mut self.wanted.lock())
    }
}

/// Raises the position of a thread.
pub(crate) fn advance(positions: &mut ThreadPositions, place: ThreadPlace<'_>) {
    match positions.get_mut(place.thread) {
        Some(position) => *position = place.seq.max(*position),
        None => drop(positions.insert(Arc::from(place.thread), place.seq)),
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
        let resilience = Resilience::default();
        for seq in [5, 3, 9] {
            resilience.subscribe_again(ThreadPlace { thread: "t", seq });
        }
        assert_eq!(resilience.take_wanted(), HashMap::from([(Arc::from("t"), 3)]));
        assert!(resilience.take_wanted().is_empty());
    }
}
