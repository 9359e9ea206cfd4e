//! Threads that stand ready, so that the first message of an agent need not wait for one.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use codicil_client::protocol::ThreadId;
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::sleep};

use super::{error::PoolError, handle::PoolShared, server::PoolServer};

/// The wait after a failure; it doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// What stands ready.
#[derive(Debug, Default)]
pub(super) struct WarmThreads {
    ready: Mutex<VecDeque<ReadyThread>>,
    wanted: Notify,
}

/// A thread that nobody has used yet.
#[derive(Debug)]
pub(super) struct ReadyThread {
    pub server: Arc<PoolServer>,
    pub thread: ThreadId,
    pub generation: u64,
}

impl ReadyThread {
    /// A crash takes the threads with it that have no history yet.
    fn is_fresh(&self) -> bool {
        self.server.supervisor.connected().is_some_and(|(_, generation)| generation == self.generation)
    }
}

impl WarmThreads {
    /// Takes one away, and has another made in its place.
    pub fn take(&self) -> Option<ReadyThread> {
        let mut ready = self.lock();
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
        self.lock().iter().filter(|ready| ready.is_fresh()).count()
    }

    /// Has what a crash took made again.
    pub fn refresh(&self) {
        self.wanted.notify_one();
    }

    pub fn clear(&self) {
        let ready = std::mem::take(&mut *self.lock());
        drop(ready);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<ReadyThread>> {
        self.ready.lock()
    }
}

/// Makes as many ready as there should be.
pub(super) async fn fill(shared: &PoolShared) -> Result<(), PoolError> {
    shared.warm.lock().retain(ReadyThread::is_fresh);
    while shared.warm.len() < shared.settings.warm {
        let server = match shared.a_server().await {
            Ok(server) => server,
            // Those who use the servers come first.
            Err(PoolError::TooManyServers(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (client, generation) = server.connection(shared).await?;
        let settings = &shared.settings;
        let thread = server.start_thread(&client, settings, &settings.instructions).await?;
        shared.counters.threads_started.one();
        shared.warm.lock().push_back(ReadyThread { server, thread, generation });
    }
    Ok(())
}

/// Fills up whenever one was taken, until the pool closes.
pub(super) async fn keep_filled(shared: Arc<PoolShared>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let filled = tokio::select! {
            filled = fill(&shared) => filled,
            () = shared.closing.cancelled() => return,
        };
        let next = async {
            match filled {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    shared.warm.wanted.notified().await;
                }
                Err(error) => {
                    tracing::warn!("no thread could be made ready: {error}");
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        };
        tokio::select! {
            () = next => {}
            () = shared.closing.cancelled() => return,
        }
    }
}
