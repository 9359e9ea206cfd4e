//! The task that owns a thread. [`ThreadEvent`] lists everything that can happen to it; each event has its `on_…`
//! method.
//!
//! | methods about | are in |
//! |---|---|
//! | the start of turns, and their tasks | `start.rs`, `launch.rs` |
//! | input for the running turn, and interrupts | `steer.rs` |
//! | changes of the settings | `settings_change.rs` |
//! | messages of turns and commands | `turn_messages.rs` |
//! | clients that join, and that subscribe at a position | `join.rs`, `subscribe.rs` |
//! | messages of stored records | `announce.rs` |
//! | storing records | `storing.rs` |
//! | requests with keys | `keyed.rs` |
//! | the next model request | `request.rs` |
//! | the model's context window and warnings about it | `model_facts.rs` |
//! | apps that input mentions | `apps.rs` |
//! | the end of turns | `finish.rs` |
//! | server requests and their answers | `questions.rs` |
//! | turns that outlive the process | `continuation.rs` |
//! | the goal | `goal.rs` |
//! | the queue | `queue.rs` |
//! | what the user has read | `read_state.rs` |
//! | reviews | `review.rs` |
//! | compaction, notices, injected items, rollback, revert | `history.rs` |
//! | other processes that write the thread | `other_writers.rs` |
//! | configuration, MCP servers, skills | `refresh.rs` |

use std::{collections::HashSet, sync::Arc, time::Duration};

use codicil_extensions::SkillWatch;
use codicil_mcp::ThreadServers;
use codicil_model::ServedModels;
use codicil_protocol::{
    CollabAgentState, MessageSeq, Thread, ThreadStatus, ThreadStatusChanged, ThreadStatusChangedNotification,
    TurnError, TurnId,
};
use codicil_store::Record;
use codicil_telemetry::TracePosition;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::{
    CommandReply, ElicitationChange, PostedCommand, ShownState, ThreadCommand, ThreadInbox, ThreadSetup,
    ThreadSnapshot, ThreadState, TurnOrigin, UnloadedTurn,
    active_turn::ActiveTurn,
    announce::UnsentMessages,
    input::InputContext,
    notifier::{Retry, ThreadNotifier},
    open_commands::OpenCommands,
    open_questions::EndedQuestion,
};
use crate::{
    engine_context::EngineContext,
    error::ThreadError,
    ids::new_turn_id,
    request_key::RequestKey,
    threads::WeakThreads,
    tools::{ThreadMcpServers, ThreadTools},
    turn_channel::{TurnMessage, TurnReporter, turn_channel},
};

/// Time between two tries of an idle thread to store what could not be stored.
const STORE_RETRY_TIME: Duration = Duration::from_secs(2);

/// The running side of a loaded thread.
pub(crate) struct ThreadActor {
    pub(super) engine: Arc<EngineContext>,
    pub(super) state: ThreadState,
    pub(super) notifier: Arc<ThreadNotifier>,
    /// The messages of stored records that are not sent yet.
    pub(super) unsent: UnsentMessages,
    /// The ordinal of the next record of an ephemeral thread, which only positions of messages depend on.
    pub(super) next_ephemeral: u64,
    pub(super) active: Option<ActiveTurn>,
    pub(super) tools: Arc<ThreadTools>,
    pub(super) commands: OpenCommands,
    /// Everything that turns and background commands report, in order.
    pub(super) turn_messages: mpsc::Receiver<TurnMessage>,
    turn_sender: mpsc::Sender<TurnMessage>,
    /// Notifies clients of changes to the skills of a loaded thread.
    pub(super) skills: SkillWatch,
    /// Records of what has happened that could not be stored yet.
    pub(super) late_records: Vec<Record>,
    /// The key of the current request.
    pub(super) request_key: Option<RequestKey>,
    /// The place of the current request in a trace.
    pub(super) request_trace: TracePosition,
    /// Whether another process has extended the conversation during a turn. The thread is then about to be unloaded.
    pub(super) is_overtaken: bool,
    /// Cancelled when this process may not act for the thread any more.
    pub(super) fence: CancellationToken,
    /// Whether a turn is being ended: it is not active any more, and its last records are not stored yet.
    pub(super) is_finishing: bool,
    /// The thread's state as a subagent, for its parent.
    pub(super) progress: watch::Sender<CollabAgentState>,
    /// The status, for readers that must not wait for the mailbox.
    shown: watch::Sender<ShownState>,
    /// The models of the provider, if it reports them itself.
    pub(super) served: Option<ServedModels>,
    /// The warnings about the model that clients have received.
    pub(super) warned: HashSet<String>,
    /// The number of configuration reloads that the thread has applied.
    pub(super) reloads_seen: u64,
    /// Whether clients know that the chosen reviewer of approvals is not available.
    pub(super) is_reviewer_reported: bool,
    /// Whether a turn of the goal starts when the thread is idle.
    pub(super) is_goal_due: bool,
    /// Whether the thread was loaded and neither a client has joined it nor a turn has ended since.
    pub(super) is_unresumed: bool,
    /// Whether the end of a turn has changed the goal and clients do not know it yet.
    pub(super) is_goal_unsent: bool,
    /// Whether the queue waits until it is started again.
    pub(super) is_queue_paused: bool,
    /// The revision of the read state that clients have seen.
    pub(super) announced_read: Option<u64>,
    /// The context of the last input. Further input repeats entries that the model has already.
    pub(super) previous_context: InputContext,
    /// The client that asked last for a turn. Turns that start by themselves run on its behalf.
    pub(super) last_origin: TurnOrigin,
    mailbox: mpsc::Receiver<PostedCommand>,
    pub(super) threads: WeakThreads,
    last_event: Instant,
}

/// Everything that can happen to a thread.
enum ThreadEvent {
    Command(PostedCommand),
    Turn(TurnMessage),
    /// The wait for the reply to a server request is over.
    QuestionEnded(EndedQuestion),
    /// The idle time has passed without an event.
    Idle,
    /// It is time to try again to store late records.
    StoreRetry,
    /// All handles of the thread have been dropped.
    Abandoned,
}

impl ThreadActor {
    pub fn new(
        engine: Arc<EngineContext>,
        threads: WeakThreads,
        state: ThreadState,
        servers: ThreadServers,
        inbox: ThreadInbox,
    ) -> Self {
        let tools = ThreadTools::new(engine.clone(), threads.clone(), &state, servers);
        let (turn_sender, turn_messages) = turn_channel();
        let ThreadInbox { mailbox, progress, shown, notifier, fence } = inbox;
        let skills = engine.extensions.skills.watch(&state.settings.cwd);
        let has_queue = !state.facts.queue.is_empty();
        let is_unresumed = state.last_turn.is_some() || state.goal.is_some() || has_queue;
        let announced_read = state.facts.read.revision;
        let is_queue_paused = state.is_last_turn_interrupted || has_queue;
        Self {
            engine,
            state,
            notifier,
            unsent: UnsentMessages::default(),
            next_ephemeral: 1,
            active: None,
            tools,
            commands: OpenCommands::default(),
            turn_messages,
            turn_sender,
            skills,
            late_records: Vec::new(),
            request_key: None,
            request_trace: TracePosition::default(),
            is_overtaken: false,
            fence,
            is_finishing: false,
            progress,
            shown,
            served: None,
            warned: HashSet::new(),
            // A reload while the thread was being created costs one more reload here.
            reloads_seen: 0,
            is_reviewer_reported: false,
            is_goal_due: false,
            is_unresumed,
            is_goal_unsent: false,
            is_queue_paused,
            announced_read,
            previous_context: InputContext::new(),
            last_origin: TurnOrigin::default(),
            mailbox,
            threads,
            last_event: Instant::now(),
        }
    }

    /// Runs until the thread is unloaded.
    pub async fn run(mut self) {
        self.show_state();
        self.on_loaded().await;
        loop {
            let event = self.next_event().await;
            self.last_event = Instant::now();
            self.is_overtaken |= self.fence.is_cancelled();
            match event {
                ThreadEvent::Command(PostedCommand {
                    command: ThreadCommand::Unload(turn, reply), ..
                }) => {
                    let status = self.shut_down(turn).await;
                    // The slot is free before the requester learns that the thread is unloaded.
                    self.state.slot = None;
                    return answer(reply, Ok(status));
                }
                ThreadEvent::Command(posted) => self.on_posted(posted).await,
                ThreadEvent::Turn(message) => {
                    let span = self.active_span();
                    let handled = async {
                        self.on_turn_message(message).await;
                        self.continue_positions().await;
                    };
                    handled.instrument(span).await;
                }
                ThreadEvent::QuestionEnded(ended) => {
                    let span = self.active_span();
                    self.on_question_ended(ended).instrument(span).await;
                }
                ThreadEvent::Idle => self.on_idle(),
                ThreadEvent::StoreRetry => self.on_store_retry().await,
                ThreadEvent::Abandoned => return drop(self.shut_down(UnloadedTurn::Parked).await),
            }
            self.start_waiting_work().await;
        }
    }

    /// Returns the span of the running turn.
    fn active_span(&self) -> Span {
        self.active.as_ref().map_or_else(Span::none, |active| active.span.clone())
    }

    /// Starts a turn that waits for the thread to be idle.
    async fn start_waiting_work(&mut self) {
        let may_start = self.is_idle() && self.state.continued.is_none() && !self.is_overtaken;
        if may_start && !self.start_queued().await {
            self.start_goal_turn().await;
        }
    }

    /// Parks or ends the turn, ends all commands, and tries for the last time to store late records. Returns the status that
    /// the thread has from then on.
    async fn shut_down(&mut self, turn: UnloadedTurn) -> ThreadStatus {
        let status = match turn {
            UnloadedTurn::Parked if self.state.continued.is_some() || self.park_turn().await => {
                self.state.status.clone()
            }
            UnloadedTurn::Parked => ThreadStatus::NotLoaded,
            UnloadedTurn::Interrupted => {
                self.continue_turn().await;
                ThreadStatus::NotLoaded
            }
        };
        self.end_active_turn().await;
        self.end_commands().await;
        if let Err(error) = self.store_or_keep(Vec::new()).await {
            tracing::error!(thread = %self.state.id, "failed to store the end of a turn: {error}");
        }
        status
    }

    async fn next_event(&mut self) -> ThreadEvent {
        let idle = sleep_until_some(self.idle_deadline());
        let store_retry = sleep_until_some(self.store_retry_time());
        let question = async {
            match &mut self.active {
                Some(active) => active.questions.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = self.mailbox.recv() => command.map_or(ThreadEvent::Abandoned, ThreadEvent::Command),
            // Before the turn's messages: a flood of output must not delay the reply to an approval.
            ended = question => ThreadEvent::QuestionEnded(ended),
            Some(message) = self.turn_messages.recv() => ThreadEvent::Turn(message),
            () = store_retry => ThreadEvent::StoreRetry,
            () = idle => ThreadEvent::Idle,
        }
    }

    /// When this idle thread may be unloaded; `None` if it is busy or a subagent. A turn that only waits for answers is not
    /// busy: it continues when the thread is loaded again. An ephemeral thread without subscribers
    /// cannot be joined again, so it goes too. An idle time of zero, or more than the clock has, means never.
    fn idle_deadline(&self) -> Option<Instant> {
        let is_waiting = self.can_park() && self.tools.terminals().is_empty();
        let is_free = is_waiting || (self.active.is_none() && self.commands.is_empty());
        let may_go = is_free && self.state.slot.is_none();
        let idle = self.state.config.settings.codicil.deadlines.idle_thread;
        if !may_go || idle.is_zero() { None } else { self.last_event.checked_add(idle) }
    }

    /// When an idle thread tries again to store what it could not store.
    fn store_retry_time(&self) -> Option<Instant> {
        let is_due = !self.late_records.is_empty() && self.is_idle() && !self.is_overtaken;
        is_due.then(|| self.last_event + STORE_RETRY_TIME)
    }

    /// Unloads a thread without subscribers: clients that disconnect leave their threads behind.
    fn on_idle(&self) {
        let Some(threads) = self.threads.upgrade() else { return };
        if !self.engine.clients.has_subscribers(&self.state.id)
            && threads.agents_of(&self.state.id).is_empty()
        {
            let id = self.state.id.clone();
            // Ends when this thread has ended.
            tokio::spawn(async move { threads.close(&id).await });
        }
    }

    pub(super) async fn on_command(&mut self, command: ThreadCommand) {
        // A client that joins gets its response before anything that the turn sends.
        if !matches!(command, ThreadCommand::Join(..) | ThreadCommand::Snapshot(_) | ThreadCommand::Setup(_))
        {
            self.continue_turn().await;
        }
        match command {
            ThreadCommand::StartTurn(params, origin, reply) => {
                self.on_start_turn(*params, origin, reply).await
            }
            ThreadCommand::Steer(params, generation, reply) => {
                answer(reply, self.on_steer(*params, generation).await);
            }
            ThreadCommand::Interrupt(turn, reply) => self.on_interrupt(turn, reply).await,
            ThreadCommand::Compact(origin, reply) => self.on_compact(origin, reply).await,
            ThreadCommand::Review(target, origin, reply) => self.on_review(target, origin, reply).await,
            ThreadCommand::Rollback(turns, reply) => self.on_rollback(turns, reply).await,
            ThreadCommand::Revert(before, reply) => self.on_revert(before, reply).await,
            ThreadCommand::Inject(items, reply) => answer(reply, self.on_inject(items).await),
            ThreadCommand::Shell(command, reply) => self.on_shell(command, reply).await,
            ThreadCommand::Snapshot(reply) => {
                self.refresh_records().await;
                let snapshot = self.snapshot().await;
                answer(reply, Ok(snapshot));
            }
            ThreadCommand::Setup(reply) => {
                let config = self.state.config.clone();
                answer(reply, Ok(ThreadSetup { config, settings: self.state.settings.clone() }));
            }
            ThreadCommand::ReportError(error) => self.on_report_error(error),
            ThreadCommand::Join(request, reply) => self.on_join(*request, reply).await,
            ThreadCommand::Subscribe(after, reply) => self.on_subscribe(after, reply).await,
            ThreadCommand::Notice(item) => self.on_notice(item).await,
            ThreadCommand::SetName(name, reply) => answer(reply, self.on_set_name(name).await),
            ThreadCommand::SetGit(git, reply) => {
                let stored = self.store(vec![Record::Git { git: git.clone() }]).await;
                answer(reply, stored.map(|()| self.state.git = git));
            }
            ThreadCommand::CleanTerminals(reply) => {
                let tools = self.tools.clone();
                // Ends with the commands. Not awaited, because their ends are messages to this actor.
                tokio::spawn(async move { tools.end_terminals().await });
                answer(reply, Ok(()));
            }
            ThreadCommand::McpServers(reply) => {
                answer(reply, Ok(ThreadMcpServers::new(self.tools.clone())));
            }
            ThreadCommand::Terminals(reply) => answer(reply, Ok(self.background_terminals())),
            ThreadCommand::EndTerminal(process, reply) => answer(reply, Ok(self.end_terminal(&process))),
            ThreadCommand::UpdateSettings(change, reply) => {
                answer(reply, self.on_update_settings(*change).await)
            }
            ThreadCommand::Goal(reply) => answer(reply, Ok(self.state.goal.clone())),
            ThreadCommand::SetGoal(change, origin, reply) => self.on_set_goal(change, origin, reply).await,
            ThreadCommand::ContinueWork => self.on_continue_work(),
            ThreadCommand::ClearGoal(reply) => answer(reply, self.on_clear_goal().await),
            ThreadCommand::Queue(reply) => {
                answer(reply, self.queued().await);
            }
            ThreadCommand::QueueAdd(params, origin, reply) => self.on_queue_add(params, origin, reply).await,
            ThreadCommand::QueueUpdate(params, reply) => {
                let updated = self.on_queue_update(&params.queued_submission_id, params.input).await;
                answer(reply, updated);
            }
            ThreadCommand::QueueDelete(id, reply) => answer(reply, self.on_queue_delete(id).await),
            ThreadCommand::QueueReorder(ids, reply) => answer(reply, self.on_queue_reorder(ids).await),
            ThreadCommand::QueueStart(id, origin, reply) => self.on_queue_start(id, origin, reply).await,
            ThreadCommand::SampleRequest(effort, reply) => answer(reply, self.on_sample_request(effort)),
            ThreadCommand::UpdateTurnSettings(turn, change, reply) => {
                answer(reply, self.on_update_turn_settings(&turn, *change));
            }
            ThreadCommand::UpdateReadState(params, reply) => {
                answer(reply, self.on_update_read_state(params).await);
            }
            ThreadCommand::CountElicitation(change, reply) => answer(reply, self.on_elicitation(change)),
            ThreadCommand::WaitingRequests(reply) => answer(reply, Ok(self.waiting_requests())),
            ThreadCommand::AnswerRequest(request, given, reply) => {
                answer(reply, self.on_answer_request(&request, given).await)
            }
            ThreadCommand::Unload(..) => unreachable!("handled by run"),
        }
    }

    fn on_elicitation(&mut self, change: ElicitationChange) -> Result<u64, ThreadError> {
        let open = *self.tools.elicitations.borrow();
        let open = match change {
            ElicitationChange::Begun => open.saturating_add(1),
            ElicitationChange::Ended => open.checked_sub(1).ok_or(ThreadError::NoElicitation)?,
        };
        self.tools.elicitations.send_replace(open);
        Ok(open)
    }

    /// Reports an error that belongs to no turn. It has a turn id of its own and does not affect a running turn.
    fn on_report_error(&mut self, error: TurnError) {
        if self.active.is_none() {
            self.set_status(ThreadStatus::SystemError);
        }
        self.notifier.error(&new_turn_id(), error, Retry::No);
    }

    async fn on_set_name(&mut self, name: String) -> Result<(), ThreadError> {
        let mut records = vec![Record::Name { name: name.clone() }];
        records.extend(self.key_records(&())?);
        let count = records.len() as u64;
        self.store(records).await?;
        self.notifier.note_name(MessageSeq::durable((self.last_ordinal() + 1).saturating_sub(count), 0));
        self.state.name = Some(name);
        Ok(())
    }

    /// Returns the thread as clients see it, with its section and project.
    pub(super) async fn shown_thread(&self) -> Thread {
        let mut thread = self.state.view();
        let facts = &self.state.facts;
        let labelled =
            self.engine.store.label(&mut thread, facts.section.as_ref(), facts.project_id.as_deref());
        if let Err(error) = labelled.await {
            tracing::warn!(thread = %self.state.id, "cannot read the section and project of a thread: {error}");
        }
        thread
    }

    pub(super) async fn snapshot(&self) -> ThreadSnapshot {
        ThreadSnapshot {
            thread: self.shown_thread().await,
            settings: self.state.settings.clone(),
            active_turn: self.active_turn(),
            open_items: match (&self.active, &self.state.continued) {
                (Some(active), _) => active.questions.open_items(),
                (None, Some(continued)) => continued.open_items(),
                (None, None) => Vec::new(),
            },
            goal: self.state.goal.clone(),
            read_state: self.read_state(),
            config: self.state.config.clone(),
        }
    }

    /// Returns the running turn, or the one that is about to continue.
    fn active_turn(&self) -> Option<TurnId> {
        let continued = self.state.continued.as_ref().map(|continued| continued.id());
        self.active.as_ref().map(|active| &active.id).or(continued).cloned()
    }

    /// Returns the sending half of the thread's channel, for a turn.
    pub(super) fn reporter(&self, turn_id: &TurnId) -> TurnReporter {
        TurnReporter::new(turn_id.clone(), self.turn_sender.clone())
    }

    /// Returns whether no turn is running or being ended.
    pub(super) fn is_idle(&self) -> bool {
        self.active.is_none() && !self.is_finishing
    }

    /// Sets the status that a loaded thread begins with. The request that loads it announces the status.
    pub(super) fn show_loaded_status(&mut self, status: ThreadStatus) {
        self.state.status = status.clone();
        self.show_state();
    }

    pub(super) fn set_status(&mut self, status: ThreadStatus) {
        if self.state.status == status || !self.may_send(&status) {
            return;
        }
        self.state.status = status;
        self.show_state();
        self.notifier.broadcast::<ThreadStatusChanged>(&self.status_params());
    }

    /// Returns the params of the message about the present status.
    pub(super) fn status_params(&self) -> ThreadStatusChangedNotification {
        let (thread_id, status) = (self.state.id.clone(), self.state.status.clone());
        ThreadStatusChangedNotification { thread_id, status }
    }

    /// Publishes the state that lists show.
    fn show_state(&self) {
        self.shown.send_replace(ShownState {
            status: self.state.status.clone(),
            environments: self.state.settings.environments(),
            is_untouched_fork: self.state.is_untouched_fork,
        });
    }
}

/// Waits until a time, or for ever.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Answers a command. The requester may have gone away in this moment.
pub(super) fn answer<T>(reply: CommandReply<T>, result: Result<T, ThreadError>) {
    let _ = reply.send(result);
}
