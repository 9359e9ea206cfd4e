//! Lists of threads: `thread/list` for stored ones, `thread/loaded/list` for loaded ones.

use std::collections::BTreeMap;

use crate::{Patch, SortDirection, Thread, ThreadId, ThreadReadState, wire};

/// Lists stored threads. Filters are combined. Threads without a user message are not listed.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadListParams {
    pub cursor: Option<String>,
    /// The page size. Defaults to 25, at most 100; 0 counts as 1.
    pub limit: Option<u32>,
    pub sort_key: Option<ThreadSortKey>,
    /// Defaults to newest first.
    #[since("0.166")]
    pub sort_direction: Option<SortDirection>,
    /// Only threads of these providers. Absent or empty: all providers.
    pub model_providers: Option<Vec<String>>,
    /// Only threads of these sources. Absent or empty: `cli` and `vscode`, the interactive ones; for a list below one
    /// thread, all sources.
    pub source_kinds: Option<Vec<ThreadSourceKind>>,
    /// Lists only archived threads. Otherwise archived threads are not listed.
    pub archived: Option<bool>,
    /// Only threads with exactly this working directory, or one of these. An empty list matches none.
    #[in_118(Option<String>)]
    pub cwd: Option<ThreadListCwdFilter>,
    /// A case-sensitive substring of the name or the first user message. The reference server does not search names.
    pub search_term: Option<String>,
    /// Leaves these threads out.
    #[since("0.166")]
    pub excluded_thread_ids: Option<Vec<ThreadId>>,
    /// Only subagents that the agent of this thread started. Cannot be combined with `ancestorThreadId`.
    #[experimental("thread/list.parentThreadId")]
    #[since("0.166")]
    pub parent_thread_id: Option<ThreadId>,
    /// Only subagents below this thread, at any depth.
    #[experimental("thread/list.ancestorThreadId")]
    #[since("0.166")]
    pub ancestor_thread_id: Option<ThreadId>,
    /// Only threads in this section; null: only threads in none.
    #[since("0.166")]
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub section_id: Patch<String>,
    /// Only threads of this project.
    #[experimental("thread/list.projectId")]
    #[since("0.166")]
    pub project_id: Option<String>,
    /// Rejected, as by the reference server.
    #[since("0.166")]
    pub originators: Option<Vec<String>>,
    /// Only threads that are attached to this one. There are none, so nothing matches.
    #[experimental("thread/list.attachedToThreadId")]
    #[since("0.166")]
    pub attached_to_thread_id: Option<ThreadId>,
    /// Has no effect: lists always come from the index.
    #[since("0.166")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub use_state_db_only: bool,
}

/// One working directory, or a list of them.
#[wire(untagged)]
pub enum ThreadListCwdFilter {
    One(String),
    Any(Vec<String>),
}

/// The time by which threads are sorted. Defaults to the time of creation.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum ThreadSortKey {
    CreatedAt,
    UpdatedAt,
    #[since("0.166")]
    RecencyAt,
    /// The manual order of a section.
    #[since("0.166")]
    SectionPosition,
}

/// A [`SessionSource`] to filter by.
#[wire]
#[derive(Copy, Eq)]
pub enum ThreadSourceKind {
    Cli,
    Vscode,
    Exec,
    AppServer,
    /// Subagents of every kind.
    SubAgent,
    SubAgentReview,
    SubAgentCompact,
    SubAgentThreadSpawn,
    SubAgentOther,
    Unknown,
}

/// One page of threads, without their turns.
#[wire]
pub struct ThreadListResponse {
    pub data: Vec<Thread>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
    /// The cursor that continues before the first thread of this page, in the opposite direction; null for an empty page.
    #[since("0.166")]
    pub backwards_cursor: Option<String>,
    /// What the user has read, by thread id. Threads without a finished turn have no entry.
    #[since("0.166")]
    #[omit]
    pub read_states: Option<BTreeMap<String, ThreadReadState>>,
}

/// Lists the loaded threads.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadLoadedListParams {
    pub cursor: Option<String>,
    /// The page size. Null or absent: all.
    pub limit: Option<u32>,
}

/// One page of thread ids, sorted.
#[wire]
pub struct ThreadLoadedListResponse {
    pub data: Vec<ThreadId>,
    /// The cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}
