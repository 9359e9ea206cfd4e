//! Commands outside any thread: `command/exec` and the methods that control a running one.
//!
//! The response to `command/exec` is sent when the process has ended and all its output has been sent. A process and its id
//! belong to the connection; the process is killed when the connection closes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::{SandboxPolicy, wire};

/// Runs a command in the server's sandbox.
#[wire(sparse)]
pub struct CommandExecParams {
    /// The program and its arguments, not interpreted by a shell. Must not be empty.
    pub command: Vec<String>,
    /// An id chosen by the client. Required for streaming, writing and terminating. Can be reused when the process has
    /// ended.
    pub process_id: Option<String>,
    /// Runs the command in a terminal. Implies both kinds of streaming.
    pub tty: Option<bool>,
    /// The initial size of the terminal; only with `tty`.
    pub size: Option<CommandExecTerminalSize>,
    /// Allows `command/exec/write`.
    pub stream_stdin: Option<bool>,
    /// Sends output as notifications instead of in the response.
    pub stream_stdout_stderr: Option<bool>,
    /// The working directory. Defaults to the server's own.
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub cwd: Option<String>,
    /// Changes to the default environment; null removes a variable.
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// Defaults to the configured policy.
    pub sandbox_policy: Option<SandboxPolicy>,
    /// The id of a permission profile, as an alternative to `sandboxPolicy`.
    #[experimental("command/exec.permissionProfile")]
    #[since("0.166")]
    pub permission_profile: Option<String>,
    /// The timeout. Defaults to 10 seconds. A process that times out has the exit code 124.
    pub timeout_ms: Option<i64>,
    /// Disables the timeout. Cannot be combined with `timeoutMs`.
    pub disable_timeout: Option<bool>,
    /// The limit for each of the two output streams. Defaults to 1 MiB. Further output is dropped.
    #[serde(default, deserialize_with = "size")]
    pub output_bytes_cap: Option<u64>,
    /// Disables the limit. Cannot be combined with `outputBytesCap`.
    pub disable_output_cap: Option<bool>,
}

/// Reads a number of bytes. Decodes it as `usize`, so that errors have the reference server's text.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<usize>::deserialize(from)?.map(|size| size as u64))
}

/// The result of a command. An exit code other than 0 is not an error.
#[wire]
pub struct CommandExecResponse {
    /// 124 after a timeout, 137 if killed (-1 on some servers).
    pub exit_code: i32,
    /// Empty if output was streamed. Invalid UTF-8 is replaced; streaming preserves it.
    pub stdout: String,
    pub stderr: String,
}

/// Writes to the standard input of a process that was started with `streamStdin` or `tty`, or closes it, or both.
#[wire(sparse)]
pub struct CommandExecWriteParams {
    pub process_id: String,
    pub delta_base64: Option<String>,
    /// Closes the standard input after writing.
    pub close_stdin: Option<bool>,
}

/// An empty response.
#[wire]
#[derive(Default)]
pub struct CommandExecWriteResponse {}

/// Resizes the terminal of a process. Fails for a process without a terminal.
#[wire]
pub struct CommandExecResizeParams {
    pub process_id: String,
    pub size: CommandExecTerminalSize,
}

/// An empty response.
#[wire]
#[derive(Default)]
pub struct CommandExecResizeResponse {}

/// Terminates a process.
#[wire]
pub struct CommandExecTerminateParams {
    pub process_id: String,
}

/// The process is being terminated. The response to its `command/exec` follows when it has ended.
#[wire]
#[derive(Default)]
pub struct CommandExecTerminateResponse {}

/// The size of a terminal in character cells. Both must be positive.
#[wire]
pub struct CommandExecTerminalSize {
    pub rows: u16,
    pub cols: u16,
}

/// An output stream.
#[wire(open)]
#[derive(Eq)]
pub enum CommandExecOutputStream {
    /// Also all output of a terminal.
    Stdout,
    Stderr,
}

/// Output of a streaming process, sent to the connection that started it.
#[wire]
pub struct CommandExecOutputDeltaNotification {
    pub process_id: String,
    pub stream: CommandExecOutputStream,
    /// The raw bytes. A chunk can end within a character.
    pub delta_base64: String,
    /// Whether the limit is reached and this is the last chunk of the stream.
    pub cap_reached: bool,
}
