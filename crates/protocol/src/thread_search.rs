//! Search in the content of threads: `thread/search` and `thread/searchOccurrences`.

use crate::{ItemId, SortDirection, Thread, ThreadId, ThreadSourceKind, TurnId, wire};

/// Finds threads that contain a text.
#[wire(sparse)]
pub struct ThreadSearchParams {
    pub search_term: String,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// Finds only archived threads. Otherwise archived threads are not found.
    pub archived: Option<bool>,
    pub sort_direction: Option<SortDirection>,
    pub sort_key: Option<ThreadSearchSortKey>,
    /// Only threads of these sources. Absent or empty: `cli` and `vscode`, the interactive ones.
    pub source_kinds: Option<Vec<ThreadSourceKind>>,
}

/// The time by which found threads are sorted.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum ThreadSearchSortKey {
    CreatedAt,
    UpdatedAt,
    RecencyAt,
}

/// One page of threads.
#[wire]
pub struct ThreadSearchResponse {
    pub data: Vec<ThreadSearchResult>,
    pub next_cursor: Option<String>,
    /// The cursor that continues before the first thread of this page, in the opposite direction.
    pub backwards_cursor: Option<String>,
}

/// A thread that contains the text, without its turns.
#[wire]
pub struct ThreadSearchResult {
    /// The text around the first occurrence.
    pub snippet: String,
    pub thread: Thread,
}

/// Finds the occurrences of a text in a thread.
#[wire(sparse)]
pub struct ThreadSearchOccurrencesParams {
    pub thread_id: ThreadId,
    pub search_term: String,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// One page of occurrences, in the order of the thread.
#[wire]
pub struct ThreadSearchOccurrencesResponse {
    pub data: Vec<ThreadSearchOccurrence>,
    pub next_cursor: Option<String>,
}

/// An occurrence of the text.
#[wire]
pub struct ThreadSearchOccurrence {
    pub turn_id: TurnId,
    pub item_id: ItemId,
    /// The text around it.
    pub snippet: String,
    pub snippet_match_range: ThreadSearchTextRange,
    /// The cursor of `thread/turns/list` that starts at the turn.
    pub turn_cursor: String,
}

/// A range of UTF-16 code units; `end` is exclusive.
#[wire]
pub struct ThreadSearchTextRange {
    pub end: u32,
    pub start: u32,
}
