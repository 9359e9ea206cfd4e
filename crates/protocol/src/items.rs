//! Items, the pieces of a turn: what people put in, what the agent said and did.
//!
//! What a person puts in is made of the parts in `input.rs`; how items are reported while they come about is in
//! `item_updates.rs`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{DynamicToolCallOutputContentItem, ItemId, ReasoningEffort, ThreadId, UserInput, wire};

/// One piece of a turn, as it is streamed, stored and read back.
#[wire(open, tag = "type")]
pub enum ThreadItem {
    /// Input of a turn, or input that steered it.
    UserMessage { id: ItemId, content: Vec<UserInput> },
    /// Text that hooks put into the conversation in the person's place.
    HookPrompt { id: ItemId, fragments: Vec<HookPromptFragment> },
    /// What the agent said to the person.
    AgentMessage {
        id: ItemId,
        /// Empty at the start; deltas bring it.
        text: String,
        /// Null when the model does not tell interim remarks from answers.
        phase: Option<MessagePhase>,
        memory_citation: Option<MemoryCitation>,
    },
    /// The plan proposed by a turn in plan mode, cut out of the agent's message.
    Plan { id: ItemId, text: String },
    /// What the model let be seen of its thinking.
    Reasoning {
        id: ItemId,
        /// One entry for each section of the summary.
        #[serde(default)]
        summary: Vec<String>,
        /// The raw text; empty unless the model gives it away and the configuration shows it.
        #[serde(default)]
        content: Vec<String>,
    },
    /// A command run by the agent, or by the person through `thread/shellCommand`.
    CommandExecution {
        id: ItemId,
        /// The whole argument list, quoted for a shell.
        command: String,
        cwd: String,
        /// The server's name for a session that can be typed into, not the system's process id.
        process_id: Option<String>,
        #[serde(default)]
        source: CommandExecutionSource,
        status: CommandExecutionStatus,
        command_actions: Vec<CommandAction>,
        /// Stdout and stderr as they came; null while running and when there was none.
        aggregated_output: Option<String>,
        exit_code: Option<i32>,
        duration_ms: Option<i64>,
    },
    /// Edits to files, shown before they are made.
    FileChange { id: ItemId, changes: Vec<FileUpdateChange>, status: PatchApplyStatus },
    /// A call of a tool on an MCP server.
    McpToolCall {
        id: ItemId,
        server: String,
        tool: String,
        status: McpToolCallStatus,
        arguments: Value,
        /// Also set when the tool itself reported failure; then `error` is null.
        result: Option<McpToolCallResult>,
        /// Why there is no result.
        error: Option<McpToolCallError>,
        duration_ms: Option<i64>,
    },
    /// A call of a tool that the client offered with `dynamicTools`.
    DynamicToolCall {
        id: ItemId,
        /// Where the tool is, if it is in a namespace.
        #[omit]
        namespace: Option<String>,
        tool: String,
        arguments: Value,
        status: DynamicToolCallStatus,
        /// The client's answer; null until then, as is `success`.
        content_items: Option<Vec<DynamicToolCallOutputContentItem>>,
        success: Option<bool>,
        duration_ms: Option<i64>,
    },
    /// The agent starting, addressing or ending other agents.
    CollabAgentToolCall {
        id: ItemId,
        tool: CollabAgentTool,
        status: CollabAgentToolCallStatus,
        sender_thread_id: ThreadId,
        /// Empty while an agent is being spawned: its thread has no id yet.
        receiver_thread_ids: Vec<ThreadId>,
        prompt: Option<String>,
        /// The spawned agent's model.
        model: Option<String>,
        reasoning_effort: Option<ReasoningEffort>,
        /// Last known states, by thread id.
        agents_states: BTreeMap<String, CollabAgentState>,
    },
    /// A search on the web, done by the provider.
    WebSearch {
        id: ItemId,
        /// For display: the query, address or pattern. Empty until the search is done.
        query: String,
        action: Option<WebSearchAction>,
    },
    /// The agent looked at an image file.
    ImageView { id: ItemId, path: String },
    /// An image made by the provider.
    ImageGeneration {
        id: ItemId,
        /// In the provider's words: `in_progress`, `completed`.
        status: String,
        /// What the provider made of the prompt.
        revised_prompt: Option<String>,
        /// The image in base64; empty until it is done.
        result: String,
        /// Where the server put a copy.
        #[omit]
        saved_path: Option<String>,
    },
    /// A review began; `review` is a short label of what is looked at.
    EnteredReviewMode { id: ItemId, review: String },
    /// A review ended; `review` is its whole text.
    ExitedReviewMode { id: ItemId, review: String },
    /// The history that the model sees was shortened here.
    ContextCompaction { id: ItemId },
}

impl ThreadItem {
    /// `None` for items of a kind that this version does not know.
    pub fn id(&self) -> Option<&ItemId> {
        match self {
            Self::UserMessage { id, .. }
            | Self::HookPrompt { id, .. }
            | Self::AgentMessage { id, .. }
            | Self::Plan { id, .. }
            | Self::Reasoning { id, .. }
            | Self::CommandExecution { id, .. }
            | Self::FileChange { id, .. }
            | Self::McpToolCall { id, .. }
            | Self::DynamicToolCall { id, .. }
            | Self::CollabAgentToolCall { id, .. }
            | Self::WebSearch { id, .. }
            | Self::ImageView { id, .. }
            | Self::ImageGeneration { id, .. }
            | Self::EnteredReviewMode { id, .. }
            | Self::ExitedReviewMode { id, .. }
            | Self::ContextCompaction { id, .. } => Some(id),
            Self::Unrecognized(_) => None,
        }
    }
}

/// The text of one hook within a [`ThreadItem::HookPrompt`].
#[wire]
pub struct HookPromptFragment {
    pub text: String,
    pub hook_run_id: String,
}

/// Whether an agent message is a remark on the way or the answer.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum MessagePhase {
    Commentary,
    FinalAnswer,
}

/// The memories that an agent message drew on.
#[wire]
pub struct MemoryCitation {
    pub entries: Vec<MemoryCitationEntry>,
    /// The threads that these memories come from.
    #[schemars(with = "Vec<String>")]
    pub thread_ids: Vec<ThreadId>,
}

/// Lines of a memory file, and what they were good for.
#[wire]
pub struct MemoryCitationEntry {
    pub path: String,
    pub line_start: u32,
    pub line_end: u32,
    pub note: String,
}

/// Who had a command run, and how.
#[wire(open)]
#[derive(Default, Eq)]
pub enum CommandExecutionSource {
    /// The agent, with a tool that waits for the end.
    #[default]
    Agent,
    /// The person, with `thread/shellCommand`.
    UserShell,
    /// The agent, opening a session that may outlive the turn.
    UnifiedExecStartup,
    /// The agent, typing into such a session.
    UnifiedExecInteraction,
}

/// How far a command has come.
#[wire(open)]
#[derive(Eq)]
pub enum CommandExecutionStatus {
    InProgress,
    Completed,
    /// It exited with another code than 0, was cut off, or the sandbox refused it.
    Failed,
    /// A person or a policy said no; nothing ran.
    Declined,
}

/// What a command seems to do, read from its text. For display only; never a ground to allow anything.
#[wire(open, tag = "type")]
pub enum CommandAction {
    Read {
        command: String,
        /// The last part of the path.
        name: String,
        /// As written in the command.
        path: String,
    },
    ListFiles {
        command: String,
        path: Option<String>,
    },
    Search {
        command: String,
        query: Option<String>,
        path: Option<String>,
    },
    Unknown {
        command: String,
    },
}

/// The change to one file; their order within an item means nothing.
#[wire]
pub struct FileUpdateChange {
    pub path: String,
    pub kind: PatchChangeKind,
    /// For a new file its content, for a deleted one what it held, otherwise unified hunks without
    /// file headers (and a line `Moved to: PATH` when it is renamed).
    pub diff: String,
}

/// What happens to a file. Unlike its surroundings, `move_path` is snake case on the wire.
#[wire(open, tag = "type", rename_all_fields = "snake_case")]
pub enum PatchChangeKind {
    Add,
    Delete,
    Update {
        /// The new place of a renamed file, absolute.
        move_path: Option<String>,
    },
}

/// How far a [`ThreadItem::FileChange`] has come.
#[wire(open)]
#[derive(Eq)]
pub enum PatchApplyStatus {
    InProgress,
    Completed,
    Failed,
    /// A person or a policy said no; no file was touched.
    Declined,
}

/// How far a [`ThreadItem::McpToolCall`] has come. A refused call counts as failed.
#[wire(open)]
#[derive(Eq)]
pub enum McpToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// What an MCP tool gave back, in MCP's own shapes.
#[wire]
pub struct McpToolCallResult {
    pub content: Vec<Value>,
    pub structured_content: Option<Value>,
}

/// Why a call did not reach an MCP tool or bring anything back.
#[wire]
pub struct McpToolCallError {
    pub message: String,
}

/// How far a [`ThreadItem::DynamicToolCall`] has come.
#[wire(open)]
#[derive(Eq)]
pub enum DynamicToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// What the agent does with other agents.
#[wire(open)]
#[derive(Eq)]
pub enum CollabAgentTool {
    SpawnAgent,
    SendInput,
    ResumeAgent,
    Wait,
    CloseAgent,
}

/// How far a [`ThreadItem::CollabAgentToolCall`] has come; the agents' own states are beside it.
#[wire(open)]
#[derive(Eq)]
pub enum CollabAgentToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// An agent as another agent last saw it.
#[wire]
pub struct CollabAgentState {
    pub status: CollabAgentStatus,
    /// Its last words, or what went wrong.
    pub message: Option<String>,
}

/// What became of a spawned agent.
#[wire(open)]
#[derive(Eq)]
pub enum CollabAgentStatus {
    /// Spawned, not running yet.
    PendingInit,
    Running,
    Interrupted,
    Completed,
    Errored,
    Shutdown,
    NotFound,
}

/// What a web search did; the same as `ResponsesApiWebSearchAction`, named in camel case.
#[wire(open, tag = "type")]
pub enum WebSearchAction {
    Search {
        query: Option<String>,
        /// Instead of `query`, when there were several.
        queries: Option<Vec<String>>,
    },
    OpenPage {
        url: Option<String>,
    },
    FindInPage {
        url: Option<String>,
        pattern: Option<String>,
    },
    /// Not known, or not known yet.
    Other,
}
