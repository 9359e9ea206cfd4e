//! Finding files by a few letters of their path.
//!
//! A [search](Searches::find) walks the directories once and matches on the way. A [`Session`] walks once,
//! keeps the paths, and matches them against every query of its life; it tells what it has found while it
//! still walks. Directories are walked as git sees them: ignored files are left out, hidden ones are not,
//! links are followed.

mod index;
mod matching;
mod once;
mod pass;
mod roots;
mod session;
mod walk;

use std::{
    num::NonZero,
    sync::{Arc, atomic::AtomicUsize},
    thread,
};

use codicil_protocol::FuzzyFileSearchResult;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::once::search;
pub use self::{
    roots::Roots,
    session::{Session, SessionNews},
};

/// The most files an answer or a notification names.
pub const MAX_RESULTS: usize = 50;

/// Directory trees that are walked at the same time, for all clients. More wait for their turn.
const MAX_WALKS: usize = 4;

/// Threads of one walk or of one pass over a session's paths. Disks gain little from more.
const MAX_THREADS: usize = 8;

/// What all sessions together may hold in memory. A session that finds no room stops looking for more.
const MAX_INDEX_BYTES: usize = 256 << 20;

/// Searches of all clients, and what they share.
#[derive(Debug)]
pub struct Searches {
    walks: Arc<Semaphore>,
    /// Bytes that sessions hold.
    held: Arc<AtomicUsize>,
}

impl Default for Searches {
    fn default() -> Self {
        Self { walks: Arc::new(Semaphore::new(MAX_WALKS)), held: Arc::default() }
    }
}

impl Searches {
    /// The best matches below the roots, best first. Nothing once it is cancelled, or for an empty query.
    ///
    /// Whoever drops the future cancels the search too.
    pub async fn find(
        &self,
        roots: Roots,
        query: String,
        cancelled: CancellationToken,
    ) -> Vec<FuzzyFileSearchResult> {
        let cancel_with_us = cancelled.clone().drop_guard();
        let (walks, threads) = (self.walks.clone(), threads());
        let permit = tokio::select! {
            permit = walks.acquire_owned() => permit,
            () = cancelled.cancelled() => return Vec::new(),
        };
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            search(&roots, &query, threads, &cancelled)
        });
        let found = work.await.unwrap_or_default();
        drop(cancel_with_us);
        found
    }

    /// Opens a session. It begins to walk at once, with an empty query; `tell` must not wait.
    pub fn open(&self, roots: Roots, tell: impl Fn(SessionNews) + Send + 'static) -> Session {
        Session::start(self, roots, Box::new(tell))
    }
}

fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS)
}
