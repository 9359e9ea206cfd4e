//! Searching the messages of threads: `thread/search` and `thread/searchOccurrences`.

use codicil_protocol::{
    SortDirection, ThreadSearchOccurrencesParams, ThreadSearchParams, ThreadSearchResponse,
    ThreadSearchResult, ThreadSearchSortKey,
};
use codicil_store::{ListSort, MessageMatch, SearchPage, SearchQuery, StoreError};

use super::{Threads, ids::canonical, pages::page};
use crate::error::{SearchError, ThreadError};

impl Threads {
    pub async fn search(&self, params: ThreadSearchParams) -> Result<ThreadSearchResponse, ThreadError> {
        check_term(&params.search_term, "thread/search")?;
        let query = SearchQuery {
            term: params.search_term.trim().to_owned(),
            cursor: params.cursor,
            limit: params.limit,
            sort: match params.sort_key {
                Some(ThreadSearchSortKey::UpdatedAt | ThreadSearchSortKey::RecencyAt) => ListSort::Updated,
                Some(ThreadSearchSortKey::CreatedAt | ThreadSearchSortKey::Unrecognized(_)) | None => {
                    ListSort::Created
                }
            },
            oldest_first: params.sort_direction == Some(SortDirection::Asc),
            archived: params.archived.unwrap_or_default(),
            source_kinds: params.source_kinds.unwrap_or_default(),
        };
        let SearchPage { found, next_cursor, backwards_cursor } = self.0.engine.store.search(query).await?;
        let mut data: Vec<_> = found
            .into_iter()
            .map(|(listed, snippet)| ThreadSearchResult { thread: listed.thread, snippet })
            .collect();
        self.show_loaded(data.iter_mut().map(|result| &mut result.thread));
        Ok(ThreadSearchResponse { data, next_cursor, backwards_cursor })
    }

    /// Returns a page of the matches in one thread, and the cursor of the next one.
    pub async fn search_occurrences(
        &self,
        params: &ThreadSearchOccurrencesParams,
    ) -> Result<(Vec<MessageMatch>, Option<String>), ThreadError> {
        check_term(&params.search_term, "thread/searchOccurrences")?;
        let id = canonical(&params.thread_id)?;
        let found = self.0.engine.store.search_thread(&id, &params.search_term).await;
        let matches = found.map_err(|error| match error {
            StoreError::NotFound(id) => ThreadError::NotLoaded(id),
            other => other.into(),
        })?;
        page(matches, params.cursor.as_deref(), params.limit)
    }
}

fn check_term(term: &str, method: &'static str) -> Result<(), SearchError> {
    if term.trim().is_empty() { Err(SearchError::EmptyTerm(method)) } else { Ok(()) }
}
