//! A person's own command, run in the thread: outside the sandbox, because they typed it themselves.

use std::{path::PathBuf, time::Instant};

use codicil_context::user_shell_command_message;
use codicil_exec::{HeadTail, Process, Shell, Spec, Start, display};
use codicil_protocol::{
    CommandAction, CommandExecutionOutputDelta, CommandExecutionOutputDeltaNotification,
    CommandExecutionSource, CommandExecutionStatus, Frame, ItemId, ThreadId, ThreadItem, TurnId,
};
use tokio_util::sync::CancellationToken;

use crate::step::{Outcome, Step, Steps};

/// How much of a command's output is kept; what is in the middle goes first.
const KEPT_OUTPUT_BYTES: usize = 1 << 20;

/// One such command.
pub struct ShellTask {
    pub thread: ThreadId,
    pub turn: TurnId,
    pub command: String,
    pub cwd: PathBuf,
    pub shell: Shell,
    pub steps: Steps,
    pub cancel: CancellationToken,
}

impl ShellTask {
    /// Runs to the end. A command that fails is a result; the turn is complete all the same.
    pub async fn run(self) -> Outcome {
        let id = ItemId::from(uuid::Uuid::now_v7().to_string());
        let argv = self.shell.argv(&self.command, Start::Login);
        let item = self.item(&id, display(&argv));
        self.steps.one(Step::Started(item.clone())).await;
        let began = Instant::now();
        let spec = Spec {
            reach: codicil_exec::Reach::Session,
            ..Spec::new(&argv, &self.cwd, std::env::vars_os().collect())
        };
        let ended = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            ended = self.follow(&id, spec) => Some(ended),
        };
        let Some((exit_code, output)) = ended else {
            self.steps.one(Step::Completed { item: end(item, None, None, began), context: Vec::new() }).await;
            return Outcome::Interrupted;
        };
        let told = user_shell_command_message(&self.command, exit_code, began.elapsed(), &output);
        let item = end(item, Some(exit_code), Some(output), began);
        self.steps.one(Step::Completed { item, context: vec![told] }).await;
        Outcome::Completed
    }

    /// Shows the output as it comes. A command that cannot be started fails with the reason as its output.
    async fn follow(&self, id: &ItemId, spec: Spec) -> (i32, String) {
        let mut process = match Process::spawn(spec).await {
            Ok(process) => process,
            Err(error) => return (127, error.to_string()),
        };
        let mut kept = HeadTail::new(KEPT_OUTPUT_BYTES);
        let mut text = TextStream::default();
        while let Some(chunk) = process.output.next().await {
            kept.push(&chunk.bytes);
            let delta = text.feed(&chunk.bytes);
            if delta.is_empty() {
                continue;
            }
            let params = CommandExecutionOutputDeltaNotification {
                thread_id: self.thread.clone(),
                turn_id: self.turn.clone(),
                item_id: id.clone(),
                delta,
            };
            self.steps.one(Step::Told(Frame::notification::<CommandExecutionOutputDelta>(&params))).await;
        }
        (process.exit().await.code(), String::from_utf8_lossy(&kept.into_bytes()).into_owned())
    }

    fn item(&self, id: &ItemId, command: String) -> ThreadItem {
        ThreadItem::CommandExecution {
            id: id.clone(),
            command,
            cwd: self.cwd.to_string_lossy().into_owned(),
            process_id: None,
            source: CommandExecutionSource::UserShell,
            status: CommandExecutionStatus::InProgress,
            command_actions: vec![CommandAction::Unknown { command: self.command.clone() }],
            aggregated_output: None,
            exit_code: None,
            duration_ms: None,
        }
    }
}

fn end(mut item: ThreadItem, code: Option<i32>, output: Option<String>, began: Instant) -> ThreadItem {
    if let ThreadItem::CommandExecution { status, aggregated_output, exit_code, duration_ms, .. } = &mut item
    {
        let succeeded = code == Some(0);
        *status = if succeeded { CommandExecutionStatus::Completed } else { CommandExecutionStatus::Failed };
        *aggregated_output = output;
        *exit_code = code;
        *duration_ms = Some(i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX));
    }
    item
}

/// Text out of bytes that may be cut within a character.
#[derive(Default)]
struct TextStream {
    cut: Vec<u8>,
}

impl TextStream {
    /// The text that can be told by now. The beginning of a character waits for its rest.
    fn feed(&mut self, bytes: &[u8]) -> String {
        self.cut.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.cut) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.cut.len(),
        };
        let rest = self.cut.split_off(whole);
        let text = String::from_utf8_lossy(&self.cut).into_owned();
        self.cut = rest;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_survive_being_cut() {
        let whole = "a\u{e4}\u{20ac}\u{1f600}z";
        for at in 0..=whole.len() {
            let (first, second) = whole.as_bytes().split_at(at);
            let mut stream = TextStream::default();
            assert_eq!(stream.feed(first) + &stream.feed(second), whole, "cut at {at}");
        }
        assert_eq!(TextStream::default().feed(b"a\xffb"), "a\u{fffd}b");
    }
}
