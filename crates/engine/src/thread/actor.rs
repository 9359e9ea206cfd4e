//! The task that owns a thread. Its events are a closed list; each has its `on_…` method.

use std::{collections::BTreeMap, sync::Arc};

use codicil_extensions::SkillWatch;
use codicil_mcp::ThreadServers;
use codicil_protocol::{
    CollabAgentState, Frame, ItemId, NotificationMethod, ThreadItem, ThreadStatus, ThreadStatusChanged,
    ThreadStatusChangedNotification, TurnError, TurnId,
};
use codicil_store::Record;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

use super::{
    AnnouncedReply, CommandReply, ElicitationChange, JoinedThread, ThreadCommand, ThreadInbox, ThreadSetup,
    ThreadSnapshot, ThreadState, active::ActiveTurn, goal::TurnMark,
};
use crate::{
    error::ThreadError,
    ids::new_turn_id,
    step::{TurnEvent, TurnOutcome},
    threads::{IncludeTurns, WeakThreads, stored_turns},
    tools::{TerminalReport, ThreadTools},
    world::EngineContext,
};

/// A thread at work.
pub(crate) struct ThreadActor {
    pub(super) world: Arc<EngineContext>,
    pub(super) state: ThreadState,
    pub(super) active: Option<ActiveTurn>,
    pub(super) kit: Arc<ThreadTools>,
    /// Commands that have begun and are not complete; they may outlive their turn.
    pub(super) commands: BTreeMap<ItemId, (TurnId, ThreadItem)>,
    pub(super) reports: mpsc::Receiver<TerminalReport>,
    /// Clients hear of changes to the skills of a loaded thread.
    pub(super) skills: SkillWatch,
    /// The end of a turn that could not be stored yet.
    late_records: Vec<Record>,
    /// Where the turn that is running began.
    pub(super) turn_mark: Option<TurnMark>,
    /// How far it has come, for threads whose agent it is.
    pub(super) progress: watch::Sender<CollabAgentState>,
    /// The status, for readers that must not wait for the mailbox.
    status: watch::Sender<ThreadStatus>,
    /// How many of the configuration's reloads it has seen.
    pub(super) reloads_seen: u64,
    mailbox: mpsc::Receiver<ThreadCommand>,
    threads: WeakThreads,
    /// When something last happened.
    last_event: Instant,
}

/// Everything that can happen to a thread.
enum ThreadEvent {
    Command(ThreadCommand),
    Steps(Vec<TurnEvent>),
    /// News of commands.
    Report(TerminalReport),
    TurnOver(TurnOutcome),
    /// Nothing has happened for a long time.
    Quiet,
    /// Nobody holds the thread any more.
    Abandoned,
}

impl ThreadActor {
    pub fn new(
        world: Arc<EngineContext>,
        threads: WeakThreads,
        state: ThreadState,
        servers: ThreadServers,
        inbox: ThreadInbox,
    ) -> Self {
        let (kit, reports) = ThreadTools::new(world.clone(), threads.clone(), &state, servers);
        let ThreadInbox { mailbox, progress, status } = inbox;
        let skills = world.extensions.skills.watch(&state.settings.cwd);
        let commands = BTreeMap::new();
        Self {
            world,
            state,
            active: None,
            kit,
            commands,
            reports,
            skills,
            late_records: Vec::new(),
            turn_mark: None,
            progress,
            status,
            // A reload may have come while the thread was being made; then it looks once more than it has to.
            reloads_seen: 0,
            mailbox,
            threads,
            last_event: Instant::now(),
        }
    }

    /// Runs until the thread is unloaded.
    pub async fn run(mut self) {
        loop {
            let event = self.next_event().await;
            self.last_event = Instant::now();
            match event {
                ThreadEvent::Command(ThreadCommand::Unload(reply)) => {
                    self.end_active_turn().await;
                    self.end_commands().await;
                    self.store_late().await;
                    // Free before anybody learns that the thread is gone.
                    self.state.seat = None;
                    // Whoever asked may be gone; the thread ends all the same.
                    let _ = reply.send(Ok(()));
                    return;
                }
                ThreadEvent::Command(command) => self.on_command(command).await,
                ThreadEvent::Steps(steps) => self.on_steps(steps).await,
                ThreadEvent::Report(report) => self.on_report(report).await,
                ThreadEvent::TurnOver(outcome) => self.on_turn_over(outcome).await,
                ThreadEvent::Quiet => self.on_quiet(),
                ThreadEvent::Abandoned => {
                    self.end_active_turn().await;
                    self.end_commands().await;
                    self.store_late().await;
                    return;
                }
            }
        }
    }

    /// Tries for the last time to store what could not be stored before.
    async fn store_late(&mut self) {
        if let Err(error) = self.store_or_keep(Vec::new()).await {
            tracing::error!(thread = %self.state.id, "the end of a turn is lost: {error}");
        }
    }

    async fn next_event(&mut self) -> ThreadEvent {
        let quiet = self.quiet_at();
        let quiet = async {
            match quiet {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let turn = async {
            match &mut self.active {
                Some(active) => {
                    active.next_event().await.map_or_else(ThreadEvent::TurnOver, ThreadEvent::Steps)
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = self.mailbox.recv() => command.map_or(ThreadEvent::Abandoned, ThreadEvent::Command),
            // Before the turn: what a tool says of a command comes before what it says to the model.
            Some(report) = self.reports.recv() => ThreadEvent::Report(report),
            event = turn => event,
            () = quiet => ThreadEvent::Quiet,
        }
    }

    /// When this idle thread may be unloaded; `None` if it is busy or a subagent. An ephemeral thread without subscribers
    /// cannot be joined again, so it goes too. An idle time of zero, or more than the clock has, means never.
    fn quiet_at(&self) -> Option<Instant> {
        let is_free = self.active.is_none() && self.commands.is_empty();
        let may_go = is_free && self.state.seat.is_none();
        let idle = self.state.config.settings.codicil.deadlines.idle_thread;
        if !may_go || idle.is_zero() { None } else { self.last_event.checked_add(idle) }
    }

    /// Clients that went away without a word leave their threads behind; those must not pile up.
    fn on_quiet(&self) {
        let Some(threads) = self.threads.upgrade() else { return };
        if !self.world.audience.is_heard(&self.state.id) && threads.agents_of(&self.state.id).is_empty() {
            let id = self.state.id.clone();
            // Ends by itself, when this thread has.
            tokio::spawn(async move { threads.close(&id).await });
        }
    }

    async fn on_command(&mut self, command: ThreadCommand) {
        match command {
            ThreadCommand::StartTurn(params, origin, reply) => {
                self.on_start_turn(*params, origin, reply).await
            }
            ThreadCommand::Steer { input, expected, reply } => {
                answer(reply, self.on_steer(input, &expected).await)
            }
            ThreadCommand::Interrupt(reply) => self.on_interrupt(reply),
            ThreadCommand::Compact(origin, reply) => self.on_compact(origin, reply).await,
            ThreadCommand::Review(target, origin, reply) => self.on_review(target, origin, reply).await,
            ThreadCommand::Rollback(turns, reply) => self.on_rollback(turns, reply).await,
            ThreadCommand::Shell(command, reply) => self.on_shell(command, reply).await,
            ThreadCommand::Snapshot(reply) => answer(reply, Ok(self.snapshot())),
            ThreadCommand::Setup(reply) => {
                let (config, settings) = (self.state.config.clone(), self.state.settings.clone());
                answer(reply, Ok(ThreadSetup { config, settings }));
            }
            ThreadCommand::Complain(error) => self.on_complaint(error),
            ThreadCommand::Join(turns, reply) => self.on_join(turns, reply).await,
            ThreadCommand::Notice(item) => self.on_notice(item).await,
            ThreadCommand::SetName(name, reply) => {
                let stored = self.store(vec![Record::Name { name: name.clone() }]).await;
                answer(reply, stored.map(|()| self.state.name = Some(name)));
            }
            ThreadCommand::SetGit(git, reply) => {
                let stored = self.store(vec![Record::Git { git: git.clone() }]).await;
                answer(reply, stored.map(|()| self.state.git = git));
            }
            ThreadCommand::CleanTerminals(reply) => {
                let kit = self.kit.clone();
                // Ends by itself, when the commands have. Not waited for: their ends are reported here.
                tokio::spawn(async move { kit.end_terminals().await });
                answer(reply, Ok(()));
            }
            ThreadCommand::Terminals(reply) => answer(reply, Ok(self.background_terminals())),
            ThreadCommand::EndTerminal(process, reply) => answer(reply, Ok(self.end_terminal(&process))),
            ThreadCommand::UpdateSettings(change, reply) => {
                answer(reply, self.on_update_settings(*change).await)
            }
            ThreadCommand::Goal(reply) => answer(reply, Ok(self.state.goal.clone())),
            ThreadCommand::SetGoal(change, reply) => answer(reply, self.on_set_goal(change).await),
            ThreadCommand::ClearGoal(reply) => answer(reply, self.on_clear_goal().await),
            ThreadCommand::CountElicitation(change, reply) => answer(reply, self.on_elicitation(change)),
            ThreadCommand::Unload(_) => unreachable!("handled by run"),
        }
    }

    async fn on_join(&mut self, turns: IncludeTurns, reply: CommandReply<AnnouncedReply<JoinedThread>>) {
        let snapshot = self.snapshot();
        let turns = match self.state.log.is_some() && turns == IncludeTurns::Included {
            true => stored_turns(&self.world, &self.state.id, snapshot.active_turn.as_deref()).await,
            false => Ok(Vec::new()),
        };
        match turns {
            Ok(turns) => {
                self.state.usage_unsaid = true;
                self.accept(reply, JoinedThread { snapshot, turns }).await;
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    fn on_elicitation(&mut self, change: ElicitationChange) -> Result<u64, ThreadError> {
        let open = *self.kit.elicitations.borrow();
        let open = match change {
            ElicitationChange::Begun => open.saturating_add(1),
            ElicitationChange::Ended => open.checked_sub(1).ok_or(ThreadError::NoElicitation)?,
        };
        self.kit.elicitations.send_replace(open);
        Ok(open)
    }

    /// An error that belongs to no turn has an id of its own, and does not disturb a turn that is running.
    fn on_complaint(&mut self, error: TurnError) {
        if self.active.is_none() {
            self.set_status(ThreadStatus::SystemError);
        }
        self.report_error(&new_turn_id(), error, false);
    }

    fn snapshot(&self) -> ThreadSnapshot {
        ThreadSnapshot {
            thread: self.state.view(),
            settings: self.state.settings.clone(),
            active_turn: self.active.as_ref().map(|active| active.id.clone()),
            goal: self.state.goal.clone(),
            config: self.state.config.clone(),
        }
    }

    /// Writes records; what is written may be said. What could not be written before goes first.
    pub(super) async fn store(&mut self, records: Vec<Record>) -> Result<(), ThreadError> {
        let late = self.late_records.len();
        let stored = self.store_or_keep(records).await;
        if stored.is_err() {
            self.late_records.truncate(late);
        }
        stored
    }

    /// Writes records that describe what has happened already. If that fails, on a full disk or because another
    /// process has locked the file, they are written with the next ones.
    pub(super) async fn store_or_keep(&mut self, records: Vec<Record>) -> Result<(), ThreadError> {
        let Some(log) = &mut self.state.log else { return Ok(()) };
        self.late_records.extend(records);
        log.append(&self.late_records).await?;
        self.late_records.clear();
        Ok(())
    }

    pub(super) fn set_status(&mut self, status: ThreadStatus) {
        if self.state.status == status {
            return;
        }
        self.state.status = status.clone();
        self.status.send_replace(status.clone());
        let params = ThreadStatusChangedNotification { thread_id: self.state.id.clone(), status };
        self.world.audience.broadcast::<ThreadStatusChanged>(&params);
    }

    /// Tells the thread's subscribers.
    pub(super) fn notify<N: NotificationMethod>(&self, params: &N::Params) {
        self.tell(&Frame::notification::<N>(params));
    }

    pub(super) fn tell(&self, frame: &Frame) {
        self.world.audience.tell(&self.state.id, frame);
    }
}

/// The asker may have given up in this very moment; then there is nobody to tell.
pub(super) fn answer<T>(reply: CommandReply<T>, result: Result<T, ThreadError>) {
    let _ = reply.send(result);
}
