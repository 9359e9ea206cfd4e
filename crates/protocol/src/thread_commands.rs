//! Commands of a thread outside its turns: `thread/shellCommand`, background terminals, and pausing the timeouts of
//! commands while the client asks the user something.

use crate::{ItemId, ThreadId, wire};

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
