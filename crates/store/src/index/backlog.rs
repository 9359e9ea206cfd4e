//! Files that wait to be read into the index, newest first, by a few threads.
//!
//! A page by time of creation can be answered before all are read: what is still to come is older than
//! the page, and the files' names say so.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    error::{Result, StoreError},
    index::tree::{FoundFile, ScanId},
    list::ListCursor,
};

/// Files that a thread takes at a time: one transaction, one chance for a list to come in between.
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
    /// The looks that found these files.
    looks: Vec<ScanId>,
    total: usize,
    workers: usize,
    failure: Option<String>,
    closed: bool,
}

/// How far the reading is.
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

/// What is left after a chunk.
pub enum BacklogRest {
    Some,
    /// Nothing: these looks are done.
    None(Vec<ScanId>),
    /// Nothing, but not everything got into the index.
    Failed(Vec<ScanId>),
}

impl IndexBacklog {
    /// Adds the files of a look.
    pub fn add(&self, look: ScanId, found: Vec<FoundFile>) {
        if found.is_empty() {
            return;
        }
        let mut state = self.lock();
        if state.waiting.is_empty() && state.taken.is_empty() {
            state.total = 0;
            state.failure = None;
        }
        state.looks.push(look);
        state.total += found.len();
        state.waiting.extend(found);
        state.waiting.sort_unstable_by(FoundFile::by_creation);
    }

    /// Reserves places for up to `count` threads that will take files, `most` being at work in all.
    pub fn hire(&self, most: usize, count: usize) -> usize {
        let mut state = self.lock();
        let hired = if state.closed { 0 } else { most.saturating_sub(state.workers).min(count) };
        state.workers += hired;
        hired
    }

    /// The next files for a thread; `None` tells it to end.
    pub fn take(&self) -> Option<Arc<[FoundFile]>> {
        let mut state = self.lock();
        let left = state.waiting.len().saturating_sub(CHUNK);
        let chunk: Arc<[FoundFile]> = state.waiting.split_off(left).into();
        if chunk.is_empty() || state.closed {
            state.workers = state.workers.saturating_sub(1);
            self.moved.notify_all();
            return None;
        }
        state.taken.push(chunk.clone());
        Some(chunk)
    }

    /// A chunk is in the index, or failed to get there.
    pub fn done(&self, chunk: &Arc<[FoundFile]>, failure: Option<String>) -> BacklogRest {
        let mut state = self.lock();
        state.taken.retain(|taken| !Arc::ptr_eq(taken, chunk));
        state.failure = failure.or(state.failure.take());
        self.moved.notify_all();
        if !state.waiting.is_empty() || !state.taken.is_empty() {
            return BacklogRest::Some;
        }
        let looks = std::mem::take(&mut state.looks);
        // Closing throws away what was waiting, so then it is not complete either.
        if state.failure.is_none() && !state.closed {
            BacklogRest::None(looks)
        } else {
            BacklogRest::Failed(looks)
        }
    }

    /// The newest file that is not in the index yet, among those a list from `start` on would show.
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

    /// Waits until more has been read than `seen`.
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

    /// Why files are missing from the index although all were read, told once.
    pub fn take_failure(&self) -> Option<String> {
        self.lock().failure.take()
    }

    /// Nothing more is read; threads end after what they hold.
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
