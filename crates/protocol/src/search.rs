//! Finding files by a few letters of their path: `fuzzyFileSearch`, and sessions that follow what a person
//! types (`fuzzyFileSearch/session*`, experimental).
//!
//! Results are snake case on the wire. Ignored files are left out, hidden ones are not.

use crate::wire;

/// One search, answered when everything was looked at. An empty query finds nothing.
#[wire(sparse)]
pub struct FuzzyFileSearchParams {
    pub query: String,
    /// Directories to look in; one that does not exist holds nothing.
    pub roots: Vec<String>,
    /// A search ends early when another with the same token arrives.
    pub cancellation_token: Option<String>,
}

/// The best matches, best first.
#[wire]
pub struct FuzzyFileSearchResponse {
    pub files: Vec<FuzzyFileSearchResult>,
}

/// Opens a session; it looks for nothing until the first update.
#[wire]
pub struct FuzzyFileSearchSessionStartParams {
    /// Chosen by the client. A session with that id is replaced.
    pub session_id: String,
    pub roots: Vec<String>,
}

/// The session is open.
#[wire]
#[derive(Default)]
pub struct FuzzyFileSearchSessionStartResponse {}

/// Changes what a session looks for, once for each keystroke if need be.
#[wire]
pub struct FuzzyFileSearchSessionUpdateParams {
    pub session_id: String,
    pub query: String,
}

/// The query was taken; results come as notifications.
#[wire]
#[derive(Default)]
pub struct FuzzyFileSearchSessionUpdateResponse {}

/// Closes a session.
#[wire]
pub struct FuzzyFileSearchSessionStopParams {
    pub session_id: String,
}

/// The session is closed, or was not open.
#[wire]
#[derive(Default)]
pub struct FuzzyFileSearchSessionStopResponse {}

/// A file or directory that matches.
#[wire(rename_all = "snake_case")]
pub struct FuzzyFileSearchResult {
    pub root: String,
    /// Relative to `root`.
    pub path: String,
    pub match_type: FuzzyFileSearchMatchType,
    /// The last part of the path.
    pub file_name: String,
    /// Higher is better; only comparable within one query.
    pub score: u32,
    /// Which characters of `path` matched, counted from 0, for highlighting.
    pub indices: Option<Vec<u32>>,
}

/// What a match is.
#[wire(open)]
#[derive(Eq)]
pub enum FuzzyFileSearchMatchType {
    File,
    Directory,
}

/// What a session has found so far; replaces what it sent before.
#[wire]
pub struct FuzzyFileSearchSessionUpdatedNotification {
    pub session_id: String,
    /// The query that these files match, which may no longer be the latest.
    pub query: String,
    pub files: Vec<FuzzyFileSearchResult>,
}

/// A session has looked at everything for its current query. It may say so more than once.
#[wire]
pub struct FuzzyFileSearchSessionCompletedNotification {
    pub session_id: String,
}
