//! One search, in a new walk or a cached one.

use std::sync::Arc;

use codicil_protocol::FuzzyFileSearchResult;
use tokio_util::sync::CancellationToken;

use super::{
    SharedWalks,
    matching::{MatchScorer, SearchQuery},
    pass::QueryPass,
    roots::SearchRoots,
    threads,
};

/// Searches for the best matches, and passes them to `answer` before the walk is cached.
pub(super) fn search(
    walks: &SharedWalks,
    roots: &SearchRoots,
    query: String,
    cancelled: &CancellationToken,
    answer: impl FnOnce(Vec<FuzzyFileSearchResult>),
) {
    let query = SearchQuery::new(query);
    if query.is_empty() {
        return answer(Vec::new());
    }
    let threads = threads();
    let (index, began) = match walks.cache.get(roots, threads) {
        Some(index) => (index, None),
        None => {
            let index = Arc::new(walks.new_index());
            let began = walks.fill(&index, roots, threads, cancelled);
            (index, Some(began))
        }
    };
    let mut scorers = Vec::from_iter((0..threads).map(|_| MatchScorer::default()));
    let mut pass = QueryPass::new(query, None);
    let stopped = || cancelled.is_cancelled();
    if !pass.advance(&index.chunks().0, &mut scorers, &stopped) || cancelled.is_cancelled() {
        return answer(Vec::new());
    }
    // Announced before the answer, because the next search may follow at once.
    let expected = began.map(|began| (began, walks.cache.expect(roots)));
    answer(pass.best.results(&pass.query, roots, &mut MatchScorer::default()));
    if let Some((began, expected)) = expected {
        expected.keep(&index, began, threads);
    }
}
