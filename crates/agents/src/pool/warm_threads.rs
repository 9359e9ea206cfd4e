//! Warm threads, started in advance so that an agent's first message does not wait for `thread/start`.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use codicil_client::protocol::ThreadId;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep};

use super::{error::PoolError, handle::PoolShared, server::PoolServer};

/// Delay after a failure; it doubles up to [`MAX_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(60);

/// The warm threads of a pool.
#[derive(Debug, Default)]
pub(super) struct WarmThreads {
    ready: Mutex<VecDeque<ReadyThread>>,
    wanted: Notify,
}

/// A started thread that no agent uses yet.
#[derive(Debug)]
pub(super) struct ReadyThread {
    pub server: Arc<PoolServer>,
    pub thread: ThreadId,
    pub generation: u64,
}

impl ReadyThread {
    /// Returns whether the thread still exists: a crash loses threads without history.
    fn is_fresh(&self) -> bool {
        self.server.supervisor.connected().is_some_and(|(_, generation)| generation == self.generation)
    }
}

impl WarmThreads {
    /// Takes a thread, and requests a replacement.
    pub fn take(&self) -> Option<ReadyThread> {
        let mut ready = self.ready.lock();
        while let Some(first) = ready.pop_front() {
            if first.is_fresh() {
                self.wanted.notify_one();
                return Some(first);
            }
        }
        self.wanted.notify_one();
        None
    }

    pub fn len(&self) -> usize {
        self.ready.lock().iter().filter(|ready| ready.is_fresh()).count()
    }

    /// Requests replacements for threads that a crash lost.
    pub fn refresh(&self) {
        self.wanted.notify_one();
    }

    pub fn clear(&self) {
        let ready = std::mem::take(&mut *self.ready.lock());
        drop(ready);
    }
}

/// Starts threads until there are enough.
pub(super) async fn fill(shared: &PoolShared) -> Result<(), PoolError> {
    shared.warm.ready.lock().retain(ReadyThread::is_fresh);
    while shared.warm.len() < shared.settings.warm_threads {
        let server = match shared.assign_server().await {
            Ok(server) => server,
            // Agents have priority over warm threads.
            Err(PoolError::TooManyServers(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let connection = server.connection(shared).await?;
        let generation = connection.generation;
        let settings = &shared.settings;
        let thread = server.start_thread(&connection.client, settings, &settings.instructions).await?;
        drop(connection);
        shared.counters.threads_started.increment();
        shared.warm.ready.lock().push_back(ReadyThread { server, thread, generation });
    }
    Ok(())
}

/// Replaces threads that were taken, until the pool closes.
pub(super) async fn keep_filled(shared: Arc<PoolShared>) {
    let mut delay = FIRST_DELAY;
    loop {
        let filled = tokio::select! {
            filled = fill(&shared) => filled,
            () = shared.closing.cancelled() => return,
        };
        let next = async {
            match filled {
                Ok(()) => {
                    delay = FIRST_DELAY;
                    shared.warm.wanted.notified().await;
                }
                Err(error) => {
                    tracing::warn!("failed to start a warm thread: {error}");
                    sleep(delay).await;
                    delay = (delay * 2).min(MAX_DELAY);
                }
            }
        };
        tokio::select! {
            () = next => {}
            () = shared.closing.cancelled() => return,
        }
    }
}
