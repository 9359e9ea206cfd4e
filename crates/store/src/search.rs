//! Searching the messages of threads.
//!
//! Threads are visited in the order of the result until a page is full. The index of messages excludes most of them; the
//! files of the others are searched, first as bytes, and where the text may be there, as turns: what was dropped is not found.

use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use codicil_protocol::{ItemId, ThreadId, ThreadSourceKind, TurnId};

use crate::{
    error::{Result, StoreError},
    index::{IndexedFile, RowPage},
    list::{ListCursor, ListQuery, ListSort, ListedThread},
    record_line,
    search_index::{SearchCandidates, SearchFile, read_from},
    search_text::{SearchTerm, TextMatch, message_text},
    store::{Store, StoreInner},
    summary::ThreadSummary,
    thread::StoredTurn,
    thread_lines::ThreadLines,
    work_pool::WorkLane,
};

/// The rows that are visited at a time.
const VISITED_ROWS: u32 = 100;
/// The threads that a query of the index names at most. With more, the rows are visited.
const MAX_NAMED: usize = 2000;
/// The default and the maximum size of a page.
const DEFAULT_PAGE: usize = 25;
const MAX_PAGE: usize = 100;

/// What to search for, and where.
#[derive(Clone, Debug, Default)]
pub struct SearchQuery {
    pub term: String,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    pub sort: ListSort,
    pub oldest_first: bool,
    pub archived: bool,
    /// Empty: the interactive ones.
    pub source_kinds: Vec<ThreadSourceKind>,
}

/// One page of threads with matches.
#[derive(Clone, Debug)]
pub struct SearchPage {
    /// The threads, each with the text around its first match.
    pub found: Vec<(ListedThread, String)>,
    pub next_cursor: Option<String>,
    pub backwards_cursor: Option<String>,
}

/// A match in a message of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageMatch {
    pub turn_id: TurnId,
    /// The place of the turn among the turns of the thread.
    pub turn_index: usize,
    pub item_id: ItemId,
    pub text: TextMatch,
}

/// A page that is being filled.
pub(crate) struct SearchPageBuilder<'a> {
    query: &'a SearchQuery,
    page: SearchPage,
    last_cursor: Option<String>,
}

impl<'a> SearchPageBuilder<'a> {
    pub fn new(query: &'a SearchQuery) -> Self {
        let page = SearchPage { found: Vec::new(), next_cursor: None, backwards_cursor: None };
        Self { query, page, last_cursor: None }
    }

    /// Adds a thread and the text around its match. Breaks if the page is full: the thread belongs to the next page then.
    pub fn push(&mut self, cursor: ListCursor, found: (ListedThread, String)) -> ControlFlow<()> {
        if self.page.found.len() == self.query.page_size() {
            self.page.next_cursor = self.last_cursor.take();
            return ControlFlow::Break(());
        }
        self.last_cursor = cursor.text();
        if self.page.found.is_empty() {
            self.page.backwards_cursor = cursor.included(self.query.oldest_first).text();
        }
        self.page.found.push(found);
        ControlFlow::Continue(())
    }

    pub fn into_page(self) -> SearchPage {
        self.page
    }
}

impl SearchQuery {
    /// Returns the list whose rows are visited.
    pub(crate) fn visited_rows(&self) -> ListQuery {
        ListQuery {
            cursor: self.cursor.clone(),
            limit: Some(VISITED_ROWS),
            sort: self.sort,
            oldest_first: self.oldest_first,
            source_kinds: self.source_kinds.clone(),
            archived: self.archived,
            ..ListQuery::default()
        }
    }

    fn page_size(&self) -> usize {
        self.limit.map_or(DEFAULT_PAGE, |limit| (limit as usize).clamp(1, MAX_PAGE))
    }
}

impl SearchCandidates {
    /// Returns the threads that may contain the text; `None` if the index excludes none.
    fn possible(&self, files: &[IndexedFile]) -> Option<Vec<ThreadId>> {
        let found = self.found.as_ref()?;
        let is_possible = |file: &&IndexedFile| {
            found.contains(&file.id) || self.indexed.get(&file.id).copied() != Some(file.bytes)
        };
        Some(files.iter().filter(is_possible).map(|file| file.id.clone()).collect())
    }
}

/// Whether the messages are being indexed.
#[derive(Debug, Default)]
pub(crate) struct SearchIndexing {
    is_running: AtomicBool,
    is_stopped: AtomicBool,
}

impl Store {
    /// Returns a page of threads whose messages contain a text.
    pub async fn search(&self, query: SearchQuery) -> Result<SearchPage> {
        if let Some(shared) = &self.shared {
            return shared.search(&query, &self.inner.pool).await;
        }
        self.run(WorkLane::List, move |inner| inner.search(&query)).await
    }

    /// Returns all matches in the messages of a thread, oldest first.
    pub async fn search_thread(&self, id: &ThreadId, term: &str) -> Result<Vec<MessageMatch>> {
        let turns = self.read(id).await?.turns;
        let term = SearchTerm::new(term);
        Ok(all_matches(&turns, &term))
    }

    /// Indexes the messages of all threads. Searches do this in the background.
    pub async fn index_messages(&self) -> Result<()> {
        if let Some(shared) = &self.shared {
            return shared.index_messages().await;
        }
        self.run(WorkLane::List, |inner| inner.index_messages()).await
    }
}

impl StoreInner {
    fn search(self: &Arc<Self>, query: &SearchQuery) -> Result<SearchPage> {
        let term = SearchTerm::new(&query.term);
        let candidates = self.search_index.candidates(&self.layout, &term).unwrap_or_else(|error| {
            tracing::warn!(%error, "searching without the index of messages");
            SearchCandidates { indexed: HashMap::new(), found: None }
        });
        let mut list = query.visited_rows();
        let mut page = SearchPageBuilder::new(query);
        let files = self.index.all_files()?;
        let size = |file: &IndexedFile| candidates.indexed.get(&file.id).copied() == Some(file.bytes);
        if !files.iter().all(size) {
            self.start_indexing();
        }
        list.only = candidates.possible(&files).filter(|possible| possible.len() <= MAX_NAMED);
        'pages: loop {
            let RowPage { rows, next, .. } = self.index.list(&list)?;
            for row in rows {
                let Some(snippet) = self.first_match(&row, &term, &candidates) else { continue };
                let cursor = ListCursor::of(query.sort, &row);
                if page.push(cursor, (self.listed(row), snippet)).is_break() {
                    break 'pages;
                }
            }
            match next.and_then(|next| next.text()) {
                Some(next) => list.cursor = Some(next),
                None => break,
            }
        }
        Ok(page.into_page())
    }

    /// Returns the text around the first match in a thread.
    fn first_match(
        &self,
        row: &ThreadSummary,
        term: &SearchTerm,
        candidates: &SearchCandidates,
    ) -> Option<String> {
        let path = self.layout.absolute(&row.dir).join(&row.file);
        let indexed = candidates.indexed.get(&row.id).copied().unwrap_or(0);
        let is_excluded = candidates.found.as_ref().is_some_and(|found| !found.contains(&row.id));
        let unknown_from = if is_excluded { indexed } else { 0 };
        if u64::try_from(row.stamp.size).is_ok_and(|size| size == unknown_from) {
            return None;
        }
        let bytes = read_from(&path, unknown_from).ok()?;
        // Texts that are stored apart from their records are not in the file.
        if !term.may_be_in(&bytes) && !record_line::has_blobs(&bytes) {
            return None;
        }
        first_snippet(&self.lines(&row.id).ok()?, term)
    }

    /// Indexes messages in the background, unless that is under way.
    fn start_indexing(self: &Arc<Self>) {
        if self.indexing.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let weak = Arc::downgrade(self);
        let run = move || {
            let Some(inner) = weak.upgrade() else { return };
            if let Err(error) = inner.index_messages() {
                tracing::warn!(%error, "failed to index the messages of threads");
            }
            inner.indexing.is_running.store(false, Ordering::Release);
        };
        // Ends by itself after the current batch when the store is closed.
        if thread::Builder::new().name("codicil-search".into()).spawn(run).is_err() {
            self.indexing.is_running.store(false, Ordering::Release);
        }
    }

    pub(crate) fn stop_indexing(&self) {
        self.indexing.is_stopped.store(true, Ordering::Release);
    }

    fn index_messages(self: &Arc<Self>) -> Result<()> {
        let file = |found: IndexedFile| {
            let path: PathBuf = self.layout.absolute(&found.dir).join(found.file);
            SearchFile { id: found.id, path, bytes: found.bytes }
        };
        let files: Vec<_> = self.index.all_files()?.into_iter().map(file).collect();
        let is_stopped = || self.indexing.is_stopped.load(Ordering::Acquire);
        match self.search_index.catch_up(&self.layout, &files, is_stopped) {
            // Another process indexes, too.
            Err(StoreError::Index { source, .. }) if crate::error::is_busy(&source) => Ok(()),
            result => result,
        }
    }
}

/// Returns the text around the first match in the messages of a thread.
pub(crate) fn first_snippet(lines: &ThreadLines, term: &SearchTerm) -> Option<String> {
    let turns = lines.read().ok()?.turns;
    let (_, _, text) = matching_items(&turns, term).next()?;
    term.first_in(&text)
}

/// Returns the messages of turns that contain a text, with the place of their turn.
fn matching_items<'a>(
    turns: &'a [StoredTurn],
    term: &'a SearchTerm,
) -> impl Iterator<Item = (usize, ItemId, String)> + 'a {
    let items =
        turns.iter().enumerate().flat_map(|(index, turn)| turn.items.iter().map(move |item| (index, item)));
    items.filter(|(_, json)| term.may_be_in(json.get().as_bytes())).filter_map(|(index, json)| {
        let item: codicil_protocol::ThreadItem = serde_json::from_str(json.get()).ok()?;
        let text = message_text(&item)?;
        term.first_in(&text)?;
        Some((index, item.id()?.clone(), text))
    })
}

fn all_matches(turns: &[StoredTurn], term: &SearchTerm) -> Vec<MessageMatch> {
    if term.is_empty() {
        return Vec::new();
    }
    let mut matches = Vec::new();
    for (turn_index, item_id, text) in matching_items(turns, term) {
        let Some(turn) = turns.get(turn_index) else { continue };
        matches.extend(term.all_in(&text).into_iter().map(|text| MessageMatch {
            turn_id: turn.id.clone(),
            turn_index,
            item_id: item_id.clone(),
            text,
        }));
    }
    matches
}
