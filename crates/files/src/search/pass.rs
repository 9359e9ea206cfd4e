//! One query against the paths of a walk, as far as they are known.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{
    index::Chunk,
    matching::{Best, Query, Scorer},
};

/// Chunks that are worth another thread.
const CHUNKS_PER_THREAD: usize = 4;

/// How far a query has come.
#[derive(Debug)]
pub(super) struct Pass {
    pub query: Query,
    pub best: Best,
    /// For each chunk that has been looked at, which of its paths match.
    hits: Vec<Vec<u32>>,
    /// The hits of an earlier query: nothing else in those chunks can match.
    candidates: Vec<Vec<u32>>,
}

impl Pass {
    /// Begins anew or, when letters were only added, with what matched before.
    pub fn new(query: Query, earlier: Option<Self>) -> Self {
        let earlier = earlier.filter(|earlier| query.narrows(&earlier.query));
        let candidates = earlier.map_or_else(Vec::new, |mut earlier| {
            // Where it did not get to, what it was left by the one before it still holds.
            let left = earlier.candidates.drain(earlier.hits.len().min(earlier.candidates.len())..);
            earlier.hits.extend(left);
            earlier.hits
        });
        Self { query, best: Best::default(), hits: Vec::new(), candidates }
    }

    /// Looks at the chunks that are new. False when it was told to stop; nothing is missing then, but some
    /// is not done.
    pub fn advance(
        &mut self,
        chunks: &[Arc<Chunk>],
        scorers: &mut [Scorer],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> bool {
        let new = chunks.get(self.hits.len()..).unwrap_or_default();
        if self.query.is_empty() {
            self.hits.resize(chunks.len(), Vec::new());
            return true;
        }
        let threads = new.len().div_ceil(CHUNKS_PER_THREAD).clamp(1, scorers.len().max(1));
        let work = Work {
            query: &self.query,
            letters: self.query.letters(),
            chunks: new,
            candidates: self.candidates.get(self.hits.len()..).unwrap_or_default(),
            next: AtomicUsize::new(0),
            stop,
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
        let Done { best, mut hits } = work.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if hits.len() < new.len() {
            return false;
        }
        hits.sort_unstable_by_key(|(chunk, _)| *chunk);
        self.hits.extend(hits.into_iter().map(|(_, hits)| hits));
        self.best.merge(best);
        true
    }
}

/// What the threads of one pass share.
struct Work<'p> {
    query: &'p Query,
    letters: u64,
    chunks: &'p [Arc<Chunk>],
    candidates: &'p [Vec<u32>],
    next: AtomicUsize,
    stop: &'p (dyn Fn() -> bool + Sync),
    done: Mutex<Done>,
}

#[derive(Default)]
struct Done {
    best: Best,
    hits: Vec<(usize, Vec<u32>)>,
}

impl Work<'_> {
    fn run(&self, scorer: &mut Scorer) {
        let mut done = Done::default();
        while !(self.stop)() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = self.chunks.get(number) else { break };
            let hits = match self.candidates.get(number) {
                Some(candidates) => self.look_at(chunk, candidates.iter().copied(), scorer, &mut done.best),
                None => self.look_at(chunk, 0..chunk.len(), scorer, &mut done.best),
            };
            done.hits.push((number, hits));
        }
        let mut all = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        all.best.merge(done.best);
        all.hits.append(&mut done.hits);
    }

    fn look_at(
        &self,
        chunk: &Chunk,
        entries: impl Iterator<Item = u32>,
        scorer: &mut Scorer,
        best: &mut Best,
    ) -> Vec<u32> {
        let mut hits = Vec::new();
        for at in entries {
            let Some(found) = chunk.get(at, self.letters) else { continue };
            if let Some(score) = scorer.score(self.query, found.path) {
                best.offer(score, found.path, chunk.root, found.kind);
                hits.push(at);
            }
        }
        hits
    }
}
