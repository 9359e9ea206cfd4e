//! Finds files by a few letters of their path.
//!
//! A [search](FileSearches::find) walks the directories and matches the paths. A [`SearchSession`] walks once, keeps the
//! paths, and matches them against each of its queries; it reports results while it still walks. Files that git ignores are
//! left out, hidden files are included, and links are followed within the root. A walk is cached for later searches, and
//! used as long as nothing has changed.

mod index;
mod matching;
mod once;
mod pass;
mod roots;
mod session;
mod walk;
mod walk_cache;

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
    once::search,
    walk::{WalkLimits, walk},
    walk_cache::WalkCache,
};
pub use self::{
    matching::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, QueryTooLong, check_query},
    roots::SearchRoots,
    session::{SearchEvent, SearchSession},
};

/// How many files a response or a notification has at most.
pub const MAX_RESULTS: usize = 50;

/// How many directory trees are walked at the same time for all clients. More wait.
const MAX_WALKS: usize = 4;

/// The threads of one walk or of one pass over a session's paths. Disks gain little from more.
const MAX_THREADS: usize = 8;

/// The memory of all searches together. A search without room stops collecting paths.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// How many paths one walk collects before it stops.
const MAX_PATHS: usize = 2_000_000;

/// How long one walk takes at most. The paths found by then are searched.
const MAX_WALK_TIME: Duration = Duration::from_secs(60);

/// How long the paths are matched against one query. The best matches found by then are the result.
const MAX_MATCH_TIME: Duration = Duration::from_secs(10);

/// The searches of all clients.
#[derive(Debug, Default)]
pub struct FileSearches {
    walks: Arc<SharedWalks>,
    cache_expiry: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The state that all walks share.
#[derive(Debug)]
struct SharedWalks {
    permits: Arc<Semaphore>,
    /// The size of all indexes in bytes.
    total_bytes: Arc<AtomicUsize>,
    cache: WalkCache,
}

impl Default for SharedWalks {
    fn default() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(MAX_WALKS)),
            total_bytes: Arc::default(),
            cache: WalkCache::default(),
        }
    }
}

impl FileSearches {
    /// Returns the best matches below the roots, best first. Returns none if it is cancelled or the query is empty.
    ///
    /// Dropping the future cancels the search as well.
    pub async fn find(
        &self,
        roots: SearchRoots,
        query: String,
        cancelled: CancellationToken,
    ) -> Vec<FuzzyFileSearchResult> {
        let _cancel_on_drop = cancelled.clone().drop_guard();
        let permit = tokio::select! {
            permit = self.walks.permits.clone().acquire_owned() => permit,
            () = cancelled.cancelled() => return Vec::new(),
        };
        let (answer, found) = oneshot::channel();
        let walks = self.walks.clone();
        // Ends by itself: soon after it is cancelled, else once it has answered and cached the walk.
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            search(&walks, &roots, query, &cancelled, |files| drop(answer.send(files)));
        });
        let found = found.await.unwrap_or_default();
        self.schedule_cache_expiry();
        found
    }

    /// Opens a session. It begins to walk at once, with an empty query. `on_event` must not block.
    pub fn open(&self, roots: SearchRoots, on_event: impl Fn(SearchEvent) + Send + 'static) -> SearchSession {
        self.schedule_cache_expiry();
        SearchSession::start(self.walks.clone(), roots, Box::new(on_event))
    }

    /// Starts a task that drops cached walks after some time.
    fn schedule_cache_expiry(&self) {
        let mut expiry = self.cache_expiry.lock();
        if expiry.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let walks = self.walks.clone();
        let task = tokio::spawn(async move {
            // A walk may still be running.
            let mut wait = walk_cache::CACHE_TIME;
            loop {
                tokio::time::sleep(wait).await;
                match walks.cache.remove_unused() {
                    Some(remaining) => wait = remaining,
                    None => return,
                }
            }
        });
        *expiry = Some(AbortOnDropHandle::new(task));
    }
}

impl SharedWalks {
    fn new_index(&self) -> PathIndex {
        PathIndex::new(self.total_bytes.clone())
    }

    /// Walks the roots and returns when the walk began.
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
            tracing::warn!("a file search reached its time limit and stopped walking");
        }
        index.finish();
        began
    }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}
