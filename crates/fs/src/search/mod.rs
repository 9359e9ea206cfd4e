//! Finding files by a few letters of their path.
//!
//! A [search](Searches::find) walks the directories and matches what it found. A [`SearchSession`] walks once, keeps
//! the paths, and matches them against every query of its life; it tells what it has found while it still
//! walks. Directories are walked as git sees them: ignored files are left out, hidden ones are not, links are
//! followed within the root. A walk is remembered for the searches that follow, and used as long as nothing
//! has changed.

mod index;
mod matching;
mod memory;
mod once;
mod pass;
mod roots;
mod session;
mod walk;

use std::{
    num::NonZero,
    sync::{Arc, atomic::AtomicUsize},
    thread,
    time::{Duration, Instant, SystemTime},
};

use codicil_protocol::FuzzyFileSearchResult;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::{
    index::{IndexWriter, PathIndex},
    memory::WalkMemory,
    once::search,
    walk::{WalkLimits, walk},
};
pub use self::{
    matching::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, QueryTooLong, check_query},
    roots::SearchRoots,
    session::{SearchSession, SessionNews},
};

/// The most files an answer or a notification names.
pub const MAX_RESULTS: usize = 50;

/// Directory trees that are walked at the same time, for all clients. More wait for their turn.
const MAX_WALKS: usize = 4;

/// Threads of one walk or of one pass over a session's paths. Disks gain little from more.
const MAX_THREADS: usize = 8;

/// What all searches together may hold in memory. One that finds no room stops looking for more.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// Paths that one walk collects. It stops looking for more then.
const MAX_PATHS: usize = 2_000_000;

/// How long one walk takes at most. What it has found by then is searched.
const MAX_WALK_TIME: Duration = Duration::from_secs(60);

/// How long the paths are matched against one query. The best matches found by then are the answer.
const MAX_MATCH_TIME: Duration = Duration::from_secs(10);

/// Searches of all clients, and what they share.
#[derive(Debug, Default)]
pub struct FileSearches {
    walks: Arc<SharedWalks>,
    forgetting: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// What walks share.
#[derive(Debug)]
struct SharedWalks {
    permits: Arc<Semaphore>,
    /// Bytes that indexes hold.
    held: Arc<AtomicUsize>,
    memory: WalkMemory,
}

impl Default for SharedWalks {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_WALKS)),
            held: Arc::default(),
            memory: WalkMemory::default(),
        }
    }
}

impl FileSearches {
    /// The best matches below the roots, best first. Nothing once it is cancelled, or for an empty query.
    ///
    /// Whoever drops the future cancels the search too.
    pub async fn find(
        &self,
        roots: SearchRoots,
        query: String,
        cancelled: CancellationToken,
    ) -> Vec<FuzzyFileSearchResult> {
        let _cancel_with_us = cancelled.clone().drop_guard();
        let permit = tokio::select! {
            permit = self.walks.permits.clone().acquire_owned() => permit,
            () = cancelled.cancelled() => return Vec::new(),
        };
        let (answer, found) = oneshot::channel();
        let walks = self.walks.clone();
        // Ends by itself: soon when it is cancelled, else once it has answered and taken a note of the walk.
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            search(&walks, &roots, query, &cancelled, |files| drop(answer.send(files)));
        });
        let found = found.await.unwrap_or_default();
        self.forget_in_time();
        found
    }

    /// Opens a session. It begins to walk at once, with an empty query; `tell` must not wait.
    pub fn open(&self, roots: SearchRoots, tell: impl Fn(SessionNews) + Send + 'static) -> SearchSession {
        self.forget_in_time();
        SearchSession::start(self.walks.clone(), roots, Box::new(tell))
    }

    /// Sees to it that a walk is not remembered for ever.
    fn forget_in_time(&self) {
        let mut forgetting = self.forgetting.lock();
        if forgetting.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let walks = self.walks.clone();
        let task = tokio::spawn(async move {
            // A walk may still be going on.
            let mut wait = memory::TIME;
            loop {
                tokio::time::sleep(wait).await;
                match walks.memory.forget_unused() {
                    Some(left) => wait = left,
                    None => return,
                }
            }
        });
        *forgetting = Some(AbortOnDropHandle::new(task));
    }
}

impl SharedWalks {
    fn new_index(&self) -> PathIndex {
        PathIndex::new(self.held.clone())
    }

    /// Walks the roots, and tells when it began.
    fn fill(
        &self,
        index: &PathIndex,
        roots: &SearchRoots,
        threads: usize,
        cancelled: &CancellationToken,
    ) -> SystemTime {
        let began = SystemTime::now();
        let deadline = Instant::now() + MAX_WALK_TIME;
        walk(roots, threads, WalkLimits { cancelled, deadline }, || IndexWriter::new(index));
        if Instant::now() >= deadline {
            tracing::warn!("a search has no time for more files and looks no further");
        }
        index.finish();
        began
    }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}
