//! A person's own command, run in the thread: outside the sandbox, because they typed it themselves.

use std::{path::PathBuf, time::Instant};

use codicil_exec::{Process, ProcessSpec, ShellStart, UserShell, display};
use codicil_prompts::user_shell_command_message;
use codicil_protocol::{CommandAction, CommandExecutionSource, ThreadId, TurnId};
use tokio_util::sync::CancellationToken;

use crate::{
    ids::new_item_id,
    step::{TurnEvent, TurnOutcome, TurnReporter},
    tools::{CommandEnd, CommandItem, CommandScreen},
};

/// What an interrupted command shows that had written nothing.
const ABORTED: &str = "command aborted by user";

/// One such command.
pub struct ShellTask {
    pub thread: ThreadId,
    pub turn: TurnId,
    pub command: String,
    pub cwd: PathBuf,
    pub shell: UserShell,
    pub start: ShellStart,
    pub steps: TurnReporter,
    pub cancel: CancellationToken,
}

impl ShellTask {
    /// Runs to the end. A command that fails is a result; the turn is complete all the same.
    pub async fn run(self) -> TurnOutcome {
        let argv = self.shell.argv(&self.command, self.start);
        let item = self.item(display(&argv));
        self.steps.one(TurnEvent::Started(item.started())).await;
        let began = Instant::now();
        let mut screen = CommandScreen::new(self.thread.clone(), self.turn.clone(), item.id.clone());
        let spec = ProcessSpec::new(&argv, &self.cwd, std::env::vars_os().collect());
        let exit_code = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            code = self.follow(&mut screen, spec) => Some(code),
        };
        let (output, ran) = (screen.output(), began.elapsed());
        let Some(exit_code) = exit_code else {
            let output = output.filter(|output| !output.is_empty()).unwrap_or_else(|| ABORTED.to_owned());
            let end = CommandEnd { exit_code: Some(-1), ..CommandEnd::cut_off(Some(output), ran) };
            let item = item.ended(end);
            self.steps.one(TurnEvent::Completed { item, context: Vec::new() }).await;
            return TurnOutcome::Interrupted;
        };
        let output = output.unwrap_or_default();
        let told = user_shell_command_message(&self.command, exit_code, ran, &output);
        let shown = Some(output).filter(|output| !output.is_empty());
        let item = item.ended(CommandEnd::exited(exit_code, shown, ran));
        self.steps.one(TurnEvent::Completed { item, context: vec![told] }).await;
        TurnOutcome::Completed
    }

    /// Shows the output as it comes. A command that cannot be started fails with the reason as its output.
    async fn follow(&self, screen: &mut CommandScreen, spec: ProcessSpec) -> i32 {
        let mut process = match Process::spawn(spec).await {
            Ok(process) => process,
            Err(error) => {
                self.steps.report(Vec::from_iter(screen.show(error.to_string().as_bytes()))).await;
                return 127;
            }
        };
        while let Some(chunk) = process.output.next().await {
            self.steps.report(Vec::from_iter(screen.show(&chunk.bytes))).await;
        }
        self.steps.report(Vec::from_iter(screen.flush())).await;
        process.exit().await.code()
    }

    fn item(&self, command: String) -> CommandItem {
        let id = new_item_id();
        let actions = vec![CommandAction::Unknown { command: self.command.clone() }];
        let item = CommandItem::new(id, command, &self.cwd, CommandExecutionSource::UserShell);
        CommandItem { actions, ..item }
    }
}
