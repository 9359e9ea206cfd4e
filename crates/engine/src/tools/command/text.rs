//! What the model reads about a command.

use std::time::Duration;

use codicil_exec::HeadTail;
use codicil_prompts::{text_tokens, truncate_output};

/// The state of a session after a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum TerminalState {
    Exited(i32),
    Running(codicil_exec::SessionId),
}

/// The result of `exec_command` and `write_stdin`.
pub(super) fn session_text(
    command: Option<&str>,
    waited: Duration,
    state: TerminalState,
    output: &HeadTail,
    max_tokens: u64,
) -> String {
    let mut text = String::new();
    if let Some(command) = command {
        text.push_str(&format!("Command: {command}\n"));
    }
    let state = match state {
        TerminalState::Exited(code) => format!("Process exited with code {code}"),
        TerminalState::Running(session) => format!("Process running with session ID {session}"),
    };
    let whole = plain(output);
    text.push_str(&format!(
        "Chunk ID: {}\nWall time: {:.4} seconds\n{state}\nOriginal token count: {}\nOutput:\n{}",
        chunk_id(),
        waited.as_secs_f64(),
        original_tokens(output, &whole),
        truncate_output(&whole, max_tokens),
    ));
    text
}

/// The result of tools that wait for the end.
pub(in crate::tools) fn exit_text(code: i32, ran: Duration, output: &str) -> String {
    format!("Exit code: {code}\nWall time: {:.1} seconds\nOutput:\n{output}", ran.as_secs_f64())
}

/// The output as text; what was too much to keep is counted.
pub(super) fn plain(output: &HeadTail) -> String {
    output.to_text(|omitted| format!("\n[{omitted} bytes left out]\n"))
}

fn original_tokens(output: &HeadTail, kept: &str) -> u64 {
    text_tokens(kept).max(output.total() / codicil_prompts::BYTES_PER_TOKEN as u64)
}

/// Tells chunks apart, for a model that refers to one.
fn chunk_id() -> String {
    let random = uuid::Uuid::now_v7().as_u128() & 0xff_ffff;
    format!("{random:06x}")
}
