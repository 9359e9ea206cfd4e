//! Commands that the model wants to run: understood, decided about, confined, run and followed.
//!
//! | step | where |
//! |---|---|
//! | what the tools are called with | `exec.rs`, `shell.rs`, `escalation.rs` |
//! | may it run? | `approval.rs` |
//! | in which confinement, with which environment? | `launch.rs` |
//! | following it, also after its call | `follow.rs`, `clock.rs`, `screen.rs` |
//! | what is told about it | `item.rs`, `text.rs` |

mod approval;
mod clock;
mod escalation;
mod exec;
mod follow;
mod item;
mod launch;
mod screen;
mod shell;
mod text;

use std::{path::PathBuf, time::Duration};

use codicil_policy::{CommandDecision, CommandLine, SandboxPermissions};
use codicil_protocol::{CommandAction, CommandExecutionSource, CommandExecutionStatus};

pub use launch::environment_policy;
pub(super) use {escalation::AdditionalPermissions, text::exit_text};
pub(crate) use {
    exec::login,
    item::{CommandEnd, CommandItem},
    screen::CommandScreen,
};

use super::{
    TurnTools,
    call::{ToolCall, ToolOutput, TurnCancelled, say},
};
use crate::turn_channel::TurnEvent;
use approval::{AskedReviewer, CommandVerdict};
use follow::{FollowOutcome, RunningCommand};

/// A command as a tool asks for it.
#[derive(Clone, Debug)]
struct RequestedCommand {
    tool: &'static str,
    argv: Vec<String>,
    cwd: PathBuf,
    permissions: SandboxPermissions,
    /// The model's words to whoever is asked.
    justification: Option<String>,
    prefix_rule: Option<Vec<String>>,
    source: CommandExecutionSource,
    tty: bool,
    /// When the command is ended.
    timeout: Option<Duration>,
    /// When the call is over, be the command at its end or not.
    patience: Option<Duration>,
}

/// A command that has been looked at.
struct AssessedCommand {
    line: CommandLine,
    actions: Vec<CommandAction>,
    decision: CommandDecision,
}

/// What became of a command within its call.
enum CommandOutcome {
    Exited(FinishedCommand),
    /// It goes on in the background.
    Running {
        session: codicil_exec::SessionId,
        report: codicil_exec::SessionReport,
    },
    /// It did not run; the model is told why.
    Not(String),
    /// The sandbox stopped it, and that is how it stays.
    Denied(FinishedCommand),
}

/// A command at its end.
struct FinishedCommand {
    code: i32,
    ran: Duration,
    timed_out: bool,
    report: codicil_exec::SessionReport,
}

impl TurnTools {
    /// From the wish to the end: asks where that is needed, runs, and runs again without a sandbox if the
    /// sandbox was in the way and somebody agrees. Everything clients see of the command is told here.
    async fn run_command(
        &self,
        call: &ToolCall,
        wanted: RequestedCommand,
    ) -> Result<(CommandItem, CommandOutcome), TurnCancelled> {
        let mut assessed = self.assess(&wanted).await?;
        let mut item =
            CommandItem::new(call.item_id(), assessed.line.display(), &wanted.cwd, wanted.source.clone());
        item.actions = std::mem::take(&mut assessed.actions);
        let (sandboxed, is_started) = match assessed.decision.clone() {
            CommandDecision::Run { sandboxed } => (sandboxed, false),
            CommandDecision::Refuse { why } => {
                self.say_started(&item).await;
                self.say_ended(&item, CommandEnd::without_run(CommandExecutionStatus::Declined)).await;
                return Ok((item, CommandOutcome::Not(why)));
            }
            CommandDecision::Ask(question) => {
                item.process = self.reserve(&wanted);
                self.say_started(&item).await;
                match self.ask_command(&wanted, &assessed, &item, &question).await? {
                    CommandVerdict::Run { sandboxed } => (sandboxed, true),
                    CommandVerdict::No { status, why } => {
                        self.say_ended(&item, CommandEnd::without_run(status)).await;
                        return Ok((item, CommandOutcome::Not(why)));
                    }
                }
            }
        };
        let ran = self.run_twice(&wanted, &assessed, &mut item, sandboxed, is_started).await?;
        Ok((item, ran))
    }

    async fn run_twice(
        &self,
        wanted: &RequestedCommand,
        assessed: &AssessedCommand,
        item: &mut CommandItem,
        sandboxed: bool,
        is_started: bool,
    ) -> Result<CommandOutcome, TurnCancelled> {
        let mut running = match self.launch(wanted, item, sandboxed, is_started).await {
            Ok(running) => running,
            Err(why) => return Ok(CommandOutcome::Not(why)),
        };
        let ended = match self.follow(wanted, item, &mut running).await? {
            FollowOutcome::Yielded(report) => return Ok(self.leave_running(item, running, report)),
            FollowOutcome::Ended(ended) => ended,
        };
        if !sandboxed || !running.looks_denied(ended.code) {
            self.say_ended(item, running.end(&ended)).await;
            return Ok(CommandOutcome::Exited(ended));
        }
        // A command that has been asked about has begun already.
        let asked = if is_started { AskedReviewer::Agreed } else { AskedReviewer::Nobody };
        let Some(verdict) = self.ask_retry(wanted, assessed, item, asked).await? else {
            self.say_ended(item, running.end(&ended)).await;
            return Ok(CommandOutcome::Denied(ended));
        };
        match verdict {
            CommandVerdict::No { status, why } => {
                self.say_ended(item, CommandEnd { status, ..running.end(&ended) }).await;
                Ok(CommandOutcome::Not(why))
            }
            CommandVerdict::Run { .. } => self.run_again(wanted, item).await,
        }
    }

    /// Once more, without the sandbox. It is the same command to everybody who watches.
    async fn run_again(
        &self,
        wanted: &RequestedCommand,
        item: &mut CommandItem,
    ) -> Result<CommandOutcome, TurnCancelled> {
        let mut running = match self.launch(wanted, item, false, true).await {
            Ok(running) => running,
            Err(why) => return Ok(CommandOutcome::Not(why)),
        };
        match self.follow(wanted, item, &mut running).await? {
            FollowOutcome::Yielded(report) => Ok(self.leave_running(item, running, report)),
            FollowOutcome::Ended(ended) => {
                self.say_ended(item, running.end(&ended)).await;
                Ok(CommandOutcome::Exited(ended))
            }
        }
    }

    async fn say_started(&self, item: &CommandItem) {
        self.reporter.report_one(TurnEvent::Started(item.started())).await;
    }

    async fn say_ended(&self, item: &CommandItem, end: CommandEnd) {
        let step = TurnEvent::Completed { item: item.ended(end), context: Vec::new() };
        self.reporter.report_one(step).await;
        self.refresh_diff().await;
    }

    /// What the model is told of a command that did not run.
    fn failed(wanted: &RequestedCommand, command: &str, why: &str) -> ToolOutput {
        say(format!("{} failed for `{command}`: {why}", wanted.tool))
    }
}
