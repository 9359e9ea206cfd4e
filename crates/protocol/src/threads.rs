//! Threads and the `thread/*` methods and notifications that manage them.
//!
//! Opening a thread is in `thread_opening.rs`, paging in `thread_pages.rs`, settings in `thread_settings.rs`, the work
//! within a thread in `turns.rs` and `items.rs`, voice in `realtime.rs`.
//!
//! A thread is loaded or only stored; `status` says which. Most methods that take an id work for both. A [`Thread`]
//! contains its turns only where that is documented.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::{
    AbsolutePathBuf, ItemId, Patch, ReasoningEffort, SortDirection, ThreadEnvironment, ThreadId,
    ThreadReadState, ThreadSection, Turn, TurnId, wire,
};

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
    /// Only threads in this section.
    #[since("0.166")]
    pub section_id: Option<String>,
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

/// Reads a thread without loading it or subscribing to it.
#[wire]
pub struct ThreadReadParams {
    pub thread_id: ThreadId,
    /// Includes the turns. Rejected for ephemeral threads.
    #[serde(default)]
    pub include_turns: bool,
}

/// The current state of the thread. A running turn is included with its items so far.
#[wire]
pub struct ThreadReadResponse {
    pub thread: Thread,
    /// What the user has read; null before the first turn.
    #[since("0.166")]
    pub read_state: Option<ThreadReadState>,
}

/// Updates the stored metadata of a thread, loaded or not.
#[wire(sparse)]
pub struct ThreadMetadataUpdateParams {
    pub thread_id: ThreadId,
    pub git_info: Option<ThreadMetadataGitInfoUpdateParams>,
    /// The project of the thread; null takes it out of its project.
    #[serde(skip_serializing_if = "Patch::is_missing")]
    #[since("0.166")]
    #[experimental("thread/metadata/update.projectId")]
    pub project_id: Patch<String>,
    /// Has no effect: access programs of OpenAI are not supported.
    #[since("0.166")]
    #[experimental("thread/metadata/update.daybreakEnabled")]
    pub daybreak_enabled: Option<bool>,
}

/// The thread after the change, without its turns.
#[wire]
pub struct ThreadMetadataUpdateResponse {
    pub thread: Thread,
}

/// Archives a thread. A loaded thread is closed first, and its running turn is interrupted.
#[wire]
pub struct ThreadArchiveParams {
    pub thread_id: ThreadId,
}

/// The thread is archived; `thread/archived` follows.
#[wire]
#[derive(Default)]
pub struct ThreadArchiveResponse {}

/// Ends the caller's subscription to a thread. When the last subscriber leaves, the running turn is interrupted and the
/// thread unloaded.
#[wire]
pub struct ThreadUnsubscribeParams {
    pub thread_id: ThreadId,
}

/// The result of unsubscribing. An unknown thread is not an error.
#[wire]
pub struct ThreadUnsubscribeResponse {
    pub status: ThreadUnsubscribeStatus,
}

/// Sets the display name of a thread, loaded or not.
#[wire]
pub struct ThreadSetNameParams {
    pub thread_id: ThreadId,
    /// The name. It is trimmed, must not be empty then, and need not be unique.
    pub name: String,
}

/// The name is set; `thread/name/updated` follows.
#[wire]
#[derive(Default)]
pub struct ThreadSetNameResponse {}

/// Restores an archived thread, without loading it.
#[wire]
pub struct ThreadUnarchiveParams {
    pub thread_id: ThreadId,
}

/// The restored thread; `thread/unarchived` follows.
#[wire]
pub struct ThreadUnarchiveResponse {
    pub thread: Thread,
}

/// Starts compacting the model's history of a thread. The turns and items that clients read do not change.
#[wire]
pub struct ThreadCompactStartParams {
    pub thread_id: ThreadId,
}

/// The compaction has started, as a turn with one `contextCompaction` item.
#[wire]
#[derive(Default)]
pub struct ThreadCompactStartResponse {}

/// Runs a shell command of the user, outside the sandbox and without approval. The output is added to the model's history.
#[wire(sparse)]
pub struct ThreadShellCommandParams {
    pub thread_id: ThreadId,
    /// The command line for the user's shell; must not be blank.
    pub command: String,
    /// The time after which the command is terminated. Absent: an hour.
    #[since("0.166")]
    pub timeout_ms: Option<i64>,
}

/// The command has started, in the running turn or in a new one.
#[wire]
#[derive(Default)]
pub struct ThreadShellCommandResponse {}

/// Terminates the background terminals of a thread: commands that are still running after their turns. An interrupt does
/// not end them.
#[wire]
pub struct ThreadBackgroundTerminalsCleanParams {
    pub thread_id: ThreadId,
}

/// The terminals are being terminated. Their items complete as failed.
#[wire]
#[derive(Default)]
pub struct ThreadBackgroundTerminalsCleanResponse {}

/// Removes the last turns of a thread permanently. Files that they changed are not restored. Rejected while a turn is
/// running.
#[wire]
pub struct ThreadRollbackParams {
    pub thread_id: ThreadId,
    /// The number of turns, at least 1. If the thread has fewer, all are removed.
    pub num_turns: u32,
}

/// The thread with the remaining turns.
#[wire]
pub struct ThreadRollbackResponse {
    pub thread: Thread,
}

/// Removes a turn and all turns after it permanently. Files that they changed are not restored. A running turn is
/// interrupted first.
#[wire]
pub struct ThreadRevertParams {
    pub thread_id: ThreadId,
    /// The first turn that is removed.
    pub before_turn_id: TurnId,
}

/// The thread after the change, without its turns; `thread/reverted` follows.
#[wire]
pub struct ThreadRevertResponse {
    pub thread: Thread,
    /// The cursor of `thread/turns/list` that starts at the last remaining turn, newest first; null if none is left.
    pub turns_backwards_cursor: Option<String>,
    /// The same for `thread/items/list` and the last remaining item.
    pub items_backwards_cursor: Option<String>,
}

/// Turns of a thread were removed by `thread/revert`. Sent to its subscribers.
#[wire]
pub struct ThreadRevertedNotification {
    pub thread_id: ThreadId,
}

/// Adds items to the model's history of a loaded thread. They are stored, but are not items of the thread. A running turn
/// sends one more request with them.
#[wire]
pub struct ThreadInjectItemsParams {
    pub thread_id: ThreadId,
    /// Items in the format of [`ResponseItem`](crate::ResponseItem); must not be empty. If one is invalid, none is added.
    pub items: Vec<Value>,
}

/// The items are added.
#[wire]
pub struct ThreadInjectItemsResponse {}

/// Reports that the client is asking the user something itself. Timeouts of the thread's commands are paused meanwhile.
#[wire]
pub struct ThreadIncrementElicitationParams {
    pub thread_id: ThreadId,
}

/// The number of open questions of the client.
#[wire]
pub struct ThreadIncrementElicitationResponse {
    pub count: u64,
    /// Whether timeouts are paused: true while `count` is above 0.
    pub paused: bool,
}

/// Reports that such a question has been answered. Rejected if none is open.
#[wire]
pub struct ThreadDecrementElicitationParams {
    pub thread_id: ThreadId,
}

/// The number of open questions of the client.
#[wire]
pub struct ThreadDecrementElicitationResponse {
    pub count: u64,
    /// Whether timeouts are paused: true while `count` is above 0.
    pub paused: bool,
}

/// A conversation between a user and an agent.
#[wire]
pub struct Thread {
    pub id: ThreadId,
    /// The id of the root thread in a tree of subagents; the thread's own id if it has no parent.
    #[omit]
    #[since("0.166", required)]
    pub session_id: Option<ThreadId>,
    /// The thread that this one is a copy of; null if it is none.
    #[since("0.166")]
    pub forked_from_id: Option<ThreadId>,
    /// The thread whose agent started this one; null if it is not a subagent.
    #[since("0.166")]
    pub parent_thread_id: Option<ThreadId>,
    /// Null: no project.
    #[since("0.166", required)]
    pub project_id: Option<String>,
    /// The section that the thread is in, and when it came there, in Unix seconds.
    #[since("0.166")]
    pub section: Option<ThreadSection>,
    #[since("0.166")]
    pub section_entered_at: Option<i64>,
    /// The environments of the thread; null if it is not loaded.
    #[since("0.166")]
    pub environments: Option<Vec<ThreadEnvironment>>,
    #[since("0.166")]
    pub history_mode: ThreadHistoryMode,
    /// The full text of the first user message; empty if there is none.
    pub preview: String,
    /// Whether the thread is kept in memory only and lost when it is unloaded.
    pub ephemeral: bool,
    pub model_provider: String,
    /// The model of the next turn.
    #[since("0.166")]
    pub model: Option<String>,
    /// Null: the model's default.
    #[since("0.166")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    pub updated_at: i64,
    /// Unix seconds. The same as `updatedAt`.
    #[since("0.166")]
    pub recency_at: Option<i64>,
    pub status: ThreadStatus,
    /// The file in which the thread is stored; null for an ephemeral thread.
    pub path: Option<String>,
    #[in_166(AbsolutePathBuf)]
    pub cwd: String,
    /// The version of the server that created the thread.
    pub cli_version: String,
    pub source: SessionSource,
    /// The name of the client that started the thread.
    #[since("0.166")]
    pub originator: Option<String>,
    /// The label that the client gave the thread when it started it.
    #[since("0.166")]
    #[in_166(Option<ThreadSource>)]
    pub thread_source: Option<String>,
    /// Whether clients may start turns; null if it is not known.
    #[since("0.166")]
    pub can_accept_direct_input: Option<bool>,
    #[since("0.166")]
    #[omit]
    pub daybreak_enabled: Option<bool>,
    /// Members that the server of the thread adds. This server adds none.
    #[since("0.166")]
    #[omit]
    pub extra: Option<ThreadExtra>,
    /// Set for subagents only, like `agentRole`.
    pub agent_nickname: Option<String>,
    pub agent_role: Option<String>,
    /// The repository state at the start of the thread; null before the first turn.
    pub git_info: Option<GitInfo>,
    /// The name set by `thread/name/set`.
    pub name: Option<String>,
    /// The turns, in the responses to `thread/resume`, `thread/fork`, `thread/rollback` and `thread/read` with `includeTurns`;
    /// empty everywhere else.
    pub turns: Vec<Turn>,
}

/// A label that a client gives a thread when it starts it.
#[wire]
pub struct ThreadSource(pub String);

/// Members that a server adds to a thread.
#[wire]
#[derive(Default)]
pub struct ThreadExtra {
    #[serde(flatten)]
    #[schemars(skip)]
    pub members: Map<String, Value>,
}

/// How clients read the history of a thread. Every thread can be read as a whole and page by page; the mode is kept for
/// clients.
#[wire(open)]
#[derive(Default, Eq)]
pub enum ThreadHistoryMode {
    Legacy,
    #[default]
    Paginated,
}

/// The state of a thread.
#[wire(open, tag = "type")]
pub enum ThreadStatus {
    /// The thread is stored and not in memory.
    NotLoaded,
    Idle,
    /// The thread is idle after an error.
    SystemError,
    /// A turn is running. The flags say what it waits for, if anything.
    Active {
        active_flags: Vec<ThreadActiveFlag>,
    },
}

/// Something that a running turn waits for.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadActiveFlag {
    /// A decision about a command, a file change, permissions or an MCP elicitation.
    WaitingOnApproval,
    /// Answers to questions of the agent.
    WaitingOnUserInput,
}

/// The origin of a thread.
#[wire(open)]
pub enum SessionSource {
    Cli,
    /// Every thread that was started through this protocol, whatever the client.
    Vscode,
    Exec,
    AppServer,
    Unknown,
    Custom(String),
    SubAgent(SubAgentSource),
}

/// The reason for which a subagent was started. Snake case on the wire.
#[wire(open, rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum SubAgentSource {
    Review,
    Compact,
    MemoryConsolidation,
    /// Spawned by the agent of another thread.
    ThreadSpawn {
        parent_thread_id: ThreadId,
        /// The depth in the tree of subagents: 1 for direct children of a thread that a user started.
        depth: i32,
        agent_path: Option<AgentPath>,
        agent_nickname: Option<String>,
        agent_role: Option<String>,
    },
    Other(String),
}

/// The path of names of an agent in the tree of agents.
#[wire]
pub struct AgentPath(pub String);

/// The commit, branch and remote of the repository that a thread works in.
#[wire]
#[derive(Default)]
pub struct GitInfo {
    pub sha: Option<String>,
    pub branch: Option<String>,
    pub origin_url: Option<String>,
}

/// Changes to the [`GitInfo`] of a thread. An absent member is kept, null clears it. At least one member is required, and
/// none may be blank.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadMetadataGitInfoUpdateParams {
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub sha: Patch<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub branch: Patch<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub origin_url: Patch<String>,
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

/// The result of `thread/unsubscribe`.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadUnsubscribeStatus {
    NotLoaded,
    NotSubscribed,
    Unsubscribed,
}

/// A thread was started. Sent to all connections; for a subagent, only to clients of later generations.
#[wire]
pub struct ThreadStartedNotification {
    pub thread: Thread,
}

/// The status of a thread changed. Sent to all connections.
#[wire]
pub struct ThreadStatusChangedNotification {
    pub thread_id: ThreadId,
    pub status: ThreadStatus,
}

/// A thread was archived. Sent to all connections.
#[wire]
pub struct ThreadArchivedNotification {
    pub thread_id: ThreadId,
}

/// A thread was restored from the archive. Sent to all connections.
#[wire]
pub struct ThreadUnarchivedNotification {
    pub thread_id: ThreadId,
}

/// A thread was unloaded because its last subscriber left.
#[wire]
pub struct ThreadClosedNotification {
    pub thread_id: ThreadId,
}

/// The name of a thread changed. Sent to all connections.
#[wire]
pub struct ThreadNameUpdatedNotification {
    pub thread_id: ThreadId,
    /// Absent if the name was removed.
    #[omit]
    pub thread_name: Option<String>,
}

/// The token usage of a thread, sent after each response of the model and after a rollback.
#[wire]
pub struct ThreadTokenUsageUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub token_usage: ThreadTokenUsage,
}

/// Tokens used by a thread. `last`, not `total`, shows how much of the model's context window is in use.
#[wire]
#[derive(Default, Eq)]
pub struct ThreadTokenUsage {
    /// The sum over all responses.
    pub total: TokenUsageBreakdown,
    /// The latest response.
    pub last: TokenUsageBreakdown,
    /// The usable size of the model's context window in tokens; null if it is not known.
    pub model_context_window: Option<i64>,
}

/// Tokens by kind, as the provider counts them.
#[wire]
#[derive(Default, Eq)]
pub struct TokenUsageBreakdown {
    pub total_tokens: i64,
    pub input_tokens: i64,
    /// Included in `input_tokens`.
    pub cached_input_tokens: i64,
    pub output_tokens: i64,
    /// Input tokens that the provider stored in its cache. Included in `input_tokens`.
    #[since("0.166")]
    pub cache_write_input_tokens: i64,
    /// Included in `output_tokens`.
    pub reasoning_output_tokens: i64,
}

/// Lists the background terminals of a thread. One page holds them all.
#[wire(sparse)]
pub struct ThreadBackgroundTerminalsListParams {
    pub thread_id: ThreadId,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// The commands that are still running after their tool calls, oldest first.
#[wire]
pub struct ThreadBackgroundTerminalsListResponse {
    pub data: Vec<ThreadBackgroundTerminal>,
    pub next_cursor: Option<String>,
}

/// A background terminal.
#[wire]
pub struct ThreadBackgroundTerminal {
    /// The `commandExecution` item of the command, which is still in progress.
    pub item_id: ItemId,
    pub process_id: String,
    pub command: String,
    pub cwd: String,
    /// Not measured: always null, like `cpuPercent` and `rssKb`.
    pub os_pid: Option<u32>,
    pub cpu_percent: Option<f64>,
    pub rss_kb: Option<u64>,
}

/// Terminates a background terminal.
#[wire]
pub struct ThreadBackgroundTerminalsTerminateParams {
    pub thread_id: ThreadId,
    pub process_id: String,
}

/// Whether the terminal was still running.
#[wire]
pub struct ThreadBackgroundTerminalsTerminateResponse {
    pub terminated: bool,
}

/// Deletes a thread and its subagents permanently.
#[wire]
pub struct ThreadDeleteParams {
    pub thread_id: ThreadId,
}

/// The thread is deleted; `thread/deleted` follows.
#[wire]
pub struct ThreadDeleteResponse {}

/// A thread was deleted. Sent to all connections.
#[wire]
pub struct ThreadDeletedNotification {
    pub thread_id: ThreadId,
}
