//! The commands in a thread's mailbox, with their parameters and replies.

use std::{sync::Arc, time::Duration};

use codicil_config::EffectiveConfig;
use codicil_protocol::{
    GitInfo, MessageSeq, ProtocolGeneration, QueuedSubmission, ReasoningEffort, ResponseItem, ReviewTarget,
    Thread, ThreadBackgroundTerminal, ThreadGoal, ThreadGoalSetParams, ThreadItem, ThreadQueueAddParams,
    ThreadQueueUpdateParams, ThreadReadState, ThreadReadStateUpdateParams, ThreadStatus, ThreadTokenUsage,
    Turn, TurnError, TurnId, TurnStartParams, TurnSteerParams,
};
use codicil_store::StoredTurn;
use codicil_telemetry::TracePosition;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::{AnswerOutcome, ThreadSubscription, WaitingRequest};
use crate::{
    error::ThreadError,
    request_key::RequestKey,
    samples::SampleRequest,
    settings::{SettingsOverrides, TurnSettings},
    thread_clients::ClientAnswer,
    threads::IncludeTurns,
    tools::ThreadMcpServers,
};

/// A command in the mailbox, with the key of its request and its place in a trace.
pub(crate) struct PostedCommand {
    pub command: ThreadCommand,
    pub key: Option<RequestKey>,
    pub trace: TracePosition,
}

impl From<ThreadCommand> for PostedCommand {
    fn from(command: ThreadCommand) -> Self {
        Self { command, key: None, trace: TracePosition::default() }
    }
}

pub(crate) type CommandReply<T> = oneshot::Sender<Result<T, ThreadError>>;

/// Everything that a handle can ask of its thread.
pub(crate) enum ThreadCommand {
    StartTurn(Box<TurnStartParams>, TurnOrigin, CommandReply<AnnouncedReply<Turn>>),
    Steer(Box<TurnSteerParams>, ProtocolGeneration, CommandReply<TurnId>),
    /// Interrupts this turn if it is the running one; without an id, whichever turn is running.
    Interrupt(Option<TurnId>, CommandReply<AnnouncedReply<()>>),
    Compact(TurnOrigin, CommandReply<AnnouncedReply<()>>),
    Review(ReviewTarget, TurnOrigin, CommandReply<AnnouncedReply<Turn>>),
    Rollback(u32, CommandReply<AnnouncedReply<Thread>>),
    /// Drops this turn and all after it.
    Revert(TurnId, CommandReply<AnnouncedReply<RevertedThread>>),
    /// Adds items of a client to the model's history.
    Inject(Vec<ResponseItem>, CommandReply<()>),
    Shell((String, Option<Duration>), CommandReply<AnnouncedReply<()>>),
    Snapshot(CommandReply<ThreadSnapshot>),
    Setup(CommandReply<ThreadSetup>),
    /// Reports an error that is part of no turn.
    ReportError(TurnError),
    /// A client subscribes. There are no notifications until it has.
    Join(Box<JoinRequest>, CommandReply<AnnouncedReply<JoinedThread>>),
    /// A client subscribes at a position. There are no notifications until it has.
    Subscribe(Option<MessageSeq>, CommandReply<AnnouncedReply<ThreadSubscription>>),
    /// Adds to the model's history.
    Notice(ResponseItem),
    SetName(String, CommandReply<()>),
    SetGit(Option<GitInfo>, CommandReply<()>),
    CleanTerminals(CommandReply<()>),
    Terminals(CommandReply<Vec<ThreadBackgroundTerminal>>),
    EndTerminal(String, CommandReply<bool>),
    /// Changes the settings of the next turn.
    UpdateSettings(Box<TurnStartParams>, CommandReply<()>),
    /// Returns the MCP servers, for requests of clients.
    McpServers(CommandReply<ThreadMcpServers>),
    Goal(CommandReply<Option<ThreadGoal>>),
    SetGoal(ThreadGoalSetParams, TurnOrigin, CommandReply<AnnouncedReply<ThreadGoal>>),
    /// Goes on with the queue and the goal of a thread that was just loaded.
    ContinueWork,
    ClearGoal(CommandReply<bool>),
    Queue(CommandReply<Vec<QueuedSubmission>>),
    QueueAdd(ThreadQueueAddParams, TurnOrigin, CommandReply<AnnouncedReply<QueuedSubmission>>),
    QueueUpdate(ThreadQueueUpdateParams, CommandReply<QueuedSubmission>),
    QueueDelete(String, CommandReply<bool>),
    QueueReorder(Vec<String>, CommandReply<()>),
    /// Starts a turn with this submission, or with the first one.
    QueueStart(Option<String>, TurnOrigin, CommandReply<AnnouncedReply<Turn>>),
    /// Returns a model request with the thread's settings and without input.
    SampleRequest(Option<ReasoningEffort>, CommandReply<SampleRequest>),
    /// Changes the settings of the running turn. Returns false if another turn runs, or none.
    UpdateTurnSettings(TurnId, Box<TurnStartParams>, CommandReply<bool>),
    UpdateReadState(ThreadReadStateUpdateParams, CommandReply<ThreadReadState>),
    CountElicitation(ElicitationChange, CommandReply<u64>),
    /// Returns the open server requests that outlive the process.
    WaitingRequests(CommandReply<Vec<WaitingRequest>>),
    /// Answers a server request; `None` if the running turn does not have it.
    AnswerRequest(String, ClientAnswer, CommandReply<Option<AnswerOutcome>>),
    /// Unloads the thread. Returns the status that it has from then on.
    Unload(UnloadedTurn, CommandReply<ThreadStatus>),
}

/// What becomes of the running turn of a thread that is unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnloadedTurn {
    /// It is left for the next process if it waits for answers, and interrupted otherwise.
    Parked,
    Interrupted,
}

/// A change to the number of open out-of-band elicitations reported by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationChange {
    Begun,
    Ended,
}

/// The client that starts a turn.
#[derive(Clone, Debug, Default)]
pub struct TurnOrigin {
    pub name: String,
    /// For the headers of model requests.
    pub user_agent: String,
    /// The generation of the protocol, which some behaviour of a turn depends on.
    pub generation: ProtocolGeneration,
    /// The turn of the user that a subagent's turn is part of.
    pub root_turn: Option<TurnId>,
}

/// A `thread/resume` of a thread that is loaded already.
#[derive(Debug)]
pub(crate) struct JoinRequest {
    pub turns: IncludeTurns,
    /// The settings of the request. They are compared with those of the thread, not applied.
    pub given: SettingsOverrides,
}

/// Holds back the thread's notifications about a request. Dropped once the request is answered.
#[derive(Debug)]
pub struct AnnounceGuard(#[expect(dead_code, reason = "dropping it is the message")] oneshot::Sender<()>);

/// The answer to a request, with the guard of the notifications that must follow it.
#[derive(Debug)]
pub struct AnnouncedReply<T> {
    pub answer: T,
    pub announce: AnnounceGuard,
}

impl<T> AnnouncedReply<T> {
    pub(crate) fn new(answer: T) -> (Self, oneshot::Receiver<()>) {
        let (sender, sent) = oneshot::channel();
        (Self { answer, announce: AnnounceGuard(sender) }, sent)
    }
}

/// A thread as it is now.
#[derive(Clone, Debug)]
pub struct ThreadSnapshot {
    pub thread: Thread,
    pub settings: TurnSettings,
    pub active_turn: Option<TurnId>,
    /// The items that wait for an answer.
    pub open_items: Vec<ThreadItem>,
    pub goal: Option<ThreadGoal>,
    pub read_state: Option<ThreadReadState>,
    /// The configuration, with requirements and features.
    pub config: Arc<EffectiveConfig>,
}

/// A thread as it is now, and its stored turns.
#[derive(Debug)]
pub(crate) struct JoinedThread {
    pub snapshot: ThreadSnapshot,
    pub turns: Vec<StoredTurn>,
    pub usage: ThreadTokenUsage,
    /// The members of the request that differ from the thread's settings.
    pub unapplied: Vec<String>,
    /// The position of the thread's last message.
    pub position: MessageSeq,
}

/// A thread after turns were dropped.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RevertedThread {
    pub thread: Thread,
    /// The number of turns that are left.
    pub turns: usize,
    /// The number of their items.
    pub items: usize,
}

/// The configuration and settings of a thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadSetup {
    pub config: Arc<EffectiveConfig>,
    pub settings: TurnSettings,
}
