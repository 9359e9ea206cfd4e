//! A search whose query changes while the user types.

use std::{fmt, sync::Arc, time::Duration};

use codicil_protocol::FuzzyFileSearchResult;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{Instant, sleep_until},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::AbortOnDropHandle,
};

use super::{
    SharedWalks,
    index::PathIndex,
    matching::{MatchScorer, SearchQuery},
    pass::QueryPass,
    roots::SearchRoots,
    threads,
};

/// The minimum time between two passes over the paths that the walk has found.
const PASS_INTERVAL: Duration = Duration::from_millis(30);

/// An event of a session.
#[derive(Clone, Debug, PartialEq)]
pub enum SearchEvent {
    /// The results for a query, which replace earlier ones.
    Updated { query: String, files: Vec<FuzzyFileSearchResult> },
    /// The results for a query are complete.
    Completed { query: String },
}

/// An open session. Dropping it ends the session, after which there are no more events.
pub struct SearchSession {
    /// The latest query, with a count of updates, so that repeating a query is an update as well.
    queries: watch::Sender<(u64, String)>,
    /// Empty once the session has ended.
    on_event: Arc<Mutex<Option<EventFn>>>,
    /// Stops the walk on drop.
    _stop: DropGuard,
    _actor: AbortOnDropHandle<()>,
}

type EventFn = Box<dyn Fn(SearchEvent) + Send>;

impl SearchSession {
    pub(super) fn start(walks: Arc<SharedWalks>, roots: SearchRoots, on_event: EventFn) -> Self {
        let (queries, latest) = watch::channel((0, String::new()));
        let stop = CancellationToken::new();
        let on_event = Arc::new(Mutex::new(Some(on_event)));
        let scorers = Vec::from_iter((0..threads()).map(|_| MatchScorer::default()));
        let scratch = PassScratch { pass: QueryPass::new(SearchQuery::new(String::new()), None), scorers };
        let stopped = stop.clone();
        let actor_on_event = on_event.clone();
        let actor = tokio::spawn(async move {
            let mut tasks = JoinSet::new();
            let index = index(walks, &roots, stopped, &mut tasks).await;
            SearchActor {
                latest,
                index,
                roots,
                on_event: actor_on_event,
                scratch: Some(scratch),
                sent: None,
            }
            .run()
            .await;
        });
        Self { queries, on_event, _stop: stop.drop_guard(), _actor: AbortOnDropHandle::new(actor) }
    }

    /// Changes the query. A search for the previous one is abandoned.
    pub fn update(&self, query: String) {
        self.queries.send_modify(|(number, latest)| {
            *number += 1;
            *latest = query;
        });
    }
}

impl Drop for SearchSession {
    fn drop(&mut self) {
        // Waits for a callback that is running.
        self.on_event.lock().take();
    }
}

impl fmt::Debug for SearchSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchSession").finish_non_exhaustive()
    }
}

/// Returns the paths below the roots: a cached walk, or an index that a new walk fills.
async fn index(
    walks: Arc<SharedWalks>,
    roots: &SearchRoots,
    stop: CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Arc<PathIndex> {
    let cached = spawn_blocking({
        let walks = walks.clone();
        let roots = roots.clone();
        move || walks.cache.get(&roots, threads())
    });
    if let Ok(Some(index)) = cached.await {
        return index;
    }
    let index = Arc::new(walks.new_index());
    tasks.spawn(fill(walks, index.clone(), roots.clone(), stop));
    index
}

/// Walks the roots once there is a permit.
async fn fill(walks: Arc<SharedWalks>, index: Arc<PathIndex>, roots: SearchRoots, stop: CancellationToken) {
    let permit = walks.permits.clone().acquire_owned().await;
    let filled = index.clone();
    let walking = spawn_blocking(move || {
        let _permit = permit;
        let began = walks.fill(&filled, &roots, threads(), &stop);
        if !stop.is_cancelled() {
            walks.cache.expect(&roots).keep(&filled, began, threads());
        }
    });
    // A walk that panicked is finished as well.
    if walking.await.is_err() {
        index.finish();
    }
}

/// The task that answers the latest query, repeatedly while the walk continues.
struct SearchActor {
    latest: watch::Receiver<(u64, String)>,
    index: Arc<PathIndex>,
    roots: SearchRoots,
    on_event: Arc<Mutex<Option<EventFn>>>,
    /// `None` while a pass runs on another thread.
    scratch: Option<PassScratch>,
    /// The last results sent, so that the same ones are not sent again.
    sent: Option<Vec<FuzzyFileSearchResult>>,
}

/// The state of a pass over the paths.
struct PassScratch {
    pass: QueryPass,
    scorers: Vec<MatchScorer>,
}

/// The outcome of a pass over the paths.
enum PassOutcome {
    /// It was abandoned because there is another query.
    Outdated,
    /// The results so far; the walk continues.
    Partial(Vec<FuzzyFileSearchResult>),
    /// The final results.
    Final(Vec<FuzzyFileSearchResult>),
}

impl SearchActor {
    /// Runs until the session is dropped.
    async fn run(mut self) {
        while self.answer().await.is_some() {}
    }

    /// Answers the latest query until its results are complete, or until there is another one.
    async fn answer(&mut self) -> Option<()> {
        let query = self.latest.borrow_and_update().1.clone();
        let mut scratch = self.scratch.take()?;
        scratch.pass = QueryPass::new(SearchQuery::new(query), Some(scratch.pass));
        self.scratch = Some(scratch);
        self.sent = None;
        loop {
            let began = Instant::now();
            match self.run_pass().await? {
                PassOutcome::Outdated => return Some(()),
                PassOutcome::Partial(files) => {
                    if !files.is_empty() {
                        self.send_if_new(files);
                    }
                }
                PassOutcome::Final(files) => {
                    self.send_if_new(files);
                    if let Some(query) = self.query() {
                        self.send_event(SearchEvent::Completed { query });
                    }
                    return self.latest.changed().await.ok();
                }
            }
            let more = async {
                sleep_until(began + PASS_INTERVAL).await;
                self.index.grown.notified().await;
            };
            tokio::select! {
                changed = self.latest.changed() => return changed.ok(),
                () = more => {}
            }
        }
    }

    /// Runs one pass over the paths known by now, on a blocking thread.
    async fn run_pass(&mut self) -> Option<PassOutcome> {
        let mut scratch = self.scratch.take()?;
        let latest = self.latest.clone();
        let index = self.index.clone();
        let roots = self.roots.clone();
        let work = spawn_blocking(move || {
            let (chunks, complete) = index.chunks();
            let outdated = || latest.has_changed().unwrap_or(true);
            let outcome = if !scratch.pass.advance(&chunks, &mut scratch.scorers, &outdated) {
                PassOutcome::Outdated
            } else {
                let files = scratch.results(&roots);
                if complete { PassOutcome::Final(files) } else { PassOutcome::Partial(files) }
            };
            (scratch, outcome)
        });
        let (scratch, outcome) = work.await.ok()?;
        self.scratch = Some(scratch);
        Some(outcome)
    }

    fn send_if_new(&mut self, files: Vec<FuzzyFileSearchResult>) {
        if self.sent.as_ref() == Some(&files) {
            return;
        }
        let Some(query) = self.query() else { return };
        self.sent = Some(files.clone());
        self.send_event(SearchEvent::Updated { query, files });
    }

    /// Returns the query of this pass. There may be a newer one by now.
    fn query(&self) -> Option<String> {
        self.scratch.as_ref().map(|scratch| scratch.pass.query.text().to_owned())
    }

    fn send_event(&self, event: SearchEvent) {
        if let Some(on_event) = &*self.on_event.lock() {
            on_event(event);
        }
    }
}

impl PassScratch {
    fn results(&mut self, roots: &SearchRoots) -> Vec<FuzzyFileSearchResult> {
        let Self { pass, scorers } = self;
        match scorers.first_mut() {
            Some(scorer) => pass.best.results(&pass.query, roots, scorer),
            None => Vec::new(),
        }
    }
}
