//! A search that follows what a person types.

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

/// The least time between two looks at what the walk has found.
const PACE: Duration = Duration::from_millis(30);

/// What a session has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionNews {
    /// What has been found for a query; replaces what was found before.
    Updated { query: String, files: Vec<FuzzyFileSearchResult> },
    /// Everything has been looked at for the latest query.
    Completed,
}

/// An open session. It ends, and says nothing more, when this is dropped.
pub struct SearchSession {
    /// Counts updates, so that asking the same thing again is one too.
    queries: watch::Sender<(u64, String)>,
    /// Empty once the session has ended.
    tell: Arc<Mutex<Option<NewsFn>>>,
    /// Ends the walk.
    _stop: DropGuard,
    _actor: AbortOnDropHandle<()>,
}

type NewsFn = Box<dyn Fn(SessionNews) + Send>;

impl SearchSession {
    pub(super) fn start(walks: Arc<SharedWalks>, roots: SearchRoots, tell: NewsFn) -> Self {
        let (queries, latest) = watch::channel((0, String::new()));
        let (stop, tell) = (CancellationToken::new(), Arc::new(Mutex::new(Some(tell))));
        let scorers = Vec::from_iter((0..threads()).map(|_| MatchScorer::default()));
        let desk = PassScratch { pass: QueryPass::new(SearchQuery::new(String::new()), None), scorers };
        let (stopped, told) = (stop.clone(), tell.clone());
        let actor = tokio::spawn(async move {
            let mut tasks = JoinSet::new();
            let index = index(walks, &roots, stopped, &mut tasks).await;
            SearchActor { latest, index, roots, tell: told, desk: Some(desk), sent: None }.run().await;
        });
        Self { queries, tell, _stop: stop.drop_guard(), _actor: AbortOnDropHandle::new(actor) }
    }

    /// Looks for something else. A query that is still being looked for is given up.
    pub fn update(&self, query: String) {
        self.queries.send_modify(|(number, latest)| {
            *number += 1;
            *latest = query;
        });
    }
}

impl Drop for SearchSession {
    fn drop(&mut self) {
        // Whoever is telling something at this moment finishes first.
        self.tell.lock().take();
    }
}

impl fmt::Debug for SearchSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// What is below the roots: known already, or being found out from now on.
async fn index(
    walks: Arc<SharedWalks>,
    roots: &SearchRoots,
    stop: CancellationToken,
    tasks: &mut JoinSet<()>,
) -> Arc<PathIndex> {
    let (recalling, wanted) = (walks.clone(), roots.clone());
    let known = spawn_blocking(move || recalling.memory.recall(&wanted, threads())).await;
    if let Ok(Some(known)) = known {
        return known;
    }
    let index = Arc::new(walks.new_index());
    tasks.spawn(fill(walks, index.clone(), roots.clone(), stop));
    index
}

/// Walks the roots when it is this session's turn.
async fn fill(walks: Arc<SharedWalks>, index: Arc<PathIndex>, roots: SearchRoots, stop: CancellationToken) {
    let permit = walks.permits.clone().acquire_owned().await;
    let filled = index.clone();
    let walking = spawn_blocking(move || {
        let _permit = permit;
        let began = walks.fill(&filled, &roots, threads(), &stop);
        if !stop.is_cancelled() {
            walks.memory.expect(&roots).keep(&filled, began, threads());
        }
    });
    // Even a walk that panicked is over.
    if walking.await.is_err() {
        index.finish();
    }
}

/// Answers the latest query, again and again while the walk goes on.
struct SearchActor {
    latest: watch::Receiver<(u64, String)>,
    index: Arc<PathIndex>,
    roots: SearchRoots,
    tell: Arc<Mutex<Option<NewsFn>>>,
    /// With the thread that works, while it does.
    desk: Option<PassScratch>,
    /// What was last told, to tell it only once.
    sent: Option<Vec<FuzzyFileSearchResult>>,
}

/// What one pass over the paths needs.
struct PassScratch {
    pass: QueryPass,
    scorers: Vec<MatchScorer>,
}

/// How a look at the paths ended.
enum PassOutcome {
    /// There is another query.
    Outdated,
    /// The walk goes on.
    SoFar(Vec<FuzzyFileSearchResult>),
    /// That was all.
    Finally(Vec<FuzzyFileSearchResult>),
}

impl SearchActor {
    /// Ends when the session is dropped.
    async fn run(mut self) {
        while self.answer().await.is_some() {}
    }

    /// Works on the latest query until all is told, or until there is another one.
    async fn answer(&mut self) -> Option<()> {
        let query = self.latest.borrow_and_update().1.clone();
        let mut desk = self.desk.take()?;
        desk.pass = QueryPass::new(SearchQuery::new(query), Some(desk.pass));
        self.desk = Some(desk);
        self.sent = None;
        loop {
            let began = Instant::now();
            match self.look().await? {
                PassOutcome::Outdated => return Some(()),
                PassOutcome::SoFar(files) => {
                    if !files.is_empty() {
                        self.tell_once(files);
                    }
                }
                PassOutcome::Finally(files) => {
                    self.tell_once(files);
                    self.tell(SessionNews::Completed);
                    return self.latest.changed().await.ok();
                }
            }
            let more = async {
                sleep_until(began + PACE).await;
                self.index.grown.notified().await;
            };
            tokio::select! {
                changed = self.latest.changed() => return changed.ok(),
                () = more => {}
            }
        }
    }

    /// One look at what is known by now, on a thread where computing is allowed.
    async fn look(&mut self) -> Option<PassOutcome> {
        let mut desk = self.desk.take()?;
        let (latest, index, roots) = (self.latest.clone(), self.index.clone(), self.roots.clone());
        let work = spawn_blocking(move || {
            let (chunks, complete) = index.chunks();
            let outdated = || latest.has_changed().unwrap_or(true);
            let looked = if !desk.pass.advance(&chunks, &mut desk.scorers, &outdated) {
                PassOutcome::Outdated
            } else {
                let files = desk.results(&roots);
                if complete { PassOutcome::Finally(files) } else { PassOutcome::SoFar(files) }
            };
            (desk, looked)
        });
        let (desk, looked) = work.await.ok()?;
        self.desk = Some(desk);
        Some(looked)
    }

    fn tell_once(&mut self, files: Vec<FuzzyFileSearchResult>) {
        if self.sent.as_ref() == Some(&files) {
            return;
        }
        // Of the query that was looked for; there may be a newer one by now.
        let Some(query) = self.desk.as_ref().map(|desk| desk.pass.query.text().to_owned()) else { return };
        self.sent = Some(files.clone());
        self.tell(SessionNews::Updated { query, files });
    }

    fn tell(&self, news: SessionNews) {
        if let Some(tell) = &*self.tell.lock() {
            tell(news);
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
