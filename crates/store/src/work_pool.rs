//! Blocking work off the runtime's threads, in lanes, so that one kind of work never waits behind another.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Semaphore, task, time};

use crate::error::{Result, StoreError};

/// How long a request waits for a file that another process has locked, before it fails. Writers of this program
/// hold such a lock for one write.
pub const LOCK_TIME: Duration = Duration::from_secs(5);
/// The pauses between two attempts at a locked file: the first one, doubled each time up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What a piece of work mostly does. Each lane has its own bound on threads.
#[derive(Clone, Copy, Debug)]
pub enum WorkLane {
    /// Appends: microseconds each, and turns wait for them.
    Append,
    /// Waiting for the disk to confirm. Many at once share one flush of the file system's journal.
    Sync,
    /// Reading whole threads.
    Load,
    /// Questions to the index; the first ones may wait until files have been read.
    List,
}

/// The lanes of one store.
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

    /// Runs a piece of work to its end, also when the caller stops waiting for it after it began.
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
        let _place = lane.acquire().await.map_err(|_| StoreError::Closed)?;
        match task::spawn_blocking(work).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(StoreError::Closed),
        }
    }

    /// Runs work that needs the lock of a file, again and again while another process holds it. Each attempt tries
    /// the lock without waiting: the system has no wait with a deadline, and a thread that waits would keep other
    /// files' work from its place in the lane.
    pub async fn run_locking<T, F>(&self, lane: WorkLane, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: Fn() -> Result<T> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let deadline = time::Instant::now() + LOCK_TIME;
        let mut pause = FIRST_PAUSE;
        loop {
            let attempt = work.clone();
            match self.run(lane, move || attempt()).await {
                Err(StoreError::Locked { .. }) if time::Instant::now() < deadline => {
                    time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                result => return result,
            }
        }
    }
}
