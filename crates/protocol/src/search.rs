//! Fuzzy file search: `fuzzyFileSearch`, and sessions whose query can be changed (`fuzzyFileSearch/session*`,
//! experimental).
//!
//! Results are snake case on the wire. They include hidden files but no ignored ones.

use crate::wire;

/// Searches for files. The response is sent when the search is complete. An empty query finds nothing.
#[wire(sparse)]
pub struct FuzzyFileSearchParams {
    pub query: String,
    /// The directories to search. One that does not exist is treated as empty.
    pub roots: Vec<String>,
    /// A search is cancelled when another one with the same token starts.
    pub cancellation_token: Option<String>,
}

/// The best matches, best first.
#[wire]
pub struct FuzzyFileSearchResponse {
    pub files: Vec<FuzzyFileSearchResult>,
}

/// Starts a session. It does not search before the first update.
#[wire]
pub struct FuzzyFileSearchSessionStartParams {
    /// An id chosen by the client. An existing session with this id is replaced.
    pub session_id: String,
    pub roots: Vec<String>,
}

/// The session has started.
#[wire]
#[derive(Default)]
pub struct FuzzyFileSearchSessionStartResponse {}

/// Changes the query of a session. Can be sent for every keystroke.
#[wire]
pub struct FuzzyFileSearchSessionUpdateParams {
    pub session_id: String,
    pub query: String,
}

/// The query is accepted. Results are sent as notifications.
#[wire]
#[derive(Default)]
pub struct FuzzyFileSearchSessionUpdateResponse {}

/// Ends a session.
#[wire]
pub struct FuzzyFileSearchSessionStopParams {
    pub session_id: String,
}

/// The session has ended. Succeeds also without one.
#[wire]
#[derive(Default)]
pub struct FuzzyFileSearchSessionStopResponse {}

/// A matching file or directory.
#[wire(rename_all = "snake_case")]
pub struct FuzzyFileSearchResult {
    pub root: String,
    /// Relative to `root`.
    pub path: String,
    pub match_type: FuzzyFileSearchMatchType,
    /// The last component of the path.
    pub file_name: String,
    /// Higher is better. Comparable only within one query.
    pub score: u32,
    /// The indices of the matching characters in `path`, from 0, for highlighting.
    pub indices: Option<Vec<u32>>,
}

/// The kind of a match.
#[wire(open)]
#[derive(Eq)]
pub enum FuzzyFileSearchMatchType {
    File,
    Directory,
}

/// The current results of a session. Replaces the previous ones.
#[wire]
pub struct FuzzyFileSearchSessionUpdatedNotification {
    pub session_id: String,
    /// The query of these results, which may be outdated.
    pub query: String,
    pub files: Vec<FuzzyFileSearchResult>,
}

/// A session has completed its current query. Can be sent more than once.
#[wire]
pub struct FuzzyFileSearchSessionCompletedNotification {
    pub session_id: String,
    /// The query. Empty from servers that do not send it.
    #[serde(default)]
    #[schemars(skip)]
    pub query: String,
}
