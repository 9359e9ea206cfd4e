//! Following a command: its output as it comes, its end, and what happens when it outlives its call.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_exec::{HeadTail, ProcessExit, SessionEnding, SessionEvent, SessionId, SessionReport};
use codicil_protocol::CommandExecutionStatus;
use tokio::{runtime::Handle, sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    CommandEnd, CommandItem, CommandOutcome, CommandScreen, FinishedCommand, RequestedCommand, TurnTools,
    clock::ClockPauses,
};
use crate::{
    tools::{
        call::TurnCancelled,
        kit::{BackgroundTerminal, ThreadTools},
        network::CommandNetwork,
    },
    turn_channel::TurnReporter,
};

/// What is told of a command that somebody other than itself ended.
const ENDED_BY_OTHERS: i32 = -1;

/// How long a command that was killed may take to be gone.
const KILL_TIME: Duration = Duration::from_secs(1);

/// A command at work, and what has been seen of it.
pub(super) struct RunningCommand {
    pub session: SessionId,
    events: mpsc::Receiver<SessionEvent>,
    screen: CommandScreen,
    reporter: TurnReporter,
    began: Instant,
    leash: KillOnDrop,
    network: Option<CommandNetwork>,
    /// Whether a host that the command wanted to reach was refused.
    was_refused: bool,
}

/// Ends the command of a call that is dropped half way.
struct KillOnDrop {
    kit: Arc<ThreadTools>,
    session: SessionId,
    /// Not once the command is over, or meant to go on.
    is_held: bool,
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let (true, Ok(runtime)) = (self.is_held, Handle::try_current()) else { return };
        let (kit, session) = (self.kit.clone(), self.session);
        // Ends with the command, which is killed at once.
        runtime.spawn(async move { kit.engine.terminals.end(&kit.owner, session).await });
    }
}

/// The end of a session as the session tells it.
struct TerminalEnd {
    exit: ProcessExit,
    ending: SessionEnding,
    ran: Duration,
}

/// How a call that follows a command is over.
pub(super) enum FollowOutcome {
    Ended(FinishedCommand),
    /// The command goes on.
    Yielded(SessionReport),
}

impl RunningCommand {
    pub fn new(
        tools: &TurnTools,
        item: &CommandItem,
        session: SessionId,
        events: mpsc::Receiver<SessionEvent>,
        network: Option<CommandNetwork>,
    ) -> Self {
        Self {
            session,
            events,
            screen: CommandScreen::new(tools.kit.thread.clone(), tools.turn.clone(), item.id.clone()),
            reporter: tools.reporter.clone(),
            began: Instant::now(),
            leash: KillOnDrop { kit: tools.kit.clone(), session, is_held: true },
            network,
            was_refused: false,
        }
    }

    /// Shows the output until the command is over.
    async fn watch(&mut self) -> TerminalEnd {
        while let Some(event) = self.events.recv().await {
            match event {
                SessionEvent::Output { chunk, .. } => {
                    let shown = self.screen.show(&chunk.bytes);
                    self.reporter.report(shown.into_iter().collect()).await;
                }
                SessionEvent::Ended { exit, ending, ran, .. } => {
                    self.leash.is_held = false;
                    let shown = self.screen.flush();
                    self.reporter.report(shown.into_iter().collect()).await;
                    return TerminalEnd { exit, ending, ran };
                }
            }
        }
        // Sessions say when they end; one that does not was dropped with everything else.
        TerminalEnd { exit: ProcessExit::Unknown, ending: SessionEnding::Asked, ran: self.began.elapsed() }
    }

    fn clock(&self, time: Option<Duration>) -> impl Future<Output = ()> + use<> {
        let hosts = self.network.as_ref().map(|network| network.gate.waiting());
        ClockPauses { hosts, elicitations: self.leash.kit.elicitations.subscribe() }
            .elapse(self.began.into(), time)
    }

    /// Adds, for the model, which hosts were refused and why: the command itself often does not tell.
    fn with_refusals(&mut self, mut report: SessionReport) -> SessionReport {
        let refusals = self.network.as_ref().map(|network| network.gate.take_refusals());
        for refusal in refusals.into_iter().flatten() {
            self.was_refused = true;
            report.output.push(format!("\n[{refusal}]").as_bytes());
        }
        report
    }

    /// Whether the command seems to have failed because of its sandbox. A host that was refused is no such case:
    /// to leave the sandbox would get around who refused it.
    pub fn looks_denied(&self, code: i32) -> bool {
        !self.was_refused && codicil_sandbox::looks_denied(code, &self.screen.output().unwrap_or_default())
    }

    /// The end of a command that ended by itself, or by its time limit.
    pub fn end(&self, ended: &FinishedCommand) -> CommandEnd {
        CommandEnd::exited(ended.code, self.screen.output(), self.began.elapsed())
    }

    fn over(&self, over: &TerminalEnd) -> CommandEnd {
        match over.ending {
            SessionEnding::ByItself => CommandEnd::exited(over.exit.code(), self.screen.output(), over.ran),
            SessionEnding::Asked | SessionEnding::Evicted => CommandEnd {
                status: CommandExecutionStatus::Failed,
                output: self.screen.output(),
                exit_code: Some(ENDED_BY_OTHERS),
                ran: Some(over.ran),
            },
        }
    }
}

impl TurnTools {
    /// Follows a command until it ends, or the call has waited long enough. An interrupted turn takes the
    /// command with it.
    pub(super) async fn follow(
        &self,
        wanted: &RequestedCommand,
        item: &CommandItem,
        running: &mut RunningCommand,
    ) -> Result<FollowOutcome, TurnCancelled> {
        let impatience = running.clock(wanted.patience);
        let time_up = running.clock(wanted.timeout);
        tokio::pin!(impatience, time_up);
        let (terminals, owner, session) = (&self.kit.engine.terminals, &self.kit.owner, running.session);
        let over = tokio::select! {
            biased;
            () = self.cancel.cancelled() => None,
            over = running.watch() => Some(over),
            () = &mut impatience => {
                let report = terminals.wait(owner, session, Duration::ZERO).await;
                // It may have ended in this very moment.
                if let Ok(report) = report
                    && report.exit.is_none()
                {
                    let waited = running.began.elapsed();
                    let report = running.with_refusals(report);
                    return Ok(FollowOutcome::Yielded(SessionReport { waited, ..report }));
                }
                Some(running.watch().await)
            }
            () = &mut time_up => {
                terminals.end(owner, session).await;
                let over = running.watch().await;
                Some(TerminalEnd { exit: ProcessExit::TimedOut, ending: SessionEnding::ByItself, ..over })
            }
        };
        let Some(over) = over else {
            terminals.end(owner, session).await;
            let _ = timeout(KILL_TIME, running.watch()).await;
            let end = CommandEnd::cut_off(running.screen.output(), running.began.elapsed());
            self.say_ended(item, end).await;
            return Err(TurnCancelled);
        };
        let report = terminals.wait(owner, session, KILL_TIME).await;
        let code = match over.ending {
            SessionEnding::ByItself => over.exit.code(),
            SessionEnding::Asked | SessionEnding::Evicted => ENDED_BY_OTHERS,
        };
        let output = report.map_or_else(|_| HeadTail::new(0), |report| report.output);
        let report = SessionReport { id: session, output, exit: Some(over.exit), waited: over.ran };
        let report = running.with_refusals(report);
        Ok(FollowOutcome::Ended(FinishedCommand {
            code,
            ran: over.ran,
            timed_out: over.exit == ProcessExit::TimedOut,
            report,
        }))
    }

    /// The call is over and the command is not: somebody else follows it from here.
    pub(super) fn leave_running(
        &self,
        item: &CommandItem,
        mut running: RunningCommand,
        report: SessionReport,
    ) -> CommandOutcome {
        let session = running.session;
        running.leash.is_held = false;
        let terminal = BackgroundTerminal { item: item.id.clone(), over: CancellationToken::new() };
        self.kit.terminals().insert(session, terminal);
        let item = item.clone();
        // Ends with the session, which ends with the thread.
        tokio::spawn(async move {
            let end = running.watch().await;
            running.reporter.background_command_ended(session, item.ended(running.over(&end))).await;
        });
        CommandOutcome::Running { session, report }
    }
}
