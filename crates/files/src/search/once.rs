//! One search: paths are matched as they are found, and only the best are kept.

use std::sync::{Mutex, PoisonError};

use codicil_protocol::FuzzyFileSearchResult;
use tokio_util::sync::CancellationToken;

use super::{
    matching::{Best, Query, Scorer},
    roots::Roots,
    walk::{Kind, Visitor, walk},
};

pub(super) fn search(
    roots: &Roots,
    query: &str,
    threads: usize,
    cancelled: &CancellationToken,
) -> Vec<FuzzyFileSearchResult> {
    let query = Query::new(query.to_owned());
    if query.is_empty() {
        return Vec::new();
    }
    let best = Mutex::default();
    walk(roots, threads, cancelled, || Matching {
        query: &query,
        scorer: Scorer::default(),
        found: Best::default(),
        best: &best,
    });
    if cancelled.is_cancelled() {
        return Vec::new();
    }
    let best = best.into_inner().unwrap_or_else(PoisonError::into_inner);
    best.results(&query, roots, &mut Scorer::default())
}

struct Matching<'s> {
    query: &'s Query,
    scorer: Scorer,
    found: Best,
    best: &'s Mutex<Best>,
}

impl Visitor for Matching<'_> {
    fn visit(&mut self, root: u32, path: &str, kind: Kind) -> bool {
        if let Some(score) = self.scorer.score(self.query, path) {
            self.found.offer(score, path, root, kind);
        }
        true
    }
}

impl Drop for Matching<'_> {
    fn drop(&mut self) {
        let found = std::mem::take(&mut self.found);
        self.best.lock().unwrap_or_else(PoisonError::into_inner).merge(found);
    }
}
