//! Commands outside any thread: `command/exec` and what steers one while it runs. The answer to
//! `command/exec` comes only when the process has ended and all its output is sent. A process belongs to
//! its connection, and so does its id; it is killed when the connection closes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::{SandboxPolicy, wire};

/// A command to run in the server's sandbox.
#[wire(sparse)]
pub struct CommandExecParams {
    /// Program and arguments; no shell reads them. Never empty.
    pub command: Vec<String>,
    /// Chosen by the client. Needed to stream, to write to the process and to end it; free for use again
    /// when the process is gone.
    pub process_id: Option<String>,
    /// Runs it in a terminal, which implies both kinds of streaming.
    pub tty: Option<bool>,
    /// Of the terminal at the start; only with `tty`.
    pub size: Option<CommandExecTerminalSize>,
    /// Lets `command/exec/write` feed it.
    pub stream_stdin: Option<bool>,
    /// Sends output as it comes, and then not again in the answer.
    pub stream_stdout_stderr: Option<bool>,
    /// The server's own when left out.
    #[serde(default, deserialize_with = "crate::path::text::optional")]
    pub cwd: Option<String>,
    /// Changes to the environment the server would give it; null takes a variable away.
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// The configured one when left out.
    pub sandbox_policy: Option<SandboxPolicy>,
    /// 10 seconds when left out, streaming or not. The process then ends with exit code 124.
    pub timeout_ms: Option<i64>,
    /// Not together with `timeout_ms`.
    pub disable_timeout: Option<bool>,
    /// For each of the two streams by itself; 1 MiB when left out. The rest is dropped.
    #[serde(default, deserialize_with = "size")]
    pub output_bytes_cap: Option<u64>,
    /// Not together with `output_bytes_cap`.
    pub disable_output_cap: Option<bool>,
}

/// A count of bytes. Of a value that is none, clients of the reference are told in its words.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<usize>::deserialize(from)?.map(|size| size as u64))
}

/// How the process ended. A code other than 0 is a result, not an error.
#[wire]
pub struct CommandExecResponse {
    /// 124 after a timeout, 137 when killed; some servers say -1 for the latter.
    pub exit_code: i32,
    /// Empty when output was streamed. Bytes that are not UTF-8 are replaced; streaming keeps them.
    pub stdout: String,
    pub stderr: String,
}

/// Feeds a process that was started with `stream_stdin` or `tty`: bytes, the end of input, or both.
#[wire(sparse)]
pub struct CommandExecWriteParams {
    pub process_id: String,
    pub delta_base64: Option<String>,
    /// After the bytes, if there are any.
    pub close_stdin: Option<bool>,
}

/// Nothing to tell beyond success.
#[wire]
#[derive(Default)]
pub struct CommandExecWriteResponse {}

/// Gives the terminal of a process new dimensions; an error for one without a terminal.
#[wire]
pub struct CommandExecResizeParams {
    pub process_id: String,
    pub size: CommandExecTerminalSize,
}

/// Nothing to tell beyond success.
#[wire]
#[derive(Default)]
pub struct CommandExecResizeResponse {}

/// Names the process to kill.
#[wire]
pub struct CommandExecTerminateParams {
    pub process_id: String,
}

/// The process is being killed; the answer to its `command/exec` says when it is gone.
#[wire]
#[derive(Default)]
pub struct CommandExecTerminateResponse {}

/// The size of a terminal in character cells, neither of them 0.
#[wire]
pub struct CommandExecTerminalSize {
    pub rows: u16,
    pub cols: u16,
}

/// Where a chunk of output was written to.
#[wire(open)]
#[derive(Eq)]
pub enum CommandExecOutputStream {
    /// Also everything a terminal shows.
    Stdout,
    Stderr,
}

/// A chunk of output of a streaming process, sent to the connection that started it.
#[wire]
pub struct CommandExecOutputDeltaNotification {
    pub process_id: String,
    pub stream: CommandExecOutputStream,
    /// The exact bytes; a chunk may end within a character.
    pub delta_base64: String,
    /// This is the last chunk of its stream, because the cap cuts off the rest.
    pub cap_reached: bool,
}
