//! Limits for connections that have not completed their handshake.
//!
//! A peer can open connections and stay silent. Such connections must not use up the file descriptors that clients,
//! the store and commands need. So their number and their time are limited: beyond the limit, the oldest unfinished
//! handshake is closed in favour of the new connection.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::limits::{ACCEPT_PAUSE, DESCRIPTOR_SHARE, HANDSHAKE_TIME, MAX_CONNECTIONS, MAX_HANDSHAKES};

/// The numbers of connections that a listener holds open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub clients: usize,
    pub handshakes: usize,
}

impl ConnectionLimits {
    /// Returns the limits that the process's limit of open files allows.
    pub fn of_process() -> Self {
        Self::of_descriptors(getrlimit(Resource::Nofile).current)
    }

    fn of_descriptors(descriptors: Option<u64>) -> Self {
        let share = descriptors.map_or(usize::MAX, |count| {
            usize::try_from(count / DESCRIPTOR_SHARE).unwrap_or(usize::MAX).max(1)
        });
        Self { clients: share.min(MAX_CONNECTIONS), handshakes: share.min(MAX_HANDSHAKES) }
    }
}

/// The unfinished handshakes of a listener.
#[derive(Debug)]
pub struct HandshakeLimiter {
    max: usize,
    pending: Mutex<PendingHandshakes>,
    /// Whether the last accept failed. Only the first of several failures in a row is logged.
    is_failing: AtomicBool,
}

#[derive(Debug, Default)]
struct PendingHandshakes {
    next_number: u64,
    /// The oldest first.
    by_number: BTreeMap<u64, CancellationToken>,
}

impl HandshakeLimiter {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, pending: Mutex::default(), is_failing: AtomicBool::new(false) })
    }

    /// Registers an accepted connection. If there are too many, the oldest one is closed.
    pub fn begin(self: &Arc<Self>) -> OpenHandshake {
        self.is_failing.store(false, Ordering::Relaxed);
        let closing = CancellationToken::new();
        let mut pending = self.pending.lock();
        if pending.by_number.len() >= self.max {
            tracing::debug!("closed the oldest of {} unfinished handshakes", self.max);
            pending.close_oldest();
        }
        let number = pending.next_number;
        pending.next_number += 1;
        pending.by_number.insert(number, closing.clone());
        drop(pending);
        OpenHandshake { number, closing, deadline: Instant::now() + HANDSHAKE_TIME, all: self.clone() }
    }

    /// Waits before the next accept. If the process is out of descriptors, the oldest unfinished handshake is closed.
    pub async fn recover_from(&self, error: &io::Error) {
        // The peer disconnected before it was accepted, which says nothing about the next one.
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return;
        }
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!("cannot accept a connection: {error}");
        }
        if is_out_of_descriptors(error) {
            self.pending.lock().close_oldest();
        }
        sleep(ACCEPT_PAUSE).await;
    }
}

impl PendingHandshakes {
    fn close_oldest(&mut self) {
        if let Some((_, closing)) = self.by_number.pop_first() {
            closing.cancel();
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    use rustix::io::Errno;
    Errno::from_io_error(error).is_some_and(|errno| errno == Errno::MFILE || errno == Errno::NFILE)
}

/// An unfinished handshake. Dropped when it is complete or the connection is over.
#[derive(Debug)]
pub struct OpenHandshake {
    number: u64,
    closing: CancellationToken,
    deadline: Instant,
    all: Arc<HandshakeLimiter>,
}

impl OpenHandshake {
    /// Waits until the connection has to be closed, because of its deadline or in favour of a newer connection.
    pub async fn must_close(&self) {
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = sleep_until(self.deadline) => tracing::debug!("a handshake took too long"),
        }
    }
}

impl Drop for OpenHandshake {
    fn drop(&mut self) {
        self.all.pending.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_closed(handshake: &OpenHandshake) -> bool {
        handshake.must_close().now_or_never().is_some()
    }

    #[test]
    fn few_descriptors_allow_few_connections() {
        let check = |descriptors: Option<u64>, expected: usize| {
            let limits = ConnectionLimits::of_descriptors(descriptors);
            assert_eq!(
                limits,
                ConnectionLimits { clients: expected, handshakes: expected },
                "{descriptors:?}"
            );
        };
        check(None, 1024);
        check(Some(u64::MAX), 1024);
        check(Some(20_000), 1024);
        check(Some(1024), 256);
        check(Some(256), 64);
        check(Some(3), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn beyond_the_limit_the_oldest_handshake_is_closed() {
        let all = HandshakeLimiter::new(2);
        let first = all.begin();
        let second = all.begin();
        assert!(!is_closed(&first) && !is_closed(&second));
        let third = all.begin();
        assert!(is_closed(&first) && !is_closed(&second) && !is_closed(&third));
        drop(second);
        let fourth = all.begin();
        assert!(!is_closed(&third) && !is_closed(&fourth), "the second had finished");
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_has_a_deadline() {
        let all = HandshakeLimiter::new(2);
        let handshake = all.begin();
        let begun = Instant::now();
        handshake.must_close().await;
        assert_eq!(begun.elapsed().as_secs(), HANDSHAKE_TIME.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn without_descriptors_the_oldest_handshake_is_closed_and_the_listener_pauses() {
        let all = HandshakeLimiter::new(8);
        let first = all.begin();
        let second = all.begin();
        let begun = Instant::now();
        all.recover_from(&io::Error::from(rustix::io::Errno::MFILE)).await;
        assert!(is_closed(&first) && !is_closed(&second));
        assert!(begun.elapsed() >= ACCEPT_PAUSE);
        all.recover_from(&io::ErrorKind::ConnectionAborted.into()).await;
        all.recover_from(&io::ErrorKind::PermissionDenied.into()).await;
        assert!(!is_closed(&second), "other failures close no handshake");
    }
}
