//! Threads, the conversations: their `thread/*` methods and notifications. What happens within one is in
//! `turns.rs` and `items.rs`, voice in `realtime.rs`.
//!
//! A thread is the same whether it is loaded or only stored; `status` tells. Most methods that take an id
//! work for both. A `Thread` has its turns only where they were asked for.

use serde_json::{Map, Value};

use crate::{
    ActivePermissionProfile, ApprovalsReviewer, AskForApproval, DynamicToolEntry, Patch, Personality,
    ReasoningEffort, ResponseItem, SandboxMode, SandboxPolicy, ServiceTier, ThreadId,
    ThreadResumeInitialTurnsPageParams, ThreadTurnsListResponse, Turn, TurnId, wire,
};

/// Opens a fresh thread and subscribes the caller to it. Whatever is left out comes from the configuration.
#[wire(sparse)]
#[derive(Default)]
pub struct ThreadStartParams {
    pub model: Option<String>,
    pub model_provider: Option<String>,
    /// Null overrides the configuration with the provider's ordinary tier.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    /// The server's own directory when left out; need not exist.
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(default, deserialize_with = "crate::policy::mode_or_policy")]
    pub sandbox: Option<SandboxMode>,
    /// A permission profile by its id, instead of a sandbox mode. Servers of the 0.118 generation know none.
    #[experimental("thread/start.permissions")]
    pub permissions: Option<String>,
    /// Any other settings, under their dotted keys.
    pub config: Option<Map<String, Value>>,
    /// A label for metrics.
    pub service_name: Option<String>,
    /// Replaces the instructions that come with the model.
    pub base_instructions: Option<String>,
    /// Added to them.
    pub developer_instructions: Option<String>,
    pub personality: Option<Personality>,
    /// Keep the thread in memory only.
    pub ephemeral: Option<bool>,
    /// Tools that the client runs itself, called by `item/tool/call`.
    #[experimental("thread/start.dynamicTools")]
    pub dynamic_tools: Option<Vec<DynamicToolEntry>>,
    /// Does nothing; there to try the gate.
    #[experimental("thread/start.mockExperimentalField")]
    pub mock_experimental_field: Option<String>,
    /// Send `rawResponseItem/completed` too.
    #[experimental("thread/start.experimentalRawEvents")]
    #[serde(default)]
    pub experimental_raw_events: bool,
    /// Store every kind of item. Servers of the 0.118 generation store only some without it.
    #[experimental("thread/start.persistFullHistory")]
    #[serde(default)]
    pub persist_extended_history: bool,
}

/// The new thread, and the settings that its first turn will have.
#[wire]
pub struct ThreadStartResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Set when the policy comes from a profile.
    #[omit]
    #[schemars(skip)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// Null for the model's own default.
    pub reasoning_effort: Option<ReasoningEffort>,
}

/// Loads a stored thread, or joins one that is loaded, and subscribes the caller to it.
///
/// The settings are those of [`ThreadStartParams`]. Model and effort default to what the thread used last,
/// unless either is given here. For a thread that is loaded already, settings are ignored.
#[wire(sparse)]
pub struct ThreadResumeParams {
    pub thread_id: ThreadId,
    /// Opens a new thread with this history instead of a stored one; must not be empty.
    #[experimental("thread/resume.history")]
    pub history: Option<Vec<ResponseItem>>,
    /// Opens the thread in this file instead of looking it up by id.
    #[experimental("thread/resume.path")]
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub path: Option<String>,
    pub model: Option<String>,
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(default, deserialize_with = "crate::policy::mode_or_policy")]
    pub sandbox: Option<SandboxMode>,
    /// A permission profile by its id, instead of a sandbox mode. Servers of the 0.118 generation know none.
    #[experimental("thread/resume.permissions")]
    pub permissions: Option<String>,
    pub config: Option<Map<String, Value>>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub personality: Option<Personality>,
    #[experimental("thread/resume.persistFullHistory")]
    #[serde(default)]
    pub persist_extended_history: bool,
    /// Answer without the turns, for clients that read them page by page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_turns: bool,
    /// Answer with a page of turns besides.
    #[schemars(skip)]
    pub initial_turns_page: Option<ThreadResumeInitialTurnsPageParams>,
}

impl ThreadResumeParams {
    /// A stored thread with the settings it had.
    pub fn new(thread_id: ThreadId) -> Self {
        Self {
            thread_id,
            history: None,
            path: None,
            model: None,
            model_provider: None,
            service_tier: Patch::Missing,
            cwd: None,
            approval_policy: None,
            approvals_reviewer: None,
            sandbox: None,
            config: None,
            base_instructions: None,
            developer_instructions: None,
            personality: None,
            persist_extended_history: false,
            permissions: None,
            exclude_turns: false,
            initial_turns_page: None,
        }
    }
}

/// The thread with its turns, and the settings that its next turn will have.
#[wire]
pub struct ThreadResumeResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Set when the policy comes from a profile.
    #[omit]
    #[schemars(skip)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Set when it was asked for.
    #[omit]
    #[schemars(skip)]
    pub initial_turns_page: Option<ThreadTurnsListResponse>,
}

/// Copies a thread's history into a new thread and subscribes the caller to that. A turn that is running
/// is copied as interrupted. The settings are those of [`ThreadStartParams`].
#[wire(sparse)]
pub struct ThreadForkParams {
    pub thread_id: ThreadId,
    /// Copies the thread in this file instead of looking it up by id.
    #[experimental("thread/fork.path")]
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub path: Option<String>,
    /// Copies up to this turn and including it, instead of everything.
    pub last_turn_id: Option<TurnId>,
    /// Copies up to this turn, without it.
    #[experimental("thread/fork.beforeTurnId")]
    pub before_turn_id: Option<TurnId>,
    pub model: Option<String>,
    pub model_provider: Option<String>,
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub service_tier: Patch<ServiceTier>,
    pub cwd: Option<String>,
    pub approval_policy: Option<AskForApproval>,
    pub approvals_reviewer: Option<ApprovalsReviewer>,
    #[serde(default, deserialize_with = "crate::policy::mode_or_policy")]
    pub sandbox: Option<SandboxMode>,
    /// A permission profile by its id, instead of a sandbox mode. Servers of the 0.118 generation know none.
    #[experimental("thread/fork.permissions")]
    pub permissions: Option<String>,
    pub config: Option<Map<String, Value>>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// Keep the copy in memory only.
    pub ephemeral: Option<bool>,
    #[experimental("thread/fork.persistFullHistory")]
    #[serde(default)]
    pub persist_extended_history: bool,
    /// Answer without the turns, for clients that read them page by page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclude_turns: bool,
}

impl ThreadForkParams {
    /// A copy of a thread with the configured settings.
    pub fn new(thread_id: ThreadId) -> Self {
        Self {
            thread_id,
            path: None,
            last_turn_id: None,
            before_turn_id: None,
            model: None,
            model_provider: None,
            service_tier: Patch::Missing,
            cwd: None,
            approval_policy: None,
            approvals_reviewer: None,
            sandbox: None,
            config: None,
            base_instructions: None,
            developer_instructions: None,
            ephemeral: None,
            persist_extended_history: false,
            permissions: None,
            exclude_turns: false,
        }
    }
}

/// The copy with its turns, which keep their ids, and the settings that its next turn will have.
#[wire]
pub struct ThreadForkResponse {
    pub thread: Thread,
    pub model: String,
    pub model_provider: String,
    pub service_tier: Option<ServiceTier>,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    pub approvals_reviewer: ApprovalsReviewer,
    pub sandbox: SandboxPolicy,
    /// Set when the policy comes from a profile.
    #[omit]
    #[schemars(skip)]
    pub active_permission_profile: Option<ActivePermissionProfile>,
    pub reasoning_effort: Option<ReasoningEffort>,
}

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

/// The client itself asks the person something; deadlines of the thread's tools pause meanwhile.
#[wire]
pub struct ThreadIncrementElicitationParams {
    pub thread_id: ThreadId,
}

/// The thread's count after the change.
#[wire]
pub struct ThreadIncrementElicitationResponse {
    pub count: u64,
    /// Whether deadlines pause, as they do above 0.
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
    /// Whether deadlines pause, as they do above 0.
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

/// The model finished a response, or a rollback changed what it sees, and this is what has been used.
#[wire]
pub struct ThreadTokenUsageUpdatedNotification {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub token_usage: ThreadTokenUsage,
}

/// Tokens used by a thread; how full the model is can be told from `last`, not from `total`.
#[wire]
pub struct ThreadTokenUsage {
    /// All responses together.
    pub total: TokenUsageBreakdown,
    /// The latest response.
    pub last: TokenUsageBreakdown,
    /// The part of the model's window that a thread may fill; null when the window is not known.
    pub model_context_window: Option<i64>,
}

/// Tokens by kind, as the provider counts them.
#[wire]
pub struct TokenUsageBreakdown {
    pub total_tokens: i64,
    pub input_tokens: i64,
    /// Contained in `input_tokens`.
    pub cached_input_tokens: i64,
    pub output_tokens: i64,
    /// Contained in `output_tokens`.
    pub reasoning_output_tokens: i64,
}
