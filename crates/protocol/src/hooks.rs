//! Programs of the user's that run at set points of a turn, told by `hook/started` and `hook/completed`.
//! Both carry the whole run. A hook that breaks has no effect on the turn.

use crate::{ThreadId, TurnId, wire};

/// One run of one hook: why it runs, where it was declared, and how it went.
#[wire]
pub struct HookRunSummary {
    /// The same in both notifications of the run.
    pub id: String,
    pub event_name: HookEventName,
    pub handler_type: HookHandlerType,
    pub execution_mode: HookExecutionMode,
    pub scope: HookScope,
    /// The file that declares the hook.
    pub source_path: String,
    /// Its place among the hooks that are declared.
    pub display_order: i64,
    pub status: HookRunStatus,
    /// What to show while it runs, from its declaration.
    pub status_message: Option<String>,
    /// Unix seconds.
    pub started_at: i64,
    /// Unix seconds; null while it runs, as is the duration.
    pub completed_at: Option<i64>,
    pub duration_ms: Option<i64>,
    /// What came of it, empty while it runs.
    pub entries: Vec<HookOutputEntry>,
}

/// The points at which hooks run.
#[wire(open)]
#[derive(Eq)]
pub enum HookEventName {
    /// Before a tool runs, and able to keep it from running.
    PreToolUse,
    PostToolUse,
    /// At a thread's first turn, not when the thread starts.
    SessionStart,
    /// Before the model sees what the user said, and able to keep it back.
    UserPromptSubmit,
    /// When the agent is about to end its turn.
    Stop,
}

/// What a hook is made of.
#[wire(open)]
#[derive(Eq)]
pub enum HookHandlerType {
    Command,
    Prompt,
    Agent,
}

/// Whether the turn waits for the hook.
#[wire(open)]
#[derive(Eq)]
pub enum HookExecutionMode {
    Sync,
    Async,
}

/// What a run belongs to.
#[wire(open)]
#[derive(Eq)]
pub enum HookScope {
    /// It happens once for the thread, even though a turn sets it off.
    Thread,
    Turn,
}

/// How a run stands.
#[wire(open)]
#[derive(Eq)]
pub enum HookRunStatus {
    Running,
    Completed,
    /// It broke, which has no further effect.
    Failed,
    /// It forbade what it was asked about.
    Blocked,
    /// It asked for the work to end.
    Stopped,
}

/// One thing that a hook had to say.
#[wire]
pub struct HookOutputEntry {
    pub kind: HookOutputEntryKind,
    pub text: String,
}

/// To whom it is said, and to what end.
#[wire(open)]
#[derive(Eq)]
pub enum HookOutputEntryKind {
    Warning,
    /// Why the work should end.
    Stop,
    /// Why something was blocked; the model is told.
    Feedback,
    /// Something for the model to know.
    Context,
    /// What went wrong with the hook itself.
    Error,
}

/// A hook began to run.
#[wire]
pub struct HookStartedNotification {
    pub thread_id: ThreadId,
    /// Null outside any turn.
    pub turn_id: Option<TurnId>,
    pub run: HookRunSummary,
}

/// A hook has run, well or not.
#[wire]
pub struct HookCompletedNotification {
    pub thread_id: ThreadId,
    /// Null outside any turn.
    pub turn_id: Option<TurnId>,
    pub run: HookRunSummary,
}
