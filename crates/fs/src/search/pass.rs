//! Matches one query against the paths of a walk that are known so far.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    MAX_MATCH_TIME,
    index::PathChunk,
    matching::{BestMatches, MatchScorer, SearchQuery},
};

/// How many chunks justify another thread.
const CHUNKS_PER_THREAD: usize = 4;

/// How many paths are matched between two checks for cancellation. Matching one may take a millisecond.
const CHECK_EVERY: usize = 64;

/// The progress of a query.
#[derive(Debug)]
pub(super) struct QueryPass {
    pub query: SearchQuery,
    pub best: BestMatches,
    /// For each chunk that was searched, its matching paths.
    hits: Vec<Vec<u32>>,
    /// The hits of an earlier query. No other path in those chunks can match.
    candidates: Vec<Vec<u32>>,
    /// The remaining time for this query.
    time_left: Duration,
}

impl QueryPass {
    /// Starts a pass. If the query only adds letters to the earlier one, it searches the earlier matches only.
    pub fn new(query: SearchQuery, earlier: Option<Self>) -> Self {
        // A query that ran out of time has not found all matches.
        let earlier = earlier.filter(|it| query.narrows(&it.query) && !it.time_left.is_zero());
        let candidates = earlier.map_or_else(Vec::new, |mut earlier| {
            // In chunks that it did not search, its own candidates are still valid.
            let unsearched = earlier.candidates.drain(earlier.hits.len().min(earlier.candidates.len())..);
            earlier.hits.extend(unsearched);
            earlier.hits
        });
        Self { query, best: BestMatches::default(), hits: Vec::new(), candidates, time_left: MAX_MATCH_TIME }
    }

    /// Searches the chunks that are new. Returns false if `stop` returned true; the pass can then be continued.
    pub fn advance(
        &mut self,
        chunks: &[Arc<PathChunk>],
        scorers: &mut [MatchScorer],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> bool {
        let new = chunks.get(self.hits.len()..).unwrap_or_default();
        if self.query.is_empty() {
            self.hits.resize(chunks.len(), Vec::new());
            return true;
        }
        let began = Instant::now();
        let threads = new.len().div_ceil(CHUNKS_PER_THREAD).clamp(1, scorers.len().max(1));
        let work = PassWork {
            query: &self.query,
            letters: self.query.letters(),
            chunks: new,
            candidates: self.candidates.get(self.hits.len()..).unwrap_or_default(),
            next: AtomicUsize::new(0),
            stop,
            deadline: began + self.time_left,
            done: Mutex::default(),
        };
        thread::scope(|scope| {
            let mut scorers = scorers.iter_mut().take(threads);
            let own = scorers.next();
            for scorer in scorers {
                scope.spawn(|| work.run(scorer));
            }
            if let Some(scorer) = own {
                work.run(scorer);
            }
        });
        let PassResult { best, mut hits } = work.done.into_inner();
        self.time_left = self.time_left.saturating_sub(began.elapsed());
        if hits.len() < new.len() {
            return false;
        }
        hits.sort_unstable_by_key(|(chunk, _)| *chunk);
        self.hits.extend(hits.into_iter().map(|(_, hits)| hits));
        self.best.merge(best);
        true
    }
}

/// The state that the threads of one pass share.
struct PassWork<'p> {
    query: &'p SearchQuery,
    letters: u64,
    chunks: &'p [Arc<PathChunk>],
    candidates: &'p [Vec<u32>],
    next: AtomicUsize,
    stop: &'p (dyn Fn() -> bool + Sync),
    /// The time after which nothing is matched.
    deadline: Instant,
    done: Mutex<PassResult>,
}

#[derive(Default)]
struct PassResult {
    best: BestMatches,
    hits: Vec<(usize, Vec<u32>)>,
}

impl PassWork<'_> {
    fn run(&self, scorer: &mut MatchScorer) {
        let mut done = PassResult::default();
        while !(self.stop)() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = self.chunks.get(number) else { break };
            let hits = match self.candidates.get(number) {
                Some(candidates) => {
                    self.search_chunk(chunk, candidates.iter().copied(), scorer, &mut done.best)
                }
                None => self.search_chunk(chunk, 0..chunk.len(), scorer, &mut done.best),
            };
            let Some(hits) = hits else { break };
            done.hits.push((number, hits));
        }
        let mut all = self.done.lock();
        all.best.merge(done.best);
        all.hits.append(&mut done.hits);
    }

    /// Searches a chunk. Returns `None` if it was stopped before the end.
    fn search_chunk(
        &self,
        chunk: &PathChunk,
        entries: impl Iterator<Item = u32>,
        scorer: &mut MatchScorer,
        best: &mut BestMatches,
    ) -> Option<Vec<u32>> {
        let mut hits = Vec::new();
        for (number, at) in entries.enumerate() {
            if number.is_multiple_of(CHECK_EVERY) {
                if (self.stop)() {
                    return None;
                }
                if Instant::now() >= self.deadline {
                    break;
                }
            }
            let Some(found) = chunk.get(at, self.letters) else { continue };
            if let Some(score) = scorer.score(self.query, found.path) {
                best.offer(score, found.path, chunk.root, found.kind);
                hits.push(at);
            }
        }
        Some(hits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::{
        index::{IndexWriter, PathIndex},
        walk::{FoundPath, PathKind, WalkVisitor},
    };

    fn chunks(paths: u32) -> Vec<Arc<PathChunk>> {
        let index = PathIndex::new(Arc::default());
        let mut filling = IndexWriter::new(&index);
        for number in 0..paths {
            let path = format!("directory/file_{number}");
            filling.visit(0, FoundPath { path: &path, kind: PathKind::File, is_link: false });
        }
        drop(filling);
        index.chunks().0
    }

    fn pass(query: &str) -> QueryPass {
        QueryPass::new(SearchQuery::new(query.to_owned()), None)
    }

    #[test]
    fn a_cancelled_pass_stops_within_a_chunk() {
        // Chunks double in size; the third one has more paths than are matched between two checks.
        let chunk = &chunks(448)[2..3];
        assert!(chunk[0].len() as usize > 3 * CHECK_EVERY);
        let looks = AtomicUsize::new(0);
        let stop = || looks.fetch_add(1, Ordering::Relaxed) >= 3;
        assert!(!pass("file").advance(chunk, &mut [MatchScorer::default()], &stop));
        assert_eq!(looks.into_inner(), 4);
    }

    #[test]
    fn a_pass_without_time_answers_what_it_has_and_narrows_nothing() {
        let chunks = chunks(1_000);
        let mut scorers = [MatchScorer::default()];
        let mut late = QueryPass { time_left: Duration::ZERO, ..pass("file") };
        assert!(late.advance(&chunks, &mut scorers, &|| false));
        assert!(late.hits.iter().all(Vec::is_empty));
        let mut next = QueryPass::new(SearchQuery::new("file_9".to_owned()), Some(late));
        assert!(next.advance(&chunks, &mut scorers, &|| false));
        assert!(next.hits.iter().any(|hits| !hits.is_empty()));
    }
}
