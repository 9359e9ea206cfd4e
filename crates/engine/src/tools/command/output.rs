//! What clients and the model see of a command: its item, its output deltas, and the text that answers the call.

use std::{path::Path, time::Duration};

use codicil_exec::{HeadTail, SessionId};
use codicil_prompts::{text_tokens, truncate_output};
use codicil_protocol::{
    CommandAction, CommandExecutionOutputDelta, CommandExecutionOutputDeltaNotification,
    CommandExecutionSource, CommandExecutionStatus, Frame, ItemId, ThreadId, ThreadItem, TurnId,
};

use crate::{clock::millis, turn_channel::TurnEvent};

/// The parts of a command's item that stay the same while it runs.
#[derive(Clone, Debug)]
pub(crate) struct CommandItem {
    pub id: ItemId,
    /// The whole line, quoted for a shell.
    pub command: String,
    pub cwd: String,
    pub source: CommandExecutionSource,
    pub actions: Vec<CommandAction>,
    /// The session that accepts input, reserved before the command is approved. It never changes: clients match the
    /// end of a command by it.
    pub process: Option<SessionId>,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub(crate) struct CommandEnd {
    pub status: CommandExecutionStatus,
    pub output: Option<String>,
    pub exit_code: Option<i32>,
    pub ran: Option<Duration>,
}

impl CommandItem {
    pub fn new(id: ItemId, command: String, cwd: &Path, source: CommandExecutionSource) -> Self {
        let cwd = cwd.to_string_lossy().into_owned();
        Self { id, command, cwd, source, actions: Vec::new(), process: None }
    }

    pub fn started(&self) -> ThreadItem {
        self.item(CommandEnd::without_run(CommandExecutionStatus::InProgress))
    }

    pub fn ended(&self, end: CommandEnd) -> ThreadItem {
        self.item(end)
    }

    fn item(&self, end: CommandEnd) -> ThreadItem {
        ThreadItem::CommandExecution {
            id: self.id.clone(),
            plugin_id: None,
            script_path: None,
            command: self.command.clone(),
            cwd: self.cwd.clone(),
            process_id: self.process.map(|session| session.to_string()),
            source: self.source.clone(),
            status: end.status,
            command_actions: self.actions.clone(),
            aggregated_output: end.output,
            exit_code: end.exit_code,
            duration_ms: end.ran.map(millis),
        }
    }
}

impl CommandEnd {
    /// The end of a command that did not run.
    pub fn without_run(status: CommandExecutionStatus) -> Self {
        Self { status, output: None, exit_code: None, ran: None }
    }

    /// The end of a command that exited by itself. Any code but 0 counts as failed.
    pub fn exited(code: i32, output: Option<String>, ran: Duration) -> Self {
        let status =
            if code == 0 { CommandExecutionStatus::Completed } else { CommandExecutionStatus::Failed };
        Self { status, output, exit_code: Some(code), ran: Some(ran) }
    }

    /// The end of a command that was stopped.
    pub fn cut_off(output: Option<String>, ran: Duration) -> Self {
        Self { status: CommandExecutionStatus::Failed, output, exit_code: None, ran: Some(ran) }
    }
}

/// How much of a command's output its item keeps. The middle is dropped first.
const KEPT_BYTES: usize = 1 << 20;

/// How much of a command's output is streamed. The item keeps the end of longer outputs.
const STREAMED_BYTES: usize = 1 << 20;

/// Turns the output of a command into deltas, and keeps it for the item.
pub(crate) struct CommandScreen {
    thread: ThreadId,
    turn: TurnId,
    item: ItemId,
    text: TextStream,
    kept: HeadTail,
    streamed: usize,
}

impl CommandScreen {
    pub fn new(thread: ThreadId, turn: TurnId, item: ItemId) -> Self {
        Self { thread, turn, item, text: TextStream::default(), kept: HeadTail::new(KEPT_BYTES), streamed: 0 }
    }

    /// Adds output and returns its delta, if any.
    pub fn show(&mut self, bytes: &[u8]) -> Option<TurnEvent> {
        self.kept.push(bytes);
        if self.streamed >= STREAMED_BYTES {
            return None;
        }
        self.streamed += bytes.len();
        let text = self.text.feed(bytes);
        self.delta(text)
    }

    /// Returns the last delta after the output has ended.
    pub fn flush(&mut self) -> Option<TurnEvent> {
        let rest = self.text.finish();
        self.delta(rest)
    }

    fn delta(&self, delta: String) -> Option<TurnEvent> {
        if delta.is_empty() {
            return None;
        }
        let params = CommandExecutionOutputDeltaNotification {
            thread_id: self.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: self.item.clone(),
            delta,
        };
        Some(TurnEvent::Notification(Frame::notification::<CommandExecutionOutputDelta>(&params)))
    }

    /// Returns the output that the item keeps; `None` if nothing was written.
    pub fn output(&self) -> Option<String> {
        (self.kept.total() > 0).then(|| plain_text(&self.kept))
    }
}

/// Decodes UTF-8 that arrives in chunks, which may end within a character.
#[derive(Default)]
struct TextStream {
    incomplete: Vec<u8>,
}

impl TextStream {
    /// Returns all complete characters. The beginning of a character waits for its rest.
    fn feed(&mut self, bytes: &[u8]) -> String {
        self.incomplete.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.incomplete) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.incomplete.len(),
        };
        let rest = self.incomplete.split_off(whole);
        let text = String::from_utf8_lossy(&self.incomplete).into_owned();
        self.incomplete = rest;
        text
    }

    /// Returns a replacement for a character that was never completed.
    fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.incomplete)).into_owned()
    }
}

/// The state of a session after a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum TerminalState {
    Exited(i32),
    Running(SessionId),
}

/// Returns the output of `exec_command` and `write_stdin` for the model.
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
    let whole = plain_text(output);
    text.push_str(&format!(
        "Chunk ID: {}\nWall time: {:.4} seconds\n{state}\nOriginal token count: {}\nOutput:\n{}",
        chunk_id(),
        waited.as_secs_f64(),
        original_tokens(output, &whole),
        truncate_output(&whole, max_tokens),
    ));
    text
}

/// Returns the output of tools that wait for the end, for the model.
pub(in crate::tools) fn exit_text(code: i32, ran: Duration, output: &str) -> String {
    format!("Exit code: {code}\nWall time: {:.1} seconds\nOutput:\n{output}", ran.as_secs_f64())
}

/// Returns an output as text, with a note where bytes are missing.
pub(super) fn plain_text(output: &HeadTail) -> String {
    output.to_text(|omitted| format!("\n[{omitted} bytes left out]\n"))
}

fn original_tokens(output: &HeadTail, kept: &str) -> u64 {
    text_tokens(kept).max(output.total() / codicil_prompts::BYTES_PER_TOKEN as u64)
}

/// Returns an id by which the model can refer to this output.
fn chunk_id() -> String {
    let random = uuid::Uuid::now_v7().as_u128() & 0xff_ffff;
    format!("{random:06x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_may_be_split_between_chunks() {
        let whole = "a\u{e4}\u{20ac}\u{1f600}z";
        for at in 0..=whole.len() {
            let (first, second) = whole.as_bytes().split_at(at);
            let mut stream = TextStream::default();
            assert_eq!(stream.feed(first) + &stream.feed(second), whole, "cut at {at}");
        }
        assert_eq!(TextStream::default().feed(b"a\xffb"), "a\u{fffd}b");
        let mut stream = TextStream::default();
        assert_eq!(stream.feed(b"a\xe2\x82") + &stream.finish(), "a\u{fffd}");
    }

    #[test]
    fn output_beyond_the_streaming_limit_is_kept_in_the_item() {
        let mut screen = CommandScreen::new("t".into(), "u".into(), "i".into());
        let chunk = vec![b'x'; STREAMED_BYTES];
        assert!(screen.show(&chunk).is_some());
        assert!(screen.show(b"the end").is_none());
        let output = screen.output().unwrap();
        assert!(output.contains("[7 bytes left out]") && output.ends_with("the end"));
    }
}
