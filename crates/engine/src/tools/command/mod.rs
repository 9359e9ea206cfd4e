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

use codicil_policy::{CommandLine, Decision, SandboxPermissions};
use codicil_protocol::{CommandAction, CommandExecutionSource, CommandExecutionStatus};

pub use launch::environment_policy;
pub(super) use {escalation::Additional, text::exit_text};
pub(crate) use {
    exec::login,
    item::{CommandEnd, CommandItem},
    screen::Screen,
};

use super::{
    TurnTools,
    call::{Call, Cancelled, Output, say},
};
use crate::step::Step;
use approval::{Asked, Verdict};
use follow::{Followed, Running};

/// A command as a tool asks for it.
#[derive(Clone, Debug)]
struct Wanted {
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
struct Assessed {
    line: CommandLine,
    actions: Vec<CommandAction>,
    decision: Decision,
}

/// What became of a command within its call.
enum Ran {
    Exited(Ended),
    /// It goes on in the background.
    Running {
        session: codicil_exec::SessionId,
        report: codicil_exec::Report,
    },
    /// It did not run; the model is told why.
    Not(String),
    /// The sandbox stopped it, and that is how it stays.
    Denied(Ended),
}

/// A command at its end.
struct Ended {
    code: i32,
    ran: Duration,
    timed_out: bool,
    report: codicil_exec::Report,
}

impl TurnTools {
    /// From the wish to the end: asks where that is needed, runs, and runs again without a sandbox if the
    /// sandbox was in the way and somebody agrees. Everything clients see of the command is told here.
    async fn run_command(&self, call: &Call, wanted: Wanted) -> Result<(CommandItem, Ran), Cancelled> {
        let mut assessed = self.assess(&wanted).await?;
        let mut item =
            CommandItem::new(call.item_id(), assessed.line.display(), &wanted.cwd, wanted.source.clone());
        item.actions = std::mem::take(&mut assessed.actions);
        let (sandboxed, is_started) = match assessed.decision.clone() {
            Decision::Run { sandboxed } => (sandboxed, false),
            Decision::Refuse { why } => {
                self.say_started(&item).await;
                self.say_ended(&item, CommandEnd::without_run(CommandExecutionStatus::Declined)).await;
                return Ok((item, Ran::Not(why)));
            }
            Decision::Ask(question) => {
                item.process = self.reserve(&wanted);
                self.say_started(&item).await;
                match self.ask_command(&wanted, &assessed, &item, &question).await? {
                    Verdict::Run { sandboxed } => (sandboxed, true),
                    Verdict::No { status, why } => {
                        self.say_ended(&item, CommandEnd::without_run(status)).await;
                        return Ok((item, Ran::Not(why)));
                    }
                }
            }
        };
        let ran = self.run_twice(&wanted, &assessed, &mut item, sandboxed, is_started).await?;
        Ok((item, ran))
    }

    async fn run_twice(
        &self,
        wanted: &Wanted,
        assessed: &Assessed,
        item: &mut CommandItem,
        sandboxed: bool,
        is_started: bool,
    ) -> Result<Ran, Cancelled> {
        let mut running = match self.launch(wanted, item, sandboxed, is_started).await {
            Ok(running) => running,
            Err(why) => return Ok(Ran::Not(why)),
        };
        let ended = match self.follow(wanted, item, &mut running).await? {
            Followed::Yielded(report) => return Ok(self.leave_running(item, running, report)),
            Followed::Ended(ended) => ended,
        };
        if !sandboxed || !running.looks_denied(ended.code) {
            self.say_ended(item, running.end(&ended)).await;
            return Ok(Ran::Exited(ended));
        }
        // A command that has been asked about has begun already.
        let asked = if is_started { Asked::Agreed } else { Asked::Nobody };
        let Some(verdict) = self.ask_retry(wanted, assessed, item, asked).await? else {
            self.say_ended(item, running.end(&ended)).await;
            return Ok(Ran::Denied(ended));
        };
        match verdict {
            Verdict::No { status, why } => {
                self.say_ended(item, CommandEnd { status, ..running.end(&ended) }).await;
                Ok(Ran::Not(why))
            }
            Verdict::Run { .. } => self.run_again(wanted, item).await,
        }
    }

    /// Once more, without the sandbox. It is the same command to everybody who watches.
    async fn run_again(&self, wanted: &Wanted, item: &mut CommandItem) -> Result<Ran, Cancelled> {
        let mut running = match self.launch(wanted, item, false, true).await {
            Ok(running) => running,
            Err(why) => return Ok(Ran::Not(why)),
        };
        match self.follow(wanted, item, &mut running).await? {
            Followed::Yielded(report) => Ok(self.leave_running(item, running, report)),
            Followed::Ended(ended) => {
                self.say_ended(item, running.end(&ended)).await;
                Ok(Ran::Exited(ended))
            }
        }
    }

    /// Commands may outlive their turn, so what is said of them goes another way than the rest of the turn.
    async fn say_started(&self, item: &CommandItem) {
        self.kit.reports.send(&self.turn, vec![Step::Started(item.started())]).await;
    }

    async fn say_ended(&self, item: &CommandItem, end: CommandEnd) {
        let step = Step::Completed { item: item.ended(end), context: Vec::new() };
        self.kit.reports.send(&self.turn, vec![step]).await;
        self.refresh_diff().await;
    }

    /// What the model is told of a command that did not run.
    fn failed(wanted: &Wanted, command: &str, why: &str) -> Output {
        say(format!("{} failed for `{command}`: {why}", wanted.tool))
    }
}
