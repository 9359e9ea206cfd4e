//! The queue of files that are still to be read into the index, newest first.
//!
//! A page sorted by creation can be returned before all files are read, because the names of the remaining files show that
//! they are older than the page.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    error::{Result, StoreError},
    index::directory_tree::{FoundFile, ScanId},
    list::ListCursor,
};

/// The number of files that a thread takes at a time. They are written in one transaction, and lists can run in between.
const CHUNK: usize = 64;

#[derive(Default)]
pub struct IndexBacklog {
    state: Mutex<BacklogState>,
    moved: Condvar,
}

#[derive(Default)]
struct BacklogState {
    /// Oldest first, so that the newest are taken from the end.
    waiting: Vec<FoundFile>,
    taken: Vec<Arc<[FoundFile]>>,
    /// The scans that found these files.
    scans: Vec<ScanId>,
    total: usize,
    workers: usize,
    failure: Option<String>,
    closed: bool,
}

/// The progress of reading files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacklogProgress {
    pub done: usize,
    pub total: usize,
}

impl BacklogProgress {
    pub fn is_done(&self) -> bool {
        self.done == self.total
    }
}

/// The state of the backlog after a chunk.
pub enum BacklogRest {
    Some,
    /// All files of these scans are read.
    None(Vec<ScanId>),
    /// The scans ended, but not all files are in the index.
    Failed(Vec<ScanId>),
}

impl IndexBacklog {
    /// Adds the files of a scan.
    pub fn add(&self, scan: ScanId, found: Vec<FoundFile>) {
        if found.is_empty() {
            return;
        }
        let mut state = self.lock();
        if state.waiting.is_empty() && state.taken.is_empty() {
            state.total = 0;
            state.failure = None;
        }
        state.scans.push(scan);
        state.total += found.len();
        state.waiting.extend(found);
        state.waiting.sort_unstable_by(FoundFile::by_creation);
    }

    /// Reserves up to `count` workers, such that there are at most `most` in total. Returns the number of reserved workers.
    pub fn reserve_workers(&self, most: usize, count: usize) -> usize {
        let mut state = self.lock();
        let reserved = if state.closed { 0 } else { most.saturating_sub(state.workers).min(count) };
        state.workers += reserved;
        reserved
    }

    /// Returns the next files for a worker, which ends if there are none.
    pub fn take(&self) -> Option<Arc<[FoundFile]>> {
        let mut state = self.lock();
        let remaining = state.waiting.len().saturating_sub(CHUNK);
        let chunk: Arc<[FoundFile]> = state.waiting.split_off(remaining).into();
        if chunk.is_empty() || state.closed {
            state.workers = state.workers.saturating_sub(1);
            self.moved.notify_all();
            return None;
        }
        state.taken.push(chunk.clone());
        Some(chunk)
    }

    /// Reports that a chunk is in the index, or failed.
    pub fn done(&self, chunk: &Arc<[FoundFile]>, failure: Option<String>) -> BacklogRest {
        let mut state = self.lock();
        state.taken.retain(|taken| !Arc::ptr_eq(taken, chunk));
        state.failure = failure.or(state.failure.take());
        self.moved.notify_all();
        if !state.waiting.is_empty() || !state.taken.is_empty() {
            return BacklogRest::Some;
        }
        let scans = std::mem::take(&mut state.scans);
        // Closing discards waiting files, so the scans are incomplete then too.
        if state.failure.is_none() && !state.closed {
            BacklogRest::None(scans)
        } else {
            BacklogRest::Failed(scans)
        }
    }

    /// Returns the newest file that is not yet in the index and that a list from `start` on would contain.
    pub fn newest(&self, archived: bool, start: Option<&ListCursor>) -> Result<Option<ListCursor>> {
        let state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let matches = |found: &&FoundFile| {
            found.archived == archived && start.is_none_or(|start| found.cursor() < *start)
        };
        let waiting = state.waiting.iter().rev().find(matches).map(FoundFile::cursor);
        let taken = state.taken.iter().flat_map(|chunk| chunk.iter()).filter(matches).map(FoundFile::cursor);
        Ok(taken.max().max(waiting))
    }

    pub fn progress(&self) -> BacklogProgress {
        let state = self.lock();
        let open = state.waiting.len() + state.taken.iter().map(|chunk| chunk.len()).sum::<usize>();
        BacklogProgress { done: state.total.saturating_sub(open), total: state.total }
    }

    /// Waits for progress beyond `seen`.
    pub fn wait(&self, seen: BacklogProgress) -> Result<()> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return Err(StoreError::Closed);
            }
            let open = state.waiting.len() + state.taken.iter().map(|chunk| chunk.len()).sum::<usize>();
            if open == 0 || state.total.saturating_sub(open) != seen.done || state.total != seen.total {
                return Ok(());
            }
            self.moved.wait(&mut state);
        }
    }

    /// Returns and clears the reason why files are missing from the index although all were read.
    pub fn take_failure(&self) -> Option<String> {
        self.lock().failure.take()
    }

    /// Stops reading. Workers end after their current chunk.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        self.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, BacklogState> {
        self.state.lock()
    }
}
