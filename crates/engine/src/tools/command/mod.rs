//! Commands that the model runs: approved, confined, run and followed.
//!
//! | part | where |
//! |---|---|
//! | the tools | `exec_command.rs`, `write_stdin.rs`, `shell_command.rs` |
//! | permissions that a call requests | `escalation.rs` |
//! | policies and approvals | `approval.rs`, `input_approval.rs` |
//! | confinement, environment and start | `launch.rs` |
//! | following a command, also after its call | `follow.rs`, `clock.rs` |
//! | items, deltas and texts about a command | `output.rs` |
//! | commands of the guardian, which only read | `read_only.rs` |

mod approval;
mod clock;
mod escalation;
mod exec_command;
mod follow;
mod input_approval;
mod launch;
mod output;
mod read_only;
mod shell_command;
mod write_stdin;

use std::{path::PathBuf, time::Duration};

use codicil_config::EffectiveConfig;
use codicil_exec::{SessionId, SessionReport, ShellStart, UserShell};
use codicil_policy::{CommandDecision, CommandLine, SandboxPermissions};
use codicil_protocol::{CommandExecutionSource, CommandExecutionStatus};

use super::{
    TurnTools,
    call::{ToolCall, ToolError, TurnCancelled},
    guardian, turn_diff,
};
use crate::turn_channel::TurnEvent;
use approval::{AskedAbout, CommandVerdict};
use follow::FollowOutcome;

pub use launch::{CredentialVariables, environment_policy};
pub(crate) use output::{CommandEnd, CommandItem, CommandScreen};
pub(super) use {
    escalation::{AdditionalPermissions, additional_permissions_schema},
    exec_command::ExecCommand,
    output::exit_text,
    read_only::run_read_only,
    shell_command::ShellCommand,
    write_stdin::WriteStdin,
};

/// A command as a tool requests it.
#[derive(Clone, Debug)]
struct RequestedCommand {
    /// The name of the tool.
    tool: &'static str,
    argv: Vec<String>,
    cwd: PathBuf,
    permissions: SandboxPermissions,
    /// Why the model needs more than the sandbox allows, for the approval.
    justification: Option<String>,
    prefix_rule: Option<Vec<String>>,
    source: CommandExecutionSource,
    tty: bool,
    /// After this time the command is ended.
    timeout: Option<Duration>,
    /// After this time the call returns, and a command that still runs continues in the background.
    yield_time: Option<Duration>,
}

/// What became of a command during its call.
enum CommandOutcome {
    Exited(FinishedCommand),
    /// It continues in the background.
    Running {
        session: SessionId,
        report: SessionReport,
    },
    /// It did not run, for this reason.
    NotRun(String),
    /// The sandbox stopped it, and it may not run without.
    DeniedBySandbox(FinishedCommand),
}

/// A command that has ended.
struct FinishedCommand {
    code: i32,
    ran: Duration,
    timed_out: bool,
    report: SessionReport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SandboxMode {
    Sandboxed,
    Unsandboxed,
}

impl SandboxMode {
    fn new(sandboxed: bool) -> Self {
        if sandboxed { Self::Sandboxed } else { Self::Unsandboxed }
    }
}

/// A command on its way from the request to its end.
struct CommandRun<'a> {
    turn: &'a TurnTools,
    request: &'a RequestedCommand,
    line: CommandLine,
    item: CommandItem,
    /// Whether `item/started` has been sent: before an approval, otherwise when the process is spawned.
    is_started: bool,
    is_approved: bool,
    /// How the command runs, once it does.
    mode: SandboxMode,
}

/// Runs a command: asks for approval where it is needed, and runs it again without a sandbox if the sandbox was in the
/// way and the user agrees. Reports everything that clients see of the command.
async fn run(
    turn: &TurnTools,
    call: &ToolCall,
    request: &RequestedCommand,
) -> Result<(CommandItem, CommandOutcome), TurnCancelled> {
    let assessed = approval::assess(turn, request).await?;
    let line = assessed.line;
    let mut item = CommandItem::new(call.item_id(), line.display(), &request.cwd, request.source.clone());
    item.actions = assessed.actions;
    let mode = SandboxMode::Sandboxed;
    let mut command = CommandRun { turn, request, line, item, is_started: false, is_approved: false, mode };
    let outcome = command.run(assessed.decision).await?;
    Ok((command.item, outcome))
}

impl CommandRun<'_> {
    async fn run(&mut self, decision: CommandDecision) -> Result<CommandOutcome, TurnCancelled> {
        let mode = match decision {
            CommandDecision::Run { sandboxed } => SandboxMode::new(sandboxed),
            CommandDecision::Refuse { why } => {
                self.emit_started().await;
                self.emit_not_run(CommandExecutionStatus::Declined).await;
                return Ok(CommandOutcome::NotRun(why));
            }
            CommandDecision::Ask(question) => {
                self.item.process = self.reserve_session();
                self.emit_asked().await;
                match self.ask(&question, AskedAbout::FirstRun).await? {
                    CommandVerdict::Run(mode) => {
                        self.is_approved = true;
                        mode
                    }
                    CommandVerdict::Rejected { status, why } => {
                        self.emit_not_run(status).await;
                        return Ok(CommandOutcome::NotRun(why));
                    }
                }
            }
        };
        self.turn.begin(&self.item.id, Some(self.item.started())).await?;
        self.run_with_retry(mode).await
    }

    async fn run_with_retry(&mut self, mode: SandboxMode) -> Result<CommandOutcome, TurnCancelled> {
        self.mode = mode;
        let mut running = match self.launch(mode).await {
            Ok(running) => running,
            Err(why) => return Ok(CommandOutcome::NotRun(why)),
        };
        let ended = match self.follow(&mut running).await? {
            FollowOutcome::Yielded(report) => return Ok(self.continue_in_background(running, report)),
            FollowOutcome::Ended(ended) => ended,
        };
        if mode == SandboxMode::Unsandboxed || !running.looks_denied(ended.code) {
            self.emit_ended(running.end(&ended)).await;
            return Ok(CommandOutcome::Exited(ended));
        }
        match self.ask_retry().await? {
            None => {
                self.emit_ended(running.end(&ended)).await;
                Ok(CommandOutcome::DeniedBySandbox(ended))
            }
            Some(CommandVerdict::Rejected { status, why }) => {
                self.emit_ended(CommandEnd { status, ..running.end(&ended) }).await;
                Ok(CommandOutcome::NotRun(why))
            }
            Some(CommandVerdict::Run(_)) => self.run_unsandboxed().await,
        }
    }

    /// Runs the command a second time, without the sandbox. Clients see both runs as one item.
    async fn run_unsandboxed(&mut self) -> Result<CommandOutcome, TurnCancelled> {
        self.mode = SandboxMode::Unsandboxed;
        let mut running = match self.launch(SandboxMode::Unsandboxed).await {
            Ok(running) => running,
            Err(why) => return Ok(CommandOutcome::NotRun(why)),
        };
        match self.follow(&mut running).await? {
            FollowOutcome::Yielded(report) => Ok(self.continue_in_background(running, report)),
            FollowOutcome::Ended(ended) => {
                self.emit_ended(running.end(&ended)).await;
                Ok(CommandOutcome::Exited(ended))
            }
        }
    }

    async fn emit_started(&mut self) {
        self.is_started = true;
        self.turn.emit_started(self.item.started()).await;
    }

    /// Shows a command that is about to be approved, by a client or by the guardian.
    async fn emit_asked(&mut self) {
        if guardian::is_enabled(self.turn) {
            return self.emit_started().await;
        }
        self.is_started = true;
        self.turn.reporter.report_one(TurnEvent::CommandAsked(Box::new(self.item.started()))).await;
    }

    /// Ends a command for which no process was started.
    async fn emit_not_run(&self, status: CommandExecutionStatus) {
        self.emit_ended(CommandEnd::without_run(status)).await;
    }

    async fn emit_ended(&self, end: CommandEnd) {
        self.turn.emit_completed(self.item.ended(end)).await;
        turn_diff::send_if_changed(self.turn).await;
    }
}

/// The failure of a command that did not run.
fn command_failed(request: &RequestedCommand, command: &str, why: &str) -> ToolError {
    ToolError::Failed(format!("{} failed for `{command}`: {why}", request.tool))
}

/// Returns the arguments that run a line in the user's shell, or in the one that the model chose.
async fn shell_argv(
    turn: &TurnTools,
    shell: Option<PathBuf>,
    line: &str,
    login: Option<bool>,
) -> Vec<String> {
    let shell = match shell {
        Some(path) => UserShell::at(path),
        None => turn.thread.engine.shell().await,
    };
    shell.argv(line, shell_start(&turn.config, login))
}

/// Decides whether a shell reads the user's profile: if the call requests it and the configuration allows it.
pub(crate) fn shell_start(config: &EffectiveConfig, login: Option<bool>) -> ShellStart {
    let is_allowed = config.settings.allow_login_shell.unwrap_or(true);
    if login.unwrap_or(true) && is_allowed { ShellStart::Login } else { ShellStart::Plain }
}
