//! Threads, the conversations: what one is, and the `thread/*` methods and notifications about it.
//!
//! How threads are opened is in `opening.rs`, what happens within one in `turns.rs` and `items.rs`, what it
//! used in `usage.rs`, voice in `realtime.rs`. A thread is the same whether it is loaded or only stored;
//! `status` tells. Most methods that take an id work for both. A `Thread` has its turns only where they were
//! asked for.

use crate::{Patch, ThreadId, Turn, wire};

/// Which page of the stored threads. Filters combine; threads without a user message are never listed.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadListParams {
    pub cursor: Option<String>,
    /// 25 when left out, at most 100; 0 counts as 1.
    pub limit: Option<u32>,
    pub sort_key: Option<ThreadSortKey>,
    /// Empty is the same as none: all providers.
    pub model_providers: Option<Vec<String>>,
    /// None or empty for what people started themselves: `cli` and `vscode`.
    pub source_kinds: Option<Vec<ThreadSourceKind>>,
    /// The archived threads only, or (when left out) the others only.
    pub archived: Option<bool>,
    /// Exactly this directory.
    pub cwd: Option<String>,
    /// Part of the name or the first user message, in the same case. The reference server does not
    /// search names.
    pub search_term: Option<String>,
}

/// One page of threads, newest first, without their turns.
#[wire]
pub struct ThreadListResponse {
    pub data: Vec<Thread>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// Which page of the threads in memory.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadLoadedListParams {
    pub cursor: Option<String>,
    /// Null for all.
    pub limit: Option<u32>,
}

/// One page of thread ids, sorted.
#[wire]
pub struct ThreadLoadedListResponse {
    pub data: Vec<ThreadId>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}

/// Looks at a thread without loading it or subscribing to it.
#[wire]
pub struct ThreadReadParams {
    pub thread_id: ThreadId,
    /// Refused for ephemeral threads.
    #[serde(default)]
    pub include_turns: bool,
}

/// The thread as it is now; a running turn is among its turns with the items so far.
#[wire]
pub struct ThreadReadResponse {
    pub thread: Thread,
}

/// Changes what is stored beside a thread, loaded or not.
#[wire(sparse)]
pub struct ThreadMetadataUpdateParams {
    pub thread_id: ThreadId,
    pub git_info: Option<ThreadMetadataGitInfoUpdateParams>,
}

/// The thread after the change, without its turns.
#[wire]
pub struct ThreadMetadataUpdateResponse {
    pub thread: Thread,
}

/// Puts a thread away. If it is loaded it is closed first, and a running turn ends as interrupted.
#[wire]
pub struct ThreadArchiveParams {
    pub thread_id: ThreadId,
}

/// The thread is archived; `thread/archived` follows.
#[wire]
#[derive(Default)]
pub struct ThreadArchiveResponse {}

/// Ends the caller's subscription. With the last one the thread is unloaded and a running turn ends.
#[wire]
pub struct ThreadUnsubscribeParams {
    pub thread_id: ThreadId,
}

/// What there was to end; an unknown thread is no error.
#[wire]
pub struct ThreadUnsubscribeResponse {
    pub status: ThreadUnsubscribeStatus,
}

/// Names a thread for people, loaded or not.
#[wire]
pub struct ThreadSetNameParams {
    pub thread_id: ThreadId,
    /// Trimmed, and then not empty; need not be unique.
    pub name: String,
}

/// The thread is named; `thread/name/updated` follows.
#[wire]
#[derive(Default)]
pub struct ThreadSetNameResponse {}

/// Takes an archived thread back, without loading it.
#[wire]
pub struct ThreadUnarchiveParams {
    pub thread_id: ThreadId,
}

/// The thread, stored where it was; `thread/unarchived` follows.
#[wire]
pub struct ThreadUnarchiveResponse {
    pub thread: Thread,
}

/// Has the history shortened that the model sees; what clients read stays whole.
#[wire]
pub struct ThreadCompactStartParams {
    pub thread_id: ThreadId,
}

/// The work begins, as a turn with one `contextCompaction` item.
#[wire]
#[derive(Default)]
pub struct ThreadCompactStartResponse {}

/// Runs a person's own command, outside the sandbox and without approval. The model gets to see the output.
#[wire]
pub struct ThreadShellCommandParams {
    pub thread_id: ThreadId,
    /// For the user's shell; not blank.
    pub command: String,
}

/// The command runs, within the running turn or in a turn of its own.
#[wire]
#[derive(Default)]
pub struct ThreadShellCommandResponse {}

/// Ends the commands that outlived their turns, which an interrupt leaves alone.
#[wire]
pub struct ThreadBackgroundTerminalsCleanParams {
    pub thread_id: ThreadId,
}

/// They are being ended; each one's item completes as failed.
#[wire]
#[derive(Default)]
pub struct ThreadBackgroundTerminalsCleanResponse {}

/// Drops the last turns for good. Files that they changed stay changed; refused while a turn runs.
#[wire]
pub struct ThreadRollbackParams {
    pub thread_id: ThreadId,
    /// At least 1; more than there are drops them all.
    pub num_turns: u32,
}

/// The thread with the turns that are left.
#[wire]
pub struct ThreadRollbackResponse {
    pub thread: Thread,
}

/// The client itself asks the person something; the time of the thread's commands stands still meanwhile.
#[wire]
pub struct ThreadIncrementElicitationParams {
    pub thread_id: ThreadId,
}

/// The thread's count after the change.
#[wire]
pub struct ThreadIncrementElicitationResponse {
    pub count: u64,
    /// Whether time stands still, as it does above 0.
    pub paused: bool,
}

/// The person answered such a question. Refused when none is open.
#[wire]
pub struct ThreadDecrementElicitationParams {
    pub thread_id: ThreadId,
}

/// The thread's count after the change.
#[wire]
pub struct ThreadDecrementElicitationResponse {
    pub count: u64,
    /// Whether time stands still, as it does above 0.
    pub paused: bool,
}

/// A conversation between a person and an agent.
#[wire]
pub struct Thread {
    pub id: ThreadId,
    /// The thread at the root of a tree of sub-agents; its own id for most. Servers of the 0.118
    /// generation do not send it, clients of later ones need it.
    #[omit]
    pub session_id: Option<ThreadId>,
    /// The text of the first user message, unshortened; empty before there is one.
    pub preview: String,
    /// In memory only: gone when unloaded.
    pub ephemeral: bool,
    pub model_provider: String,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    pub updated_at: i64,
    pub status: ThreadStatus,
    /// The file it is stored in; null for an ephemeral thread.
    pub path: Option<String>,
    pub cwd: String,
    /// Of the server that made the thread.
    pub cli_version: String,
    pub source: SessionSource,
    /// Set for spawned agents only, as is the role.
    pub agent_nickname: Option<String>,
    pub agent_role: Option<String>,
    /// As it was at the start of the thread; not known before the first turn.
    pub git_info: Option<GitInfo>,
    /// What `thread/name/set` gave it.
    pub name: Option<String>,
    /// Filled by `thread/resume`, `thread/fork`, `thread/rollback` and `thread/read` with `includeTurns`;
    /// empty everywhere else.
    pub turns: Vec<Turn>,
}

/// What a thread is doing.
#[wire(open, tag = "type")]
pub enum ThreadStatus {
    /// Only stored.
    NotLoaded,
    Idle,
    /// Idle, after a failure.
    SystemError,
    /// A turn is running; no flags means that it waits for nobody.
    Active {
        active_flags: Vec<ThreadActiveFlag>,
    },
}

/// What a running turn waits for.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadActiveFlag {
    /// A decision on a command, an edit, permissions or an MCP server's question.
    WaitingOnApproval,
    /// Answers to the agent's own questions.
    WaitingOnUserInput,
}

/// Where a thread came from.
#[wire(open)]
pub enum SessionSource {
    Cli,
    /// Also every thread started through this protocol, whatever the client.
    Vscode,
    Exec,
    AppServer,
    Unknown,
    Custom(String),
    SubAgent(SubAgentSource),
}

/// What an agent was started for by the server or by another agent. Snake case on the wire.
#[wire(open, rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum SubAgentSource {
    Review,
    Compact,
    MemoryConsolidation,
    /// Spawned by the agent of another thread.
    ThreadSpawn {
        parent_thread_id: ThreadId,
        /// 1 for the agents of a thread that a person started.
        depth: i32,
        agent_path: Option<AgentPath>,
        agent_nickname: Option<String>,
        agent_role: Option<String>,
    },
    Other(String),
}

/// The place of an agent in the tree of agents, by names.
#[wire]
pub struct AgentPath(pub String);

/// The commit, branch and remote that a thread works on.
#[wire]
#[derive(Default)]
pub struct GitInfo {
    pub sha: Option<String>,
    pub branch: Option<String>,
    pub origin_url: Option<String>,
}

/// Changes to a thread's [`GitInfo`]: a member left out stays as it is, null clears it. At least one
/// must be there, and none may be blank.
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

/// By which time threads are sorted, newest first; the time of creation when left out.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum ThreadSortKey {
    #[serde(alias = "section_position")]
    CreatedAt,
    #[serde(alias = "recency_at")]
    UpdatedAt,
}

/// A [`SessionSource`] to filter by.
#[wire]
#[derive(Copy, Eq)]
pub enum ThreadSourceKind {
    Cli,
    Vscode,
    Exec,
    AppServer,
    /// Sub-agents of every kind.
    SubAgent,
    SubAgentReview,
    SubAgentCompact,
    SubAgentThreadSpawn,
    SubAgentOther,
    Unknown,
}

/// What `thread/unsubscribe` found.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadUnsubscribeStatus {
    NotLoaded,
    NotSubscribed,
    Unsubscribed,
}

/// A thread was opened, by a client or as an agent. Every connection is told.
#[wire]
pub struct ThreadStartedNotification {
    pub thread: Thread,
}

/// A thread that clients know of changed its status. Every connection is told.
#[wire]
pub struct ThreadStatusChangedNotification {
    pub thread_id: ThreadId,
    pub status: ThreadStatus,
}

/// A thread was put away. Every connection is told.
#[wire]
pub struct ThreadArchivedNotification {
    pub thread_id: ThreadId,
}

/// An archived thread was taken back. Every connection is told.
#[wire]
pub struct ThreadUnarchivedNotification {
    pub thread_id: ThreadId,
}

/// A thread was unloaded because its last subscriber left.
#[wire]
pub struct ThreadClosedNotification {
    pub thread_id: ThreadId,
}

/// A thread got a name. Every connection is told.
#[wire]
pub struct ThreadNameUpdatedNotification {
    pub thread_id: ThreadId,
    /// Left out when the name was taken away.
    #[omit]
    pub thread_name: Option<String>,
}
