//! Items, the parts of a turn: user input, agent messages and tool calls.
//!
//! The parts of user input are in `input.rs`, the notifications about items in `item_updates.rs`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    AbsolutePathBuf, DynamicToolCallOutputContentItem, FunctionCallOutputBody, ItemId, LegacyAppPathString,
    ReasoningEffort, ThreadId, UserInput, wire,
};

/// A part of a turn, as it is streamed, stored and read.
#[wire(open, tag = "type", later_members = "ThreadItemTimes")]
pub enum ThreadItem {
    /// User input that started or steered the turn.
    UserMessage {
        id: ItemId,
        content: Vec<UserInput>,
        /// The client's own id of the message: `clientUserMessageId` of `turn/start` and `turn/steer`.
        #[since("0.166")]
        client_id: Option<String>,
    },
    /// The output of a tool that the client ran without a call of the model: `toolOutput` of `turn/start`.
    #[since("0.166")]
    FunctionCallOutput { id: ItemId, name: String, namespace: Option<String>, output: FunctionCallOutputBody },
    /// Text that hooks added as user input.
    HookPrompt { id: ItemId, fragments: Vec<HookPromptFragment> },
    /// A message of the agent to the user.
    AgentMessage {
        id: ItemId,
        /// Empty when the item starts; extended by deltas.
        text: String,
        /// Null if the model does not distinguish commentary from answers.
        phase: Option<MessagePhase>,
        memory_citation: Option<MemoryCitation>,
        /// Null: delivered as part of the turn.
        #[since("0.166")]
        delivery: Option<AgentMessageDelivery>,
        /// Questions that the user can answer later, while the turn goes on.
        #[since("0.166")]
        questions: Option<Vec<AsyncUserInputQuestion>>,
    },
    /// The plan that a turn in plan mode proposes, extracted from the agent's message.
    Plan { id: ItemId, text: String },
    /// Reasoning of the model.
    Reasoning {
        id: ItemId,
        /// The sections of the summary.
        #[serde(default)]
        summary: Vec<String>,
        /// The raw reasoning. Empty unless the model returns it and the configuration shows it.
        #[serde(default)]
        content: Vec<String>,
    },
    /// A command run by the agent, or by the user with `thread/shellCommand`.
    CommandExecution {
        id: ItemId,
        /// The plugin whose script the command runs.
        #[since("0.166")]
        plugin_id: Option<String>,
        #[since("0.166")]
        script_path: Option<String>,
        /// The argument list, quoted for a shell.
        command: String,
        #[in_166(LegacyAppPathString)]
        cwd: String,
        /// The server's id of an interactive session; not an operating system process id.
        process_id: Option<String>,
        #[serde(default)]
        source: CommandExecutionSource,
        status: CommandExecutionStatus,
        command_actions: Vec<CommandAction>,
        /// Stdout and stderr in the order of arrival; null while running and if there was no output.
        aggregated_output: Option<String>,
        exit_code: Option<i32>,
        duration_ms: Option<i64>,
    },
    /// File changes. The item starts before they are applied.
    FileChange { id: ItemId, changes: Vec<FileUpdateChange>, status: PatchApplyStatus },
    /// A call of a tool on an MCP server.
    McpToolCall {
        id: ItemId,
        server: String,
        tool: String,
        status: McpToolCallStatus,
        arguments: Value,
        /// The app that offers the tool.
        #[since("0.166")]
        app_context: Option<McpToolCallAppContext>,
        /// The resource with which a client can display the result.
        #[since("0.166")]
        mcp_app_resource_uri: Option<String>,
        #[since("0.166")]
        mcp_app_ui: Option<McpAppUi>,
        /// The plugin that declares the server.
        #[since("0.166")]
        plugin_id: Option<String>,
        /// The server's claim that the tool changes nothing.
        #[since("0.166")]
        read_only_hint: Option<bool>,
        /// The result of the tool. Also set if the tool reported a failure; `error` is null then.
        result: Option<McpToolCallResult>,
        /// The reason why there is no result.
        error: Option<McpToolCallError>,
        duration_ms: Option<i64>,
    },
    /// A call of a tool that the client offered with `dynamicTools`.
    DynamicToolCall {
        id: ItemId,
        /// The tool's namespace, if it has one.
        #[omit]
        namespace: Option<String>,
        tool: String,
        arguments: Value,
        status: DynamicToolCallStatus,
        /// The client's response; null before, like `success`.
        content_items: Option<Vec<DynamicToolCallOutputContentItem>>,
        success: Option<bool>,
        duration_ms: Option<i64>,
    },
    /// The agent starts, messages or ends other agents.
    CollabAgentToolCall {
        id: ItemId,
        tool: CollabAgentTool,
        status: CollabAgentToolCallStatus,
        sender_thread_id: ThreadId,
        /// Empty while an agent is being spawned, because its thread has no id yet.
        receiver_thread_ids: Vec<ThreadId>,
        prompt: Option<String>,
        /// The spawned agent's model.
        model: Option<String>,
        reasoning_effort: Option<ReasoningEffort>,
        /// The last known states, by thread id.
        agents_states: BTreeMap<String, CollabAgentState>,
    },
    /// An agent that this agent started changed its state.
    #[since("0.166")]
    SubAgentActivity {
        id: ItemId,
        kind: SubAgentActivityKind,
        agent_thread_id: ThreadId,
        /// The agent's path of names in the tree of agents.
        agent_path: String,
        model: Option<String>,
        reasoning_effort: Option<ReasoningEffort>,
    },
    /// The agent waits.
    #[since("0.166")]
    Sleep { id: ItemId, duration_ms: u64 },
    /// A web search by the provider.
    WebSearch {
        id: ItemId,
        /// The query, URL or pattern, for display. Empty until the search is complete.
        query: String,
        action: Option<WebSearchAction>,
        /// The results, in the provider's format.
        #[since("0.166")]
        results: Option<Vec<Value>>,
    },
    /// The agent viewed an image file.
    ImageView {
        id: ItemId,
        #[in_166(LegacyAppPathString)]
        path: String,
    },
    /// An image generated by the provider.
    ImageGeneration {
        id: ItemId,
        /// The provider's status, such as `in_progress` or `completed`.
        status: String,
        /// The prompt as revised by the provider.
        revised_prompt: Option<String>,
        /// The image in base64; empty until it is complete.
        result: String,
        /// The path of a copy that the server saved.
        #[omit]
        #[in_166(Option<AbsolutePathBuf>)]
        saved_path: Option<String>,
        #[since("0.166")]
        failure: Option<ImageGenerationFailure>,
        #[since("0.166")]
        generation_id: Option<String>,
        /// The images that the request was based on.
        #[since("0.166")]
        input_images: Vec<ImageGenerationInputImage>,
        #[since("0.166")]
        transparent_background: Option<bool>,
    },
    /// A review started. `review` is a short label of its target.
    EnteredReviewMode { id: ItemId, review: String },
    /// A review ended. `review` is its full text.
    ExitedReviewMode { id: ItemId, review: String },
    /// The model's history was compacted at this point.
    ContextCompaction { id: ItemId },
}

impl ThreadItem {
    /// Returns the id of the item; `None` for kinds that this version does not know.
    pub fn id(&self) -> Option<&ItemId> {
        match self {
            Self::UserMessage { id, .. }
            | Self::FunctionCallOutput { id, .. }
            | Self::HookPrompt { id, .. }
            | Self::AgentMessage { id, .. }
            | Self::Plan { id, .. }
            | Self::Reasoning { id, .. }
            | Self::CommandExecution { id, .. }
            | Self::FileChange { id, .. }
            | Self::McpToolCall { id, .. }
            | Self::DynamicToolCall { id, .. }
            | Self::CollabAgentToolCall { id, .. }
            | Self::SubAgentActivity { id, .. }
            | Self::Sleep { id, .. }
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

/// The times of an item, in Unix milliseconds. This server sends them beside the item: `startedAtMs` and `completedAtMs`
/// of its notifications and list entries.
#[wire]
pub struct ThreadItemTimes {
    pub started_at_ms: Option<i64>,
    pub completed_at_ms: Option<i64>,
}

/// The text of one hook within a [`ThreadItem::HookPrompt`].
#[wire]
pub struct HookPromptFragment {
    pub text: String,
    pub hook_run_id: String,
}

/// Whether an agent message is commentary or the final answer.
#[wire(open, rename_all = "snake_case")]
#[derive(Eq)]
pub enum MessagePhase {
    Commentary,
    #[since("0.166")]
    PartialAnswer,
    FinalAnswer,
}

/// The way in which an agent message reaches the user.
#[wire(open)]
#[derive(Eq)]
pub enum AgentMessageDelivery {
    /// Apart from the turn that is running.
    Async,
}

/// A question in an agent message for which the turn does not wait.
#[wire]
pub struct AsyncUserInputQuestion {
    pub title: String,
    /// The answers to choose from; null: any text.
    pub options: Option<Vec<String>>,
}

/// The memories that an agent message is based on.
#[wire]
pub struct MemoryCitation {
    pub entries: Vec<MemoryCitationEntry>,
    /// The threads from which the memories originate.
    #[schemars(with = "Vec<String>")]
    pub thread_ids: Vec<ThreadId>,
}

/// A range of lines in a memory file, with a note on its use.
#[wire]
pub struct MemoryCitationEntry {
    pub path: String,
    pub line_start: u32,
    pub line_end: u32,
    pub note: String,
}

/// The initiator of a command.
#[wire(open)]
#[derive(Default, Eq)]
pub enum CommandExecutionSource {
    /// The agent, with a tool that waits for the command.
    #[default]
    Agent,
    /// The user, with `thread/shellCommand`.
    UserShell,
    /// The agent, starting a session that can outlive the turn.
    UnifiedExecStartup,
    /// The agent, writing to such a session.
    UnifiedExecInteraction,
}

/// The state of a command.
#[wire(open)]
#[derive(Eq)]
pub enum CommandExecutionStatus {
    InProgress,
    Completed,
    /// The command exited with a code other than 0, was terminated, or was blocked by the sandbox.
    Failed,
    /// A user or a policy declined the command; it did not run.
    Declined,
}

/// What a command appears to do, parsed from its text. For display only; must not be used for decisions.
#[wire(open, tag = "type")]
pub enum CommandAction {
    Read {
        command: String,
        /// The file name.
        name: String,
        /// The path as written in the command.
        #[in_166(LegacyAppPathString)]
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

/// The change to one file. The order of changes within an item has no meaning.
#[wire]
pub struct FileUpdateChange {
    pub path: String,
    pub kind: PatchChangeKind,
    /// The content of a new or deleted file; otherwise unified hunks without file headers, and a line `Moved to: PATH` for
    /// a renamed file.
    pub diff: String,
}

/// The kind of a file change. `move_path` is snake case on the wire.
#[wire(open, tag = "type", rename_all_fields = "snake_case")]
pub enum PatchChangeKind {
    Add,
    Delete,
    Update {
        /// The absolute new path of a renamed file.
        move_path: Option<String>,
    },
}

/// The state of a [`ThreadItem::FileChange`].
#[wire(open)]
#[derive(Eq)]
pub enum PatchApplyStatus {
    InProgress,
    Completed,
    Failed,
    /// A user or a policy declined the changes; no file was modified.
    Declined,
}

/// The state of a [`ThreadItem::McpToolCall`]. A declined call counts as failed.
#[wire(open)]
#[derive(Eq)]
pub enum McpToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// The result of an MCP tool, in MCP's format.
#[wire]
pub struct McpToolCallResult {
    pub content: Vec<Value>,
    pub structured_content: Option<Value>,
    #[serde(rename = "_meta")]
    #[since("0.166")]
    pub meta: Option<Value>,
}

/// The app (connector) whose tool is called.
#[wire]
pub struct McpToolCallAppContext {
    pub connector_id: String,
    pub app_name: Option<String>,
    pub action_name: Option<String>,
    pub link_id: Option<String>,
    pub resource_uri: Option<String>,
}

/// A user interface that an MCP server offers for the result of a tool.
#[wire]
pub struct McpAppUi {
    pub resource_uri: String,
    pub preferred_model_display_mode: McpAppDisplayMode,
}

/// Where a client shows the user interface of an MCP server.
#[wire(open)]
#[derive(Eq)]
pub enum McpAppDisplayMode {
    Inline,
    Fullscreen,
}

/// The reason why an MCP tool call has no result.
#[wire]
pub struct McpToolCallError {
    pub message: String,
}

/// The state of a [`ThreadItem::DynamicToolCall`].
#[wire(open)]
#[derive(Eq)]
pub enum DynamicToolCallStatus {
    InProgress,
    Completed,
    Failed,
}

/// The tools with which an agent controls other agents.
#[wire(open)]
#[derive(Eq)]
pub enum CollabAgentTool {
    SpawnAgent,
    SendInput,
    ResumeAgent,
    Wait,
    CloseAgent,
    #[since("0.166")]
    SendMessage,
    #[since("0.166")]
    FollowupTask,
    #[since("0.166")]
    InterruptAgent,
    #[since("0.166")]
    ListAgents,
}

/// The state of a [`ThreadItem::CollabAgentToolCall`], not of the agents.
#[wire(open)]
#[derive(Eq)]
pub enum CollabAgentToolCallStatus {
    InProgress,
    Completed,
    Failed,
    #[since("0.166")]
    Interrupted,
}

/// The last known state of an agent.
#[wire]
pub struct CollabAgentState {
    pub status: CollabAgentStatus,
    /// The agent's last message, or the error.
    pub message: Option<String>,
}

/// The status of a spawned agent.
#[wire(open)]
#[derive(Eq)]
pub enum CollabAgentStatus {
    /// Spawned and not yet running.
    PendingInit,
    Running,
    Interrupted,
    Completed,
    Errored,
    Shutdown,
    NotFound,
}

/// What a subagent did, in [`ThreadItem::SubAgentActivity`].
#[wire(open)]
#[derive(Eq)]
pub enum SubAgentActivityKind {
    Started,
    Interacted,
    Interrupted,
    Completed,
}

/// The reason why an image was not generated.
#[wire(open, tag = "type")]
pub enum ImageGenerationFailure {
    UsageLimitExceeded {
        limit_id: String,
        /// Unix seconds.
        resets_at: Option<i64>,
    },
}

/// An image that a generated image is based on.
#[wire]
pub struct ImageGenerationInputImage {
    pub path: AbsolutePathBuf,
    pub sha256: String,
}

/// The action of a web search: `ResponsesApiWebSearchAction` in camel case.
#[wire(open, tag = "type")]
pub enum WebSearchAction {
    Search {
        query: Option<String>,
        /// Used instead of `query` if there were several.
        queries: Option<Vec<String>>,
    },
    OpenPage {
        url: Option<String>,
    },
    FindInPage {
        url: Option<String>,
        pattern: Option<String>,
    },
    /// The action is not known.
    Other,
}
