//! Connections that are not clients yet: how many there may be, and for how long.
//!
//! A peer that reaches a listener can open connections and stay silent. Such connections must not use up the file
//! descriptors that clients, the store and commands need. So there is a ceiling: beyond it, the oldest
//! unfinished handshake is closed, and the new connection gets its chance.

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Resource, getrlimit};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::limits::{ACCEPT_PAUSE, DESCRIPTOR_SHARE, HANDSHAKE_TIME, MAX_CONNECTIONS, MAX_HANDSHAKES};

/// How many connections a listener holds open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub clients: usize,
    pub handshakes: usize,
}

impl ConnectionLimits {
    /// Returns what the process's limit of open files allows.
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
    /// Whether the last accept failed. Of several failures in a row, the first one is logged.
    is_failing: AtomicBool,
}

#[derive(Debug, Default)]
struct PendingHandshakes {
    next_number: u64,
    /// By age, the oldest first.
    by_number: BTreeMap<u64, CancellationToken>,
}

impl HandshakeLimiter {
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, pending: Mutex::default(), is_failing: AtomicBool::new(false) })
    }

    /// Counts a connection that was accepted. If there are too many, the oldest one is closed.
    pub fn begin(self: &Arc<Self>) -> OpenHandshake {
        self.is_failing.store(false, Ordering::Relaxed);
        let closing = CancellationToken::new();
        let mut pending = self.lock();
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

    /// Waits before the next accept. If descriptors are missing, the oldest unfinished handshake gives its
    /// own up.
    pub async fn recover_from(&self, error: &io::Error) {
        // The peer went away before it was accepted; the next one may be there already.
        if error.kind() == io::ErrorKind::ConnectionAborted {
            return;
        }
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!("cannot accept a connection: {error}");
        }
        if is_out_of_descriptors(error) {
            self.lock().close_oldest();
        }
        sleep(ACCEPT_PAUSE).await;
    }

    /// The map is changed in single steps, so a panic elsewhere cannot leave it half done.
    fn lock(&self) -> MutexGuard<'_, PendingHandshakes> {
        self.pending.lock()
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

/// One unfinished handshake. Dropped when the connection is a client or is over.
#[derive(Debug)]
pub struct OpenHandshake {
    number: u64,
    closing: CancellationToken,
    deadline: Instant,
    all: Arc<HandshakeLimiter>,
}

impl OpenHandshake {
    /// Returns when the connection has to be closed: its time is over, or newer ones need its place.
    pub async fn must_close(&self) {
        tokio::select! {
            () = self.closing.cancelled() => {}
            () = sleep_until(self.deadline) => tracing::debug!("a handshake took too long"),
        }
    }
}

impl Drop for OpenHandshake {
    fn drop(&mut self) {
        self.all.lock().by_number.remove(&self.number);
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
            assert_eq!((limits.clients, limits.handshakes), (expected, expected), "{descriptors:?}");
        };
        check(None, 1024);
        check(Some(u64::MAX), 1024);
        check(Some(20_000), 1024);
        check(Some(1024), 256);
        check(Some(256), 64);
        check(Some(3), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_unfinished_handshake_gives_way_to_a_new_one() {
        let all = HandshakeLimiter::new(2);
        let (first, second) = (all.begin(), all.begin());
        assert!(!is_closed(&first) && !is_closed(&second));
        let third = all.begin();
        assert!(is_closed(&first) && !is_closed(&second) && !is_closed(&third));
        drop(second);
        let fourth = all.begin();
        assert!(!is_closed(&third) && !is_closed(&fourth), "one had finished");
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
        let (first, second) = (all.begin(), all.begin());
        let begun = Instant::now();
        all.recover_from(&io::Error::from(rustix::io::Errno::MFILE)).await;
        assert!(is_closed(&first) && !is_closed(&second));
        assert!(begun.elapsed() >= ACCEPT_PAUSE);
        all.recover_from(&io::ErrorKind::ConnectionAborted.into()).await;
        all.recover_from(&io::ErrorKind::PermissionDenied.into()).await;
        assert!(!is_closed(&second), "other failures have nothing to do with descriptors");
    }
}
