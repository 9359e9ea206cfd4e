//! Hooks, programs of the user that run at certain points of a turn: `hook/started`, `hook/completed` and `hooks/list`.
//!
//! Both notifications carry the complete run. A hook that fails has no effect on the turn.

use serde_json::{Map, Value};

use crate::{AbsolutePathBuf, LegacyAppPathString, ThreadId, TurnId, wire};

/// One run of a hook: its event, its declaration and its result.
#[wire]
pub struct HookRunSummary {
    /// The id of the run, the same in both notifications.
    pub id: String,
    pub event_name: HookEventName,
    pub handler_type: HookHandlerType,
    pub execution_mode: HookExecutionMode,
    pub scope: HookScope,
    /// The layer that declares the hook.
    #[since("0.166")]
    pub source: HookSource,
    /// The file that declares the hook.
    #[in_166(LegacyAppPathString)]
    pub source_path: String,
    /// Its position among the declared hooks.
    pub display_order: i64,
    pub status: HookRunStatus,
    /// The message to show while it runs, from its declaration.
    pub status_message: Option<String>,
    /// Unix seconds.
    pub started_at: i64,
    /// Unix seconds; null while it runs, like the duration.
    pub completed_at: Option<i64>,
    pub duration_ms: Option<i64>,
    /// The output; empty while it runs.
    pub entries: Vec<HookOutputEntry>,
}

/// The events at which hooks run.
#[wire(open)]
#[derive(Eq)]
pub enum HookEventName {
    /// Before a tool runs. The hook can block it.
    PreToolUse,
    PostToolUse,
    /// At the first turn of a thread.
    SessionStart,
    /// Before the model receives user input. The hook can reject it.
    UserPromptSubmit,
    /// Before the agent ends its turn.
    Stop,
    /// Never run, like the events below.
    #[since("0.166")]
    PermissionRequest,
    #[since("0.166")]
    PreCompact,
    #[since("0.166")]
    PostCompact,
    #[since("0.166")]
    PreModelRequest,
    #[since("0.166")]
    PostModelRequest,
    #[since("0.166")]
    SessionEnd,
    #[since("0.166")]
    SubagentStart,
    #[since("0.166")]
    SubagentStop,
    #[since("0.166")]
    Interrupt,
}

/// The implementation of a hook.
#[wire(open)]
#[derive(Eq)]
pub enum HookHandlerType {
    Command,
    Prompt,
    Agent,
    #[since("0.166")]
    McpTool,
}

/// Whether the turn waits for the hook.
#[wire(open)]
#[derive(Eq)]
pub enum HookExecutionMode {
    Sync,
    Async,
}

/// The scope of a run.
#[wire(open)]
#[derive(Eq)]
pub enum HookScope {
    /// The hook runs once per thread, although a turn triggers it.
    Thread,
    Turn,
}

/// The state of a run.
#[wire(open)]
#[derive(Eq)]
pub enum HookRunStatus {
    Running,
    Completed,
    /// The hook failed, which has no further effect.
    Failed,
    /// The hook blocked the action.
    Blocked,
    /// The hook requested the end of the turn.
    Stopped,
}

/// One entry of the output of a hook.
#[wire]
pub struct HookOutputEntry {
    pub kind: HookOutputEntryKind,
    pub text: String,
}

/// The purpose of an output entry.
#[wire(open)]
#[derive(Eq)]
pub enum HookOutputEntryKind {
    Warning,
    /// The reason for ending the turn.
    Stop,
    /// The reason for blocking an action. Passed to the model.
    Feedback,
    /// Additional context for the model.
    Context,
    /// An error of the hook itself.
    Error,
}

/// A hook started.
#[wire]
pub struct HookStartedNotification {
    pub thread_id: ThreadId,
    /// Null outside a turn.
    pub turn_id: Option<TurnId>,
    pub run: HookRunSummary,
}

/// A hook ended.
#[wire]
pub struct HookCompletedNotification {
    pub thread_id: ThreadId,
    /// Null outside a turn.
    pub turn_id: Option<TurnId>,
    pub run: HookRunSummary,
}

/// Lists the hooks of directories or of the working directory of a thread.
#[wire(sparse)]
pub struct HooksListParams {
    #[serde(default)]
    pub cwds: Vec<String>,
    pub thread_id: Option<ThreadId>,
}

/// The hooks by directory.
#[wire]
pub struct HooksListResponse {
    pub data: Vec<HooksListEntry>,
}

/// The hooks that apply to turns in a directory.
#[wire]
pub struct HooksListEntry {
    pub cwd: String,
    pub hooks: Vec<HookMetadata>,
    /// Problems with declarations that cannot be used.
    pub warnings: Vec<String>,
    #[in_166(Vec<HookErrorInfo>)]
    pub errors: Vec<Value>,
}

/// The declaration of a hook.
#[wire]
pub struct HookMetadata {
    /// A unique key: the file and the position in it.
    pub key: String,
    pub event_name: HookEventName,
    #[serde(flatten)]
    pub handler: HookHandler,
    pub matcher: Option<String>,
    pub timeout_sec: u64,
    pub status_message: Option<String>,
    pub additional_context_limit: Option<u64>,
    pub source_path: AbsolutePathBuf,
    /// `user` or `project`.
    pub source: HookSource,
    pub plugin_id: Option<String>,
    pub environment_id: Option<String>,
    pub display_order: i64,
    pub enabled: bool,
    pub is_managed: bool,
    /// A hash that changes with the executed command.
    pub current_hash: String,
    /// Always `trusted`: hooks of projects that are not trusted are not read.
    pub trust_status: HookTrustStatus,
}

/// What a hook runs. This server runs commands only.
#[wire(open, tag = "handlerType")]
pub enum HookHandler {
    Command {
        command: String,
        #[serde(default, rename = "async")]
        is_async: bool,
    },
    McpTool {
        server: String,
        tool: String,
    },
    Prompt,
    Agent,
}

/// The layer that declares a hook.
#[wire(open)]
#[derive(Default, Eq)]
pub enum HookSource {
    System,
    User,
    Project,
    Mdm,
    SessionFlags,
    Plugin,
    CloudRequirements,
    CloudManagedConfig,
    LegacyManagedConfigFile,
    LegacyManagedConfigMdm,
    #[default]
    Unknown,
}

/// Whether a hook may run.
#[wire(open)]
#[derive(Eq)]
pub enum HookTrustStatus {
    Managed,
    Untrusted,
    Trusted,
    Modified,
}

/// A declaration that cannot be read.
#[wire]
pub struct HookErrorInfo {
    pub message: String,
    pub path: String,
}

/// Hooks with a common matcher.
#[wire]
pub struct ConfiguredHookMatcherGroup {
    pub hooks: Vec<ConfiguredHookHandler>,
    pub matcher: Option<String>,
}

/// A hook as it is declared.
#[wire(open, tag = "type", rename_all = "snake_case")]
pub enum ConfiguredHookHandler {
    Command {
        #[serde(rename = "async")]
        is_async: bool,
        command: String,
        additional_context_limit: Option<u64>,
        command_windows: Option<String>,
        status_message: Option<String>,
        timeout_sec: Option<u64>,
    },
    McpTool {
        input: Map<String, Value>,
        server: String,
        tool: String,
        status_message: Option<String>,
        timeout_sec: Option<u64>,
    },
    Prompt,
    Agent,
}
