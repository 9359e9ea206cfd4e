//! Follows a command: streams its output, waits for its end, and continues in the background when it outlives its call.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_exec::{HeadTail, ProcessExit, SessionEnding, SessionEvent, SessionId, SessionReport};
use codicil_protocol::{CommandExecutionStatus, SandboxPolicy};
use tokio::{runtime::Handle, sync::mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    CommandEnd, CommandItem, CommandOutcome, CommandRun, CommandScreen, FinishedCommand, SandboxMode,
    clock::ClockPauses,
};
use crate::{
    tools::{
        TurnTools,
        call::TurnCancelled,
        network::CommandNetwork,
        thread_tools::{BackgroundTerminal, ThreadTools},
    },
    turn_channel::TurnReporter,
};

/// The exit code of a command that did not end by itself.
const ENDED_BY_OTHERS: i32 = -1;

/// How long a killed command may take to end.
const KILL_TIME: Duration = Duration::from_secs(1);

/// A command whose process runs, and its output so far.
pub(super) struct RunningCommand {
    pub session: SessionId,
    events: mpsc::Receiver<SessionEvent>,
    screen: CommandScreen,
    reporter: TurnReporter,
    began: Instant,
    kill_on_drop: KillOnDrop,
    network: Option<CommandNetwork>,
    /// Whether the command was refused a host.
    was_refused_host: bool,
}

/// Ends the command of a call that is dropped before the command has ended.
struct KillOnDrop {
    thread: Arc<ThreadTools>,
    session: SessionId,
    /// False once the command has ended or continues in the background.
    is_armed: bool,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let thread = self.thread.clone();
        let session = self.session;
        // The task ends with the command, which is killed at once.
        runtime.spawn(async move { thread.engine.terminals.end(&thread.owner, session).await });
    }
}

/// The end of a session as the session reports it.
struct TerminalEnd {
    exit: ProcessExit,
    ending: SessionEnding,
    ran: Duration,
}

/// How a call stopped following its command.
pub(super) enum FollowOutcome {
    Ended(FinishedCommand),
    /// The yield time is over and the command still runs.
    Yielded(SessionReport),
}

impl RunningCommand {
    pub fn new(
        turn: &TurnTools,
        item: &CommandItem,
        session: SessionId,
        events: mpsc::Receiver<SessionEvent>,
        network: Option<CommandNetwork>,
    ) -> Self {
        Self {
            session,
            events,
            screen: CommandScreen::new(turn.thread_id(), turn.turn_id.clone(), item.id.clone()),
            reporter: turn.reporter.clone(),
            began: Instant::now(),
            kill_on_drop: KillOnDrop { thread: turn.thread.clone(), session, is_armed: true },
            network,
            was_refused_host: false,
        }
    }

    /// Streams the output until the command has ended.
    async fn watch(&mut self) -> TerminalEnd {
        while let Some(event) = self.events.recv().await {
            match event {
                SessionEvent::Output { chunk, .. } => {
                    let shown = self.screen.show(&chunk.bytes);
                    self.reporter.report(shown.into_iter().collect()).await;
                }
                SessionEvent::Ended { exit, ending, ran, .. } => {
                    self.kill_on_drop.is_armed = false;
                    let shown = self.screen.flush();
                    self.reporter.report(shown.into_iter().collect()).await;
                    return TerminalEnd { exit, ending, ran };
                }
            }
        }
        // Sessions report their end, unless the server is shutting down.
        TerminalEnd {
            exit: ProcessExit::Unknown,
            ending: SessionEnding::Requested,
            ran: self.began.elapsed(),
        }
    }

    /// Waits until the command has run for `limit`, not counting the time of questions.
    fn time_limit(&self, limit: Option<Duration>) -> impl Future<Output = ()> + use<> {
        let hosts = self.network.as_ref().map(|network| network.gate.waiting());
        ClockPauses { hosts, elicitations: self.kill_on_drop.thread.elicitations.subscribe() }
            .elapse(self.began.into(), limit)
    }

    /// Adds the refused hosts to a report for the model, because commands often do not print the reason.
    fn with_refusals(&mut self, mut report: SessionReport) -> SessionReport {
        let refusals = self.network.as_ref().map(|network| network.gate.take_refusals());
        for refusal in refusals.into_iter().flatten() {
            self.was_refused_host = true;
            report.output.push(format!("\n[{refusal}]").as_bytes());
        }
        report
    }

    /// Whether the command seems to have failed because of its sandbox. Refused hosts do not count: without the sandbox,
    /// the command would get around the refusal.
    pub fn looks_denied(&self, code: i32) -> bool {
        !self.was_refused_host
            && codicil_sandbox::looks_denied(code, &self.screen.output().unwrap_or_default())
    }

    /// Returns the end of a command that ended by itself or by its time limit.
    pub fn end(&self, ended: &FinishedCommand) -> CommandEnd {
        CommandEnd::exited(ended.code, self.screen.output(), self.began.elapsed())
    }

    /// Returns the end of a command in the background, which others may have ended.
    fn background_end(&self, end: &TerminalEnd) -> CommandEnd {
        match end.ending {
            SessionEnding::Exited => CommandEnd::exited(end.exit.code(), self.screen.output(), end.ran),
            SessionEnding::Requested | SessionEnding::Evicted => CommandEnd {
                status: CommandExecutionStatus::Failed,
                output: self.screen.output(),
                exit_code: Some(ENDED_BY_OTHERS),
                ran: Some(end.ran),
            },
        }
    }
}

impl CommandRun<'_> {
    /// Follows a command until it ends or the yield time is over. If the turn is interrupted, the command is ended.
    pub(super) async fn follow(&self, running: &mut RunningCommand) -> Result<FollowOutcome, TurnCancelled> {
        let yield_time = running.time_limit(self.request.yield_time);
        let timeout = running.time_limit(self.request.timeout);
        tokio::pin!(yield_time, timeout);
        let thread = &self.turn.thread;
        let terminals = &thread.engine.terminals;
        let session = running.session;
        let end = tokio::select! {
            biased;
            () = self.turn.cancel.cancelled() => None,
            end = running.watch() => Some(end),
            () = &mut yield_time => {
                let report = terminals.wait(&thread.owner, session, Duration::ZERO).await;
                // The command may have ended in this very moment.
                if let Ok(report) = report
                    && report.exit.is_none()
                {
                    let waited = running.began.elapsed();
                    let report = running.with_refusals(report);
                    return Ok(FollowOutcome::Yielded(SessionReport { waited, ..report }));
                }
                Some(running.watch().await)
            }
            () = &mut timeout => {
                terminals.end(&thread.owner, session).await;
                let end = running.watch().await;
                Some(TerminalEnd { exit: ProcessExit::TimedOut, ending: SessionEnding::Exited, ..end })
            }
        };
        match end {
            Some(end) => Ok(FollowOutcome::Ended(self.finish(running, end).await)),
            None => Err(self.cut_off(running).await),
        }
    }

    /// Collects the output and the exit code of a command that has ended.
    async fn finish(&self, running: &mut RunningCommand, end: TerminalEnd) -> FinishedCommand {
        let thread = &self.turn.thread;
        let session = running.session;
        let report = thread.engine.terminals.wait(&thread.owner, session, KILL_TIME).await;
        let output = report.map_or_else(|_| HeadTail::new(0), |report| report.output);
        let report = SessionReport { id: session, output, exit: Some(end.exit), waited: end.ran };
        FinishedCommand {
            code: match end.ending {
                SessionEnding::Exited => end.exit.code(),
                SessionEnding::Requested | SessionEnding::Evicted => ENDED_BY_OTHERS,
            },
            ran: end.ran,
            timed_out: end.exit == ProcessExit::TimedOut,
            report: running.with_refusals(report),
        }
    }

    /// Ends the command of an interrupted turn and completes its item.
    async fn cut_off(&self, running: &mut RunningCommand) -> TurnCancelled {
        let thread = &self.turn.thread;
        thread.engine.terminals.end(&thread.owner, running.session).await;
        let _ = tokio::time::timeout(KILL_TIME, running.watch()).await;
        let end = CommandEnd::cut_off(running.screen.output(), running.began.elapsed());
        self.emit_ended(end).await;
        TurnCancelled
    }

    /// Hands a command that outlives its call to a task of its own.
    pub(super) fn continue_in_background(
        &self,
        mut running: RunningCommand,
        report: SessionReport,
    ) -> CommandOutcome {
        let session = running.session;
        running.kill_on_drop.is_armed = false;
        let is_confined = !matches!(
            self.turn.settings.sandbox,
            SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. }
        );
        let terminal = BackgroundTerminal {
            item: self.item.id.clone(),
            line: self.line.script().map_or_else(|| self.item.command.clone(), str::to_owned),
            cwd: self.item.cwd.clone(),
            is_escalated: is_confined && self.mode == SandboxMode::Unsandboxed,
            completed: CancellationToken::new(),
        };
        self.turn.thread.terminals().insert(session, terminal);
        let item = self.item.clone();
        // The task ends with the session, which ends with the thread.
        tokio::spawn(async move {
            let end = running.watch().await;
            let item = item.ended(running.background_end(&end));
            running.reporter.background_command_ended(session, item).await;
        });
        CommandOutcome::Running { session, report }
    }
}
