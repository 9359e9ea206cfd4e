//! `thread/shellCommand`: a command that the user typed. It runs outside the sandbox.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use codicil_exec::{Process, ProcessSpec, ShellStart, UserShell, display, inherited_environment};
use codicil_prompts::user_shell_command_message;
use codicil_protocol::{CommandAction, CommandExecutionSource, ThreadId, TurnId};
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
    pub turn: TurnId,
    pub command: String,
    pub timeout: Option<Duration>,
    pub cwd: PathBuf,
    pub shell: UserShell,
    pub start: ShellStart,
    pub reporter: TurnReporter,
    pub cancel: CancellationToken,
}

impl ShellTask {
    /// Runs the command to its end. A command that fails still completes the turn.
    pub async fn run(self) -> TurnOutcome {
        let argv = self.shell.argv(&self.command, self.start);
        let item = self.item(display(&argv));
        self.reporter.report_one(TurnEvent::Started(Box::new(item.started()))).await;
        let began = Instant::now();
        let mut screen = CommandScreen::new(self.thread.clone(), self.turn.clone(), item.id.clone());
        let environment = inherited_environment();
        let spec = ProcessSpec { timeout: self.timeout, ..ProcessSpec::new(&argv, &self.cwd, environment) };
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
        let message = user_shell_command_message(&self.command, exit_code, ran, &output);
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

    fn item(&self, command: String) -> CommandItem {
        let id = new_item_id();
        let actions = vec![CommandAction::Unknown { command: self.command.clone() }];
        let item = CommandItem::new(id, command, &self.cwd, CommandExecutionSource::UserShell);
        CommandItem { actions, ..item }
    }
}
