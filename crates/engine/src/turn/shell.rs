//! `thread/shellCommand`: a command that the user typed. It runs outside the sandbox.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use codicil_exec::{Process, ProcessSpec, display, inherited_environment};
use codicil_prompts::user_shell_command_message;
use codicil_protocol::{CommandAction, CommandExecutionSource, ThreadId, TurnId};
use codicil_store::Record;
use tokio_util::sync::CancellationToken;

use crate::{
    ids::new_item_id,
    tools::{CommandEnd, CommandItem, CommandScreen},
    turn_channel::{TurnEvent, TurnOutcome, TurnReporter},
};

/// The output of an interrupted command that wrote nothing.
const ABORTED: &str = "command aborted by user";

/// A user's shell command.
pub struct ShellTask {
    pub thread: ThreadId,
    pub command: ShellCommand,
    pub reporter: TurnReporter,
    pub cancel: CancellationToken,
}

/// What a user's shell command runs.
pub struct ShellCommand {
    turn: TurnId,
    line: String,
    argv: Vec<String>,
    timeout: Option<Duration>,
    cwd: PathBuf,
    item: CommandItem,
}

impl ShellCommand {
    pub fn new(
        turn: TurnId,
        line: String,
        timeout: Option<Duration>,
        cwd: PathBuf,
        argv: Vec<String>,
    ) -> Self {
        let actions = vec![CommandAction::Unknown { command: line.clone() }];
        let source = CommandExecutionSource::UserShell;
        let item = CommandItem { actions, ..CommandItem::new(new_item_id(), display(&argv), &cwd, source) };
        Self { turn, line, argv, timeout, cwd, item }
    }

    /// Returns the record that precedes the command. If the process ends before the command does, the item fails.
    pub fn begun(&self) -> Record {
        let call_id = self.item.id.to_string();
        Record::Begun { turn_id: self.turn.clone(), call_id, item: Some(self.item.started()) }
    }
}

impl ShellTask {
    /// Runs the command to its end. A command that fails still completes the turn.
    pub async fn run(self) -> TurnOutcome {
        let ShellCommand { turn, line, argv, timeout, cwd, item } = &self.command;
        self.reporter.report_one(TurnEvent::Started(Box::new(item.started()))).await;
        let began = Instant::now();
        let mut screen = CommandScreen::new(self.thread.clone(), turn.clone(), item.id.clone());
        let environment = inherited_environment();
        let spec = ProcessSpec { timeout: *timeout, ..ProcessSpec::new(argv, cwd, environment) };
        let exit_code = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            code = self.follow(&mut screen, spec) => Some(code),
        };
        let output = screen.output();
        let ran = began.elapsed();
        let Some(exit_code) = exit_code else {
            let output = output.filter(|output| !output.is_empty()).unwrap_or_else(|| ABORTED.to_owned());
            let end = CommandEnd { exit_code: Some(-1), ..CommandEnd::cut_off(Some(output), ran) };
            let item = item.ended(end);
            self.reporter
                .report_one(TurnEvent::Completed { item: Box::new(item), context: Vec::new() })
                .await;
            return TurnOutcome::Interrupted;
        };
        let output = output.unwrap_or_default();
        let message = user_shell_command_message(line, exit_code, ran, &output);
        let shown = Some(output).filter(|output| !output.is_empty());
        let item = item.ended(CommandEnd::exited(exit_code, shown, ran));
        self.reporter.report_one(TurnEvent::Completed { item: Box::new(item), context: vec![message] }).await;
        TurnOutcome::Completed
    }

    /// Streams the output and returns the exit code. If the command cannot be started, the output is the reason.
    async fn follow(&self, screen: &mut CommandScreen, spec: ProcessSpec) -> i32 {
        let mut process = match Process::spawn(spec).await {
            Ok(process) => process,
            Err(error) => {
                self.reporter.report(Vec::from_iter(screen.show(error.to_string().as_bytes()))).await;
                return 127;
            }
        };
        while let Some(chunk) = process.output.next().await {
            self.reporter.report(Vec::from_iter(screen.show(&chunk.bytes))).await;
        }
        self.reporter.report(Vec::from_iter(screen.flush())).await;
        process.exit().await.code()
    }
}
