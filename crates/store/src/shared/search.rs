//! Searching the messages of threads in a backend. Its index excludes threads whose messages cannot contain the text; the
//! lines of the others are read in the order of the result until a page is full.

use super::{RowPage, SharedThreads, entry_query, message_index::term_trigrams};
use crate::{
    backend::EntryQuery,
    error::{Result, StoreError},
    list::{ListCursor, ListQuery},
    search::{SearchPage, SearchPageBuilder, SearchQuery, first_snippet},
    search_text::SearchTerm,
    thread_lines::without_history,
    work_pool::{WorkLane, WorkPool},
};

impl SharedThreads {
    pub async fn search(&self, query: &SearchQuery, pool: &WorkPool) -> Result<SearchPage> {
        let term = SearchTerm::new(&query.term);
        let list: ListQuery = query.visited_rows();
        let organization = self.organization().await?;
        let mut page = SearchPageBuilder::new(query);
        let mut entries = EntryQuery { trigrams: term_trigrams(&term), ..entry_query(&list)? };
        self.start_indexing();
        'pages: loop {
            let RowPage { rows, has_more } = self.rows(&entries).await?;
            let Some(last) = rows.last().map(|last| ListCursor::of(query.sort, last)) else { break };
            for row in rows {
                let lines = match self.lines(&row.id, without_history).await {
                    // Deleted meanwhile.
                    Err(StoreError::NotFound(_)) => continue,
                    lines => lines?,
                };
                let searched = term.clone();
                let read = move || Ok(first_snippet(&lines, &searched));
                let Some(snippet) = pool.run(WorkLane::Load, read).await? else { continue };
                let cursor = ListCursor::of(query.sort, &row);
                if page.push(cursor, (self.listed(row, &organization), snippet)).is_break() {
                    break 'pages;
                }
            }
            if !has_more {
                break;
            }
            entries.after = entry_query(&ListQuery { cursor: last.text(), ..list.clone() })?.after;
        }
        Ok(page.into_page())
    }
}
