//! Counters of a pool.

use std::sync::atomic::{AtomicU64, Ordering};

/// Defines the counters and their snapshot from one list.
macro_rules! counters {
    ($($(#[$attribute:meta])* $name:ident;)*) => {
        /// The counters of a pool. All but the last two only grow.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
        pub struct PoolCounts {
            $($(#[$attribute])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct PoolCounters {
            $(pub $name: Counter,)*
        }

        impl PoolCounters {
            pub fn snapshot(&self) -> PoolCounts {
                PoolCounts { $($name: self.$name.get(),)* }
            }
        }
    };
}

counters! {
    /// Servers started, without restarts.
    servers_started;
    /// Connections after the first one of each server.
    restarts;
    /// Servers ended because they were idle.
    idle_stops;
    /// Threads started, including warm ones.
    threads_started;
    /// Threads forked for windows.
    threads_forked;
    /// Threads resumed by the pool, after a restart or by their id. A server with the extension `codicil` is not among them:
    /// its client continues the threads itself.
    threads_resumed;
    /// Threads discarded because the server no longer knew them.
    threads_invalidated;
    /// Agents that got a warm thread.
    warm_hits;
    /// Agents for which there was no warm thread.
    warm_misses;
    /// Turns accepted by a server.
    turns_started;
    /// Turns completed.
    turns_completed;
    /// Turns interrupted.
    turns_interrupted;
    /// Turns failed.
    turns_failed;
    /// Turns repeated.
    turns_retried;
    /// Questions passed to the product.
    questions_asked;
    /// Questions answered by the product.
    questions_answered;
    /// Telemetry notifications of the servers (`codex/event/*`).
    telemetry_events;
    /// Turns that are waiting now.
    turns_waiting;
    /// Turns that are running now.
    turns_running;
}

#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds one until the guard is dropped.
    pub fn count_while_held(&self) -> CountGuard<'_> {
        self.increment();
        CountGuard(self)
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Subtracts one when dropped.
pub(super) struct CountGuard<'a>(&'a Counter);

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
