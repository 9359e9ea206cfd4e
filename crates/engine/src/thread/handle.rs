//! The handle of a loaded thread: what the rest of the process holds of it.
//!
//! Every method that asks for something posts a [`ThreadCommand`] before it returns its future, so that requests keep
//! the order in which they were made.

use std::{sync::Arc, time::Duration};

use codicil_protocol::{
    CollabAgentState, CollabAgentStatus, GitInfo, MessageSeq, ProtocolGeneration, QueuedSubmission,
    ReasoningEffort, ResponseItem, ReviewTarget, Thread, ThreadBackgroundTerminal, ThreadEnvironment,
    ThreadGoal, ThreadGoalSetParams, ThreadId, ThreadQueueAddParams, ThreadQueueUpdateParams,
    ThreadReadState, ThreadReadStateUpdateParams, ThreadStatus, Turn, TurnError, TurnId, TurnStartParams,
    TurnSteerParams,
};
use codicil_telemetry::{TracePosition, spans::note_thread};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{
    AnswerOutcome, ThreadNotifier, ThreadSubscription, WaitingRequest,
    command::{
        AnnouncedReply, CommandReply, ElicitationChange, JoinRequest, JoinedThread, PostedCommand,
        RevertedThread, ThreadCommand, ThreadSetup, ThreadSnapshot, TurnOrigin, UnloadedTurn,
    },
};
use crate::{
    error::ThreadError,
    request_key::RequestKey,
    samples::SampleRequest,
    subagent::{self, SubagentOrigin},
    thread_clients::ClientAnswer,
    tools::ThreadMcpServers,
};

/// Commands that may wait for one thread; more are refused as overload.
const MAILBOX: usize = 64;

/// A handle to a loaded thread. Its methods post a command at once and return the wait. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ThreadHandle {
    id: ThreadId,
    mailbox: mpsc::Sender<PostedCommand>,
    /// The key of the request on whose behalf this handle is used.
    key: Option<RequestKey>,
    /// Set for subagents.
    origin: Option<Arc<SubagentOrigin>>,
    progress: watch::Receiver<CollabAgentState>,
    shown: watch::Receiver<ShownState>,
    notifier: Arc<ThreadNotifier>,
    fence: CancellationToken,
}

/// The receiving half of a thread's handle.
pub(crate) struct ThreadInbox {
    pub(super) mailbox: mpsc::Receiver<PostedCommand>,
    pub(super) progress: watch::Sender<CollabAgentState>,
    pub(super) shown: watch::Sender<ShownState>,
    pub(super) notifier: Arc<ThreadNotifier>,
    /// Cancelled when this process may not act for the thread any more. Cancels the running turn.
    pub(super) fence: CancellationToken,
}

/// The part of a loaded thread's state that lists show.
#[derive(Clone, Debug)]
pub(crate) struct ShownState {
    pub status: ThreadStatus,
    pub environments: Vec<ThreadEnvironment>,
    /// Whether it is a fork that has no turn of its own.
    pub is_untouched_fork: bool,
}

impl ThreadHandle {
    pub(crate) fn new(
        id: ThreadId,
        origin: Option<SubagentOrigin>,
        notifier: ThreadNotifier,
        environments: Vec<ThreadEnvironment>,
    ) -> (Self, ThreadInbox) {
        let (mailbox, commands) = mpsc::channel(MAILBOX);
        let (progress, seen) = watch::channel(subagent::state(CollabAgentStatus::PendingInit));
        let (shown, currently_shown) =
            watch::channel(ShownState { status: ThreadStatus::Idle, environments, is_untouched_fork: false });
        let origin = origin.map(Arc::new);
        let notifier = Arc::new(notifier);
        let fence = CancellationToken::new();
        let inbox = ThreadInbox {
            mailbox: commands,
            progress,
            shown,
            notifier: notifier.clone(),
            fence: fence.clone(),
        };
        let handle =
            Self { id, mailbox, key: None, origin, progress: seen, shown: currently_shown, notifier, fence };
        (handle, inbox)
    }

    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    /// Stops the turn at once, however busy the thread is, and sends nothing more to subscribers. The thread is about to be
    /// unloaded.
    pub(crate) fn fence(&self) {
        self.notifier.silence();
        self.fence.cancel();
    }

    /// Returns the handle for a request with this key. A change whose key is known is answered with its first result.
    #[must_use]
    pub fn with_key(self, key: Option<RequestKey>) -> Self {
        Self { key, ..self }
    }

    /// Returns the current status without waiting for the thread; `None` if its task is over.
    pub fn status(&self) -> Option<ThreadStatus> {
        self.shown().map(|shown| shown.status)
    }

    /// Returns what lists show of the thread, without waiting for it; `None` if its task is over.
    pub(crate) fn shown(&self) -> Option<ShownState> {
        (!self.is_over()).then(|| self.shown.borrow().clone())
    }

    pub(crate) fn origin(&self) -> Option<&SubagentOrigin> {
        self.origin.as_deref()
    }

    /// Returns the thread's state as a subagent, to be watched. The channel closes when the thread ends.
    pub(crate) fn progress(&self) -> watch::Receiver<CollabAgentState> {
        self.progress.clone()
    }

    pub(crate) fn state(&self) -> CollabAgentState {
        self.progress.borrow().clone()
    }

    pub fn start_turn(
        &self,
        params: TurnStartParams,
        origin: TurnOrigin,
    ) -> impl Future<Output = Result<AnnouncedReply<Turn>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::StartTurn(Box::new(params), origin, reply))
    }

    pub fn steer(
        &self,
        params: TurnSteerParams,
        generation: ProtocolGeneration,
    ) -> impl Future<Output = Result<TurnId, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::Steer(Box::new(params), generation, reply))
    }

    /// Interrupts a turn. Refused if another turn is running. Some clients do not know the id yet and send an empty one;
    /// it means the running turn.
    pub fn interrupt(
        &self,
        turn: TurnId,
    ) -> impl Future<Output = Result<AnnouncedReply<()>, ThreadError>> + use<> {
        let turn = Some(turn).filter(|turn| !turn.is_empty());
        self.ask(|reply| ThreadCommand::Interrupt(turn, reply))
    }

    /// Interrupts whichever turn is running.
    pub(crate) fn interrupt_running(
        &self,
    ) -> impl Future<Output = Result<AnnouncedReply<()>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Interrupt(None, reply))
    }

    pub fn compact(
        &self,
        origin: TurnOrigin,
    ) -> impl Future<Output = Result<AnnouncedReply<()>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Compact(origin, reply))
    }

    pub fn review(
        &self,
        target: ReviewTarget,
        origin: TurnOrigin,
    ) -> impl Future<Output = Result<AnnouncedReply<Turn>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Review(target, origin, reply))
    }

    /// Drops the last turns.
    pub fn rollback(
        &self,
        turns: u32,
    ) -> impl Future<Output = Result<AnnouncedReply<Thread>, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::Rollback(turns, reply))
    }

    /// Drops a turn and all turns after it. A running turn is interrupted first.
    pub fn revert(
        &self,
        before: TurnId,
    ) -> impl Future<Output = Result<AnnouncedReply<RevertedThread>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Revert(before, reply))
    }

    /// Adds items to the model's history. They are stored when this returns.
    pub fn inject(&self, items: Vec<ResponseItem>) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Inject(items, reply))
    }

    /// Runs a user's shell command outside the sandbox, for a limited time if there is a limit.
    pub fn shell_command(
        &self,
        command: String,
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<AnnouncedReply<()>, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::Shell((command, timeout), reply))
    }

    pub fn snapshot(&self) -> impl Future<Output = Result<ThreadSnapshot, ThreadError>> + use<> {
        self.ask(ThreadCommand::Snapshot)
    }

    pub(crate) fn setup(&self) -> impl Future<Output = Result<ThreadSetup, ThreadError>> + use<> {
        self.ask(ThreadCommand::Setup)
    }

    /// Has the thread report an error that is part of no turn. A thread whose mailbox is full does not.
    pub(crate) fn report_error(&self, error: TurnError) {
        let _ = self.mailbox.try_send(ThreadCommand::ReportError(error).into());
    }

    /// Returns the thread for a client that subscribes. The thread waits until the client has, so that the answer and
    /// the notifications after it are complete.
    pub(crate) fn join(
        &self,
        request: JoinRequest,
    ) -> impl Future<Output = Result<AnnouncedReply<JoinedThread>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Join(Box::new(request), reply))
    }

    /// Returns what a client at a position has missed. The thread waits until the client has it.
    pub(crate) fn subscribe(
        &self,
        after: Option<MessageSeq>,
    ) -> impl Future<Output = Result<AnnouncedReply<ThreadSubscription>, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::Subscribe(after, reply))
    }

    /// Returns the position of the thread's last message.
    pub(crate) fn position(&self) -> MessageSeq {
        self.notifier.position()
    }

    /// Returns the sender of the thread's notifications.
    pub(crate) fn notifier(&self) -> &ThreadNotifier {
        &self.notifier
    }

    /// Returns whether the thread's task has ended or panicked.
    pub(crate) fn is_over(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Waits for the end of the thread's task.
    pub(crate) async fn over(&self) {
        self.mailbox.closed().await;
    }

    /// Adds an item to the model's history with its next request. Waits for room in the mailbox, so that it is not lost.
    pub(crate) async fn notice(&self, item: ResponseItem) {
        // An error means that the thread has been unloaded.
        let _ = self.mailbox.send(ThreadCommand::Notice(item).into()).await;
    }

    pub fn set_name(&self, name: String) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::SetName(name, reply))
    }

    pub fn set_git(&self, git: Option<GitInfo>) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::SetGit(git, reply))
    }

    /// Ends all background commands.
    pub fn clean_terminals(&self) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(ThreadCommand::CleanTerminals)
    }

    /// Returns the background commands, oldest first.
    pub fn terminals(
        &self,
    ) -> impl Future<Output = Result<Vec<ThreadBackgroundTerminal>, ThreadError>> + use<> {
        self.ask(ThreadCommand::Terminals)
    }

    /// Returns the thread's MCP servers.
    pub fn mcp_servers(&self) -> impl Future<Output = Result<ThreadMcpServers, ThreadError>> + use<> {
        self.ask(ThreadCommand::McpServers)
    }

    /// Ends a background command. Returns false if it does not run.
    pub fn end_terminal(&self, process: String) -> impl Future<Output = Result<bool, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::EndTerminal(process, reply))
    }

    /// Changes the settings of the next turns. A running turn keeps its own.
    pub fn update_settings(
        &self,
        change: TurnStartParams,
    ) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::UpdateSettings(Box::new(change), reply))
    }

    pub(crate) fn goal(&self) -> impl Future<Output = Result<Option<ThreadGoal>, ThreadError>> + use<> {
        self.ask(ThreadCommand::Goal)
    }

    pub(crate) fn set_goal(
        &self,
        change: ThreadGoalSetParams,
        origin: TurnOrigin,
    ) -> impl Future<Output = Result<AnnouncedReply<ThreadGoal>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::SetGoal(change, origin, reply))
    }

    /// Lets a thread that was just loaded go on with its queue and its goal. A thread whose mailbox is full does not.
    pub fn continue_work(&self) {
        let _ = self.mailbox.try_send(ThreadCommand::ContinueWork.into());
    }

    /// Returns false if there is no goal.
    pub(crate) fn clear_goal(&self) -> impl Future<Output = Result<bool, ThreadError>> + use<> {
        self.ask(ThreadCommand::ClearGoal)
    }

    pub(crate) fn queue(&self) -> impl Future<Output = Result<Vec<QueuedSubmission>, ThreadError>> + use<> {
        self.ask(ThreadCommand::Queue)
    }

    pub(crate) fn queue_add(
        &self,
        params: ThreadQueueAddParams,
        origin: TurnOrigin,
    ) -> impl Future<Output = Result<AnnouncedReply<QueuedSubmission>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::QueueAdd(params, origin, reply))
    }

    pub(crate) fn queue_update(
        &self,
        params: ThreadQueueUpdateParams,
    ) -> impl Future<Output = Result<QueuedSubmission, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::QueueUpdate(params, reply))
    }

    /// Removes a submission. Returns false if the queue does not have it.
    pub(crate) fn queue_delete(&self, id: String) -> impl Future<Output = Result<bool, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::QueueDelete(id, reply))
    }

    pub(crate) fn queue_reorder(
        &self,
        ids: Vec<String>,
    ) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::QueueReorder(ids, reply))
    }

    pub(crate) fn queue_start(
        &self,
        id: Option<String>,
        origin: TurnOrigin,
    ) -> impl Future<Output = Result<AnnouncedReply<Turn>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::QueueStart(id, origin, reply))
    }

    pub(crate) fn sample_request(
        &self,
        effort: Option<ReasoningEffort>,
    ) -> impl Future<Output = Result<SampleRequest, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::SampleRequest(effort, reply))
    }

    /// Changes the settings of a turn for the rest of it. Returns false if it does not run.
    pub fn update_turn_settings(
        &self,
        turn: TurnId,
        change: TurnStartParams,
    ) -> impl Future<Output = Result<bool, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::UpdateTurnSettings(turn, Box::new(change), reply))
    }

    pub(crate) fn update_read_state(
        &self,
        params: ThreadReadStateUpdateParams,
    ) -> impl Future<Output = Result<ThreadReadState, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::UpdateReadState(params, reply))
    }

    /// Returns the number of open out-of-band elicitations after the change.
    pub fn count_elicitation(
        &self,
        change: ElicitationChange,
    ) -> impl Future<Output = Result<u64, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::CountElicitation(change, reply))
    }

    pub(crate) fn unload(
        &self,
        turn: UnloadedTurn,
    ) -> impl Future<Output = Result<ThreadStatus, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::Unload(turn, reply))
    }

    /// Returns the open server requests that outlive the process.
    pub fn waiting_requests(&self) -> impl Future<Output = Result<Vec<WaitingRequest>, ThreadError>> + use<> {
        self.ask(ThreadCommand::WaitingRequests)
    }

    /// Answers a server request; `None` if the running turn does not have it.
    pub(crate) fn answer_request(
        &self,
        request: String,
        answer: ClientAnswer,
    ) -> impl Future<Output = Result<Option<AnswerOutcome>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::AnswerRequest(request, answer, reply))
    }

    /// Posts before returning, so that callers keep the order in which they called.
    /// A full mailbox is the protocol's overload, not a wait.
    fn ask<T, F>(&self, command: F) -> impl Future<Output = Result<T, ThreadError>> + use<T, F>
    where
        F: FnOnce(CommandReply<T>) -> ThreadCommand,
    {
        let (reply, answer) = oneshot::channel();
        note_thread(&self.id);
        let trace = TracePosition::current();
        let posted = PostedCommand { command: command(reply), key: self.key.clone(), trace };
        let posted = self.mailbox.try_send(posted).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ThreadError::Busy,
            mpsc::error::TrySendError::Closed(_) => ThreadError::Closed,
        });
        async move {
            posted?;
            answer.await.unwrap_or(Err(ThreadError::Closed))
        }
    }
}
