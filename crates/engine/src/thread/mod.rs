//! A loaded thread, as others hold it.

mod active;
mod actor;
mod agent;
mod commands;
mod compaction;
mod config;
mod finish;
mod goal;
mod input;
mod questions;
mod request;
mod review;
mod rollback;
mod say;
mod servers;
mod shell;
mod skills;
mod state;
mod steer;
mod steps;
mod turns;

use std::sync::Arc;

use codicil_config::EffectiveConfig;
use codicil_protocol::{
    CollabAgentState, CollabAgentStatus, GitInfo, ResponseItem, ReviewTarget, Thread,
    ThreadBackgroundTerminal, ThreadGoal, ThreadGoalSetParams, ThreadId, ThreadStatus, Turn, TurnError,
    TurnId, TurnStartParams, UserInput,
};
use codicil_store::StoredTurn;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    error::ThreadError,
    kin::{self, SubagentOrigin},
    settings::TurnSettings,
    threads::IncludeTurns,
};

pub use {active::TurnKind, review::check_review_target};

pub(crate) use {actor::ThreadActor, agent::InheritedHistory, state::ThreadState};

/// Commands that may wait for one thread; more are refused as overload.
const MAILBOX: usize = 64;

/// What is held of a loaded thread. Posts at once and returns the wait; cheap to clone.
#[derive(Clone, Debug)]
pub struct ThreadHandle {
    id: ThreadId,
    mailbox: mpsc::Sender<ThreadCommand>,
    /// Set for agents that another thread's agent started.
    kin: Option<Arc<SubagentOrigin>>,
    progress: watch::Receiver<CollabAgentState>,
    status: watch::Receiver<ThreadStatus>,
}

/// The thread's own end of its handle.
pub(crate) struct ThreadInbox {
    mailbox: mpsc::Receiver<ThreadCommand>,
    progress: watch::Sender<CollabAgentState>,
    status: watch::Sender<ThreadStatus>,
}

/// Who asks for a turn, for the headers of its requests.
#[derive(Clone, Debug, Default)]
pub struct TurnOrigin {
    pub name: String,
    pub user_agent: String,
}

/// Held by whoever answers a request: what the thread has to say about it follows when this is dropped.
#[derive(Debug)]
pub struct AnnounceGuard(#[expect(dead_code, reason = "its end is the message")] oneshot::Sender<()>);

/// An answer, and what holds back the notifications that must come after it.
#[derive(Debug)]
pub struct AnnouncedReply<T> {
    pub answer: T,
    pub announce: AnnounceGuard,
}

impl<T> AnnouncedReply<T> {
    pub(crate) fn new(answer: T) -> (Self, oneshot::Receiver<()>) {
        let (sender, said) = oneshot::channel();
        (Self { answer, announce: AnnounceGuard(sender) }, said)
    }
}

/// A thread as it is now.
#[derive(Clone, Debug)]
pub struct ThreadSnapshot {
    pub thread: Thread,
    pub settings: TurnSettings,
    pub active_turn: Option<TurnId>,
    pub goal: Option<ThreadGoal>,
    /// What holds for it, requirements and features included.
    pub config: Arc<EffectiveConfig>,
}

/// A thread as it is now, and what is stored of it.
#[derive(Debug)]
pub(crate) struct JoinedThread {
    pub snapshot: ThreadSnapshot,
    pub turns: Vec<StoredTurn>,
}

/// What a thread was set up with.
#[derive(Clone, Debug)]
pub(crate) struct ThreadSetup {
    pub config: Arc<EffectiveConfig>,
    pub settings: TurnSettings,
}

pub(crate) type CommandReply<T> = oneshot::Sender<Result<T, ThreadError>>;

/// Everything that can be asked of a thread.
pub(crate) enum ThreadCommand {
    StartTurn(Box<TurnStartParams>, TurnOrigin, CommandReply<AnnouncedReply<Turn>>),
    Steer {
        input: Vec<UserInput>,
        expected: TurnId,
        reply: CommandReply<TurnId>,
    },
    Interrupt(CommandReply<AnnouncedReply<()>>),
    Compact(TurnOrigin, CommandReply<AnnouncedReply<()>>),
    Review(ReviewTarget, TurnOrigin, CommandReply<AnnouncedReply<Turn>>),
    Rollback(u32, CommandReply<AnnouncedReply<Thread>>),
    Shell(String, CommandReply<AnnouncedReply<()>>),
    Snapshot(CommandReply<ThreadSnapshot>),
    Setup(CommandReply<ThreadSetup>),
    /// Something failed that is part of no turn.
    Complain(TurnError),
    /// Somebody begins to listen. Nothing is said until they do.
    Join(IncludeTurns, CommandReply<AnnouncedReply<JoinedThread>>),
    /// Something that the model is to know, and that nobody said.
    Notice(ResponseItem),
    SetName(String, CommandReply<()>),
    SetGit(Option<GitInfo>, CommandReply<()>),
    CleanTerminals(CommandReply<()>),
    Terminals(CommandReply<Vec<ThreadBackgroundTerminal>>),
    EndTerminal(String, CommandReply<bool>),
    /// What a turn may set, without one. The settings of the next turn are the answer.
    UpdateSettings(Box<TurnStartParams>, CommandReply<TurnSettings>),
    Goal(CommandReply<Option<ThreadGoal>>),
    SetGoal(ThreadGoalSetParams, CommandReply<ThreadGoal>),
    ClearGoal(CommandReply<bool>),
    CountElicitation(ElicitationChange, CommandReply<u64>),
    /// Ends the thread. A running turn ends as interrupted first.
    Unload(CommandReply<()>),
}

/// A question that the client asks on its own begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationChange {
    Begun,
    Ended,
}

impl ThreadHandle {
    pub(crate) fn new(id: ThreadId, kin: Option<SubagentOrigin>) -> (Self, ThreadInbox) {
        let (mailbox, commands) = mpsc::channel(MAILBOX);
        let (progress, seen) = watch::channel(kin::state(CollabAgentStatus::PendingInit));
        let (status, current_status) = watch::channel(ThreadStatus::Idle);
        let handle = Self { id, mailbox, kin: kin.map(Arc::new), progress: seen, status: current_status };
        (handle, ThreadInbox { mailbox: commands, progress, status })
    }

    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    /// Returns the current status without waiting for the thread; `None` if its task is over.
    pub fn status(&self) -> Option<ThreadStatus> {
        (!self.is_over()).then(|| self.status.borrow().clone())
    }

    pub(crate) fn kin(&self) -> Option<&SubagentOrigin> {
        self.kin.as_deref()
    }

    /// How far the thread has come as an agent. The channel closes when the thread ends.
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
        input: Vec<UserInput>,
        expected: TurnId,
    ) -> impl Future<Output = Result<TurnId, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Steer { input, expected, reply })
    }

    pub fn interrupt(&self) -> impl Future<Output = Result<AnnouncedReply<()>, ThreadError>> + use<> {
        self.ask(ThreadCommand::Interrupt)
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

    /// The thread without its last turns.
    pub fn rollback(
        &self,
        turns: u32,
    ) -> impl Future<Output = Result<AnnouncedReply<Thread>, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::Rollback(turns, reply))
    }

    /// Runs a person's own command, outside the sandbox.
    pub fn shell_command(
        &self,
        command: String,
    ) -> impl Future<Output = Result<AnnouncedReply<()>, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::Shell(command, reply))
    }

    pub fn snapshot(&self) -> impl Future<Output = Result<ThreadSnapshot, ThreadError>> + use<> {
        self.ask(ThreadCommand::Snapshot)
    }

    pub(crate) fn setup(&self) -> impl Future<Output = Result<ThreadSetup, ThreadError>> + use<> {
        self.ask(ThreadCommand::Setup)
    }

    /// Has the thread tell of something that failed outside a turn. One that is too busy has worse to tell.
    pub(crate) fn complain(&self, error: TurnError) {
        let _ = self.mailbox.try_send(ThreadCommand::Complain(error));
    }

    /// The thread for somebody who begins to listen. It goes on when they do, so that what is in the answer and
    /// what is said afterwards make up the whole.
    pub(crate) fn join(
        &self,
        turns: IncludeTurns,
    ) -> impl Future<Output = Result<AnnouncedReply<JoinedThread>, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::Join(turns, reply))
    }

    /// Whether the thread's task is over, be it that it broke.
    pub(crate) fn is_over(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Waits for the thread's task to be over.
    pub(crate) async fn over(&self) {
        self.mailbox.closed().await;
    }

    /// Has the model told something with its next request. Waits for room: a notice must not be lost.
    pub(crate) async fn notice(&self, item: ResponseItem) {
        // A thread that is gone has nobody to tell.
        let _ = self.mailbox.send(ThreadCommand::Notice(item)).await;
    }

    pub fn set_name(&self, name: String) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::SetName(name, reply))
    }

    pub fn set_git(&self, git: Option<GitInfo>) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::SetGit(git, reply))
    }

    /// Ends the commands that run in the background.
    pub fn clean_terminals(&self) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(ThreadCommand::CleanTerminals)
    }

    /// The commands that run in the background, oldest first.
    pub fn terminals(
        &self,
    ) -> impl Future<Output = Result<Vec<ThreadBackgroundTerminal>, ThreadError>> + use<> {
        self.ask(ThreadCommand::Terminals)
    }

    /// Ends one of them; false if it does not run.
    pub fn end_terminal(&self, process: String) -> impl Future<Output = Result<bool, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::EndTerminal(process, reply))
    }

    /// Changes what the next turns have. A turn that is running goes on as it began.
    pub fn update_settings(
        &self,
        change: TurnStartParams,
    ) -> impl Future<Output = Result<TurnSettings, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::UpdateSettings(Box::new(change), reply))
    }

    /// What the thread works towards.
    pub(crate) fn goal(&self) -> impl Future<Output = Result<Option<ThreadGoal>, ThreadError>> + use<> {
        self.ask(ThreadCommand::Goal)
    }

    pub(crate) fn set_goal(
        &self,
        change: ThreadGoalSetParams,
    ) -> impl Future<Output = Result<ThreadGoal, ThreadError>> + use<> {
        self.ask(|reply| ThreadCommand::SetGoal(change, reply))
    }

    /// False if there is none.
    pub(crate) fn clear_goal(&self) -> impl Future<Output = Result<bool, ThreadError>> + use<> {
        self.ask(ThreadCommand::ClearGoal)
    }

    /// How many such questions there are now.
    pub fn count_elicitation(
        &self,
        change: ElicitationChange,
    ) -> impl Future<Output = Result<u64, ThreadError>> + use<> {
        self.ask(move |reply| ThreadCommand::CountElicitation(change, reply))
    }

    pub(crate) fn unload(&self) -> impl Future<Output = Result<(), ThreadError>> + use<> {
        self.ask(ThreadCommand::Unload)
    }

    /// Posts before returning, so that callers keep the order in which they called.
    /// A full mailbox is the protocol's overload, not a wait.
    fn ask<T, F>(&self, command: F) -> impl Future<Output = Result<T, ThreadError>> + use<T, F>
    where
        F: FnOnce(CommandReply<T>) -> ThreadCommand,
    {
        let (reply, answer) = oneshot::channel();
        let posted = self.mailbox.try_send(command(reply)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => ThreadError::Busy,
            mpsc::error::TrySendError::Closed(_) => ThreadError::Closed,
        });
        async move {
            posted?;
            answer.await.unwrap_or(Err(ThreadError::Closed))
        }
    }
}
