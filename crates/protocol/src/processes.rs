//! Processes of a client, outside threads and sandboxes: `process/*`. They are killed when the connection closes.

use std::collections::BTreeMap;

use crate::{AbsolutePathBuf, Patch, wire};

/// Starts a process.
#[wire(sparse)]
pub struct ProcessSpawnParams {
    /// The program and its arguments.
    pub command: Vec<String>,
    pub cwd: AbsolutePathBuf,
    /// The client's id of the process, which no other process of the connection has.
    pub process_handle: String,
    /// Changes to the environment of the server. Null removes a variable.
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// The maximum of output for each stream. Absent: 1 MiB. Null: no limit.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub output_bytes_cap: Patch<u64>,
    /// The size of the terminal.
    pub size: Option<ProcessTerminalSize>,
    /// Allows `process/writeStdin`.
    #[serde(default)]
    pub stream_stdin: bool,
    /// Sends output as `process/outputDelta` and not with `process/exited`.
    #[serde(default)]
    pub stream_stdout_stderr: bool,
    /// The time limit. Absent: 10 seconds. Null: no limit. A process that exceeds it has the exit code 124.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub timeout_ms: Patch<i64>,
    /// Runs the process in a terminal. Implies `streamStdin` and `streamStdoutStderr`.
    #[serde(default)]
    pub tty: bool,
}

/// The size of a terminal in characters.
#[wire]
pub struct ProcessTerminalSize {
    pub cols: u16,
    pub rows: u16,
}

/// The process has started.
#[wire]
#[derive(Default)]
pub struct ProcessSpawnResponse {}

/// Writes to the standard input of a process.
#[wire(sparse)]
pub struct ProcessWriteStdinParams {
    pub process_handle: String,
    /// Closes it afterwards.
    #[serde(default)]
    pub close_stdin: bool,
    pub delta_base64: Option<String>,
}

/// The bytes are written.
#[wire]
#[derive(Default)]
pub struct ProcessWriteStdinResponse {}

/// Kills a process.
#[wire]
pub struct ProcessKillParams {
    pub process_handle: String,
}

/// The process is killed; `process/exited` follows.
#[wire]
#[derive(Default)]
pub struct ProcessKillResponse {}

/// Resizes the terminal of a process.
#[wire]
pub struct ProcessResizePtyParams {
    pub process_handle: String,
    pub size: ProcessTerminalSize,
}

/// The terminal is resized.
#[wire]
#[derive(Default)]
pub struct ProcessResizePtyResponse {}

/// A stream of output.
#[wire(open)]
#[derive(Eq)]
pub enum ProcessOutputStream {
    Stdout,
    Stderr,
}

/// Output of a process.
#[wire]
pub struct ProcessOutputDeltaNotification {
    pub process_handle: String,
    pub stream: ProcessOutputStream,
    /// The raw bytes. A chunk can end within a character.
    pub delta_base64: String,
    /// Whether `outputBytesCap` is reached, so that no more output follows.
    pub cap_reached: bool,
}

/// A process ended.
#[wire]
pub struct ProcessExitedNotification {
    pub exit_code: i32,
    pub process_handle: String,
    pub stderr: String,
    pub stderr_cap_reached: bool,
    /// The captured output; empty if it was streamed.
    pub stdout: String,
    pub stdout_cap_reached: bool,
    /// Whether output was lost because something kept the stream open.
    pub output_drain_timed_out: Option<bool>,
}
