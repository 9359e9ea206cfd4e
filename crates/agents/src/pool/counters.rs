//! What a pool has done so far, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Makes the counters and the snapshot of them from one list.
macro_rules! counters {
    ($($(#[$attribute:meta])* $name:ident;)*) => {
        /// Numbers for dashboards. All but the last two only grow.
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
    /// Servers started, restarts not counted.
    servers_started;
    /// Connections that were opened again after a crash, as far as somebody used them.
    restarts;
    /// Threads started, those that stand ready included.
    threads_started;
    /// Threads forked for windows.
    threads_forked;
    /// Threads loaded again, after a restart or by their id.
    threads_resumed;
    /// Threads given up because their server no longer knew them.
    threads_invalidated;
    /// Agents that got a thread that stood ready.
    warm_hits;
    /// Agents for which there was none.
    warm_misses;
    /// Turns that a server took.
    turns_started;
    /// Turns that came to their end.
    turns_completed;
    /// Turns that somebody stopped.
    turns_interrupted;
    /// Turns that ended in an error.
    turns_failed;
    /// Turns that were started once more.
    turns_retried;
    /// Questions put to the product.
    questions_asked;
    /// Questions that it answered.
    questions_answered;
    /// Notifications of the servers' own telemetry (`codex/event/*`).
    telemetry_events;
    /// Turns that wait for others at this moment.
    turns_waiting;
    /// Turns that run at this moment.
    turns_running;
}

/// One number.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn one(&self) {
        self.add(1);
    }

    /// One more, until the guard is dropped.
    pub fn during(&self) -> CountGuard<'_> {
        self.one();
        CountGuard(self)
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Takes one away at its end.
pub(super) struct CountGuard<'a>(&'a Counter);

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
