//! Threads, and the `thread/*` methods and notifications that manage them as a whole.
//!
//! Opening a thread is in `thread_opening.rs`, lists in `thread_list.rs`, paging in `thread_pages.rs`, settings in
//! `thread_settings.rs`, changes of the history in `thread_history.rs`, commands in `thread_commands.rs`, the work within a
//! thread in `turns.rs` and `items.rs`, voice in `realtime.rs`.
//!
//! A thread is loaded or only stored; `status` says which. Most methods that take an id work for both. A [`Thread`]
//! contains its turns only where that is documented.

use serde_json::{Map, Value};

use crate::{
    AbsolutePathBuf, Patch, ReasoningEffort, ThreadEnvironment, ThreadId, ThreadReadState, ThreadSection,
    Turn, wire,
};

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

/// The thread after the change, without its turns.
#[wire]
pub struct ThreadMetadataUpdateResponse {
    pub thread: Thread,
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

/// Archives a thread. A loaded thread is closed first, and its running turn is interrupted.
#[wire]
pub struct ThreadArchiveParams {
    pub thread_id: ThreadId,
}

/// The thread is archived; `thread/archived` follows.
#[wire]
#[derive(Default)]
pub struct ThreadArchiveResponse {}

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

/// Deletes a thread and its subagents permanently.
#[wire]
pub struct ThreadDeleteParams {
    pub thread_id: ThreadId,
}

/// The thread is deleted; `thread/deleted` follows.
#[wire]
pub struct ThreadDeleteResponse {}

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

/// A thread was deleted. Sent to all connections.
#[wire]
pub struct ThreadDeletedNotification {
    pub thread_id: ThreadId,
}
