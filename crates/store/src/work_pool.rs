//! Blocking work outside the runtime's threads. Each kind of work has its own limit, so that kinds do not delay each other.

use std::time::Duration;

use tokio::{sync::Semaphore, task, time};

use crate::error::{Result, StoreError};

/// The time after which a request fails because another process has locked a file. Writers of this program hold a lock for
/// one write.
pub const LOCK_TIME: Duration = Duration::from_secs(5);
/// The delay between two attempts to lock a file. It is doubled each time up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A kind of work. Each has its own limit of threads.
#[derive(Clone, Copy, Debug)]
pub enum WorkLane {
    /// Appends. They take microseconds, and turns wait for them.
    Append,
    /// Syncs. Several at once share one flush of the file system's journal.
    Sync,
    /// Reads of whole threads.
    Load,
    /// Queries of the index. The first ones may wait until files have been read.
    List,
}

/// The limits of one store.
pub struct WorkPool {
    append: Semaphore,
    sync: Semaphore,
    load: Semaphore,
    list: Semaphore,
}

impl WorkPool {
    pub const fn new() -> Self {
        Self {
            append: Semaphore::const_new(8),
            sync: Semaphore::const_new(16),
            load: Semaphore::const_new(4),
            list: Semaphore::const_new(4),
        }
    }

    /// Runs work on a blocking thread. Once started, it runs to its end even if the caller stops waiting.
    pub async fn run<T, F>(&self, lane: WorkLane, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T> + Send + 'static,
    {
        let lane = match lane {
            WorkLane::Append => &self.append,
            WorkLane::Sync => &self.sync,
            WorkLane::Load => &self.load,
            WorkLane::List => &self.list,
        };
        let _permit = lane.acquire().await.map_err(|_| StoreError::Closed)?;
        match task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// Runs work that locks a file, and repeats it while another process holds the lock. The attempts do not block: the
    /// system has no lock with a deadline, and a blocked thread would delay work on other files.
    pub async fn run_locking<T, F>(&self, lane: WorkLane, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn() -> Result<T> + Send + 'static,
    {
        let mut work = work;
        let deadline = time::Instant::now() + LOCK_TIME;
        let mut pause = FIRST_PAUSE;
        loop {
            // The work comes back with its result, so that it can be run again without being shared.
            let attempt = move || Ok((work(), work));
            let (result, again) = self.run(lane, attempt).await?;
            match result {
                Err(StoreError::Locked { .. }) if time::Instant::now() < deadline => {
                    time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    work = again;
                }
                result => return result,
            }
        }
    }
}
