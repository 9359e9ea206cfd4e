//! The channel from turns to their thread.
//!
//! A turn streams the model and runs tools beside the thread's actor; the actor alone writes the store and
//! notifies clients. Each thread has one bounded channel, on which its turns and their background commands send
//! everything they report. The actor handles the messages in the order in which they were sent, so a turn waits for
//! earlier ones only where it must not go on before they are stored ([`TurnReporter::stored`]).
//!
//! Events are batched, because a burst of tokens must not cost a message each.

use std::time::Duration;

use codicil_exec::SessionId;
use codicil_model::{History, ModelRequest, ToolList};
use codicil_protocol::{
    Frame, ItemId, RateLimitSnapshot, ResponseItem, ThreadItem, TokenUsageBreakdown, TurnError, TurnId,
    rpc::RequestId,
};
use codicil_store::{QuestionKind, StoredPlan};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::{
    goals::{GoalReport, GoalRequest},
    thread::InheritedHistory,
    thread_clients::ClientReply,
};

/// Messages that may wait for the actor of a thread. A turn that is further ahead waits.
const CAPACITY: usize = 32;

/// A message from a turn, or from a command that the turn started, to the thread.
#[derive(Debug)]
pub(crate) struct TurnMessage {
    pub turn_id: TurnId,
    pub body: TurnMessageBody,
}

/// The content of a [`TurnMessage`]. Large and rare contents are boxed, so that a queue of events stays small.
#[derive(Debug)]
pub(crate) enum TurnMessageBody {
    /// Facts, in the order in which they happened.
    Events(Vec<TurnEvent>),
    Query(TurnQuery),
    Question(Box<QuestionRequest>),
    /// A command that outlived its tool call has ended. The turn itself may have ended long before.
    BackgroundCommandEnded(Box<BackgroundCommandEnd>),
    /// A user's shell command that ran beside the turn has ended.
    ShellCommandEnded,
    /// The turn's task has ended. This is the last message of that task.
    Ended(Box<TurnOutcome>),
}

/// A fact about a turn.
#[derive(Debug)]
pub(crate) enum TurnEvent {
    /// An item begins.
    Started(Box<ThreadItem>),
    /// A notification that is sent to subscribers and not stored.
    Notification(Frame),
    /// An item is complete, with what it adds to the model's history.
    Completed {
        item: Box<ThreadItem>,
        context: Vec<ResponseItem>,
    },
    /// A command has been requested and waits for an approval.
    CommandAsked(Box<ThreadItem>),
    /// An item of a broken response ends without its content. It is not stored.
    Discarded(Box<ThreadItem>),
    /// Complete items of a broken response, which is requested again, are removed from the stored turn.
    Withdrawn(Vec<ItemId>),
    /// Additions to the model's history that have no item.
    Context(Vec<ResponseItem>),
    /// Additions to the model's history that follow the input of the next request.
    Notice(Vec<ResponseItem>),
    /// The token usage of a complete response.
    Used(TokenUsageBreakdown),
    /// The plan of the turn.
    Planned(StoredPlan),
    RateLimits(Box<RateLimitSnapshot>),
    Rerouted(String),
    /// A model request failed and is sent again.
    Retrying(TurnError),
    /// The summary that replaces the history.
    Compacted {
        item: ItemId,
        summary: String,
    },
    /// The tools that the model may call from now on.
    Offered(ToolList),
    /// The turn cannot go on and ends with this error.
    Failed(TurnError),
}

// A burst of deltas is a long list of events.
const _: () = assert!(size_of::<TurnEvent>() <= 160);

impl TurnEvent {
    /// Returns whether the event becomes records before clients see it.
    pub fn is_stored(&self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Context(_) | Self::Used(_) | Self::Planned(_))
    }
}

/// A question of the turn to its thread. The answer accounts for every message sent before it.
#[derive(Debug)]
pub(crate) enum TurnQuery {
    NextAction {
        follow_up: FollowUp,
        reply: oneshot::Sender<NextAction>,
    },
    History(oneshot::Sender<History>),
    /// Answered once every event sent before it is stored, or the turn has been cancelled because that failed.
    Stored(oneshot::Sender<()>),
    /// Answered once it is stored that a tool call may have effects. Dropped if the call must not have any.
    Begin {
        call_id: String,
        item: Option<Box<ThreadItem>>,
        reply: oneshot::Sender<()>,
    },
    InheritedHistory(oneshot::Sender<InheritedHistory>),
    /// A call of a goal tool. A refusal is a text for the model.
    Goal {
        request: GoalRequest,
        reply: oneshot::Sender<Result<GoalReport, String>>,
    },
}

/// A server request that the thread sends to its subscribers on behalf of a tool.
///
/// The thread resolves the request for all clients before it forwards the reply. Dropping the receiver of `reply`
/// withdraws the request.
pub(crate) struct QuestionRequest {
    pub kind: QuestionKind,
    /// Encodes the request once its id is known.
    pub encode: Box<dyn Fn(&RequestId) -> Frame + Send>,
    /// Time after which the request is withdrawn and the reply is `None`.
    pub time_limit: Option<Duration>,
    /// Set for requests that outlive the process.
    pub durable: Option<DurableQuestion>,
    pub reply: oneshot::Sender<Option<ClientReply>>,
}

/// The part of a server request that is stored before it is sent.
#[derive(Clone, Debug)]
pub(crate) struct DurableQuestion {
    pub call_id: String,
    pub method: &'static str,
    pub params: Value,
    /// The item that waits for the answer.
    pub item: Option<ThreadItem>,
}

impl std::fmt::Debug for QuestionRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuestionRequest").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The end of a background command.
#[derive(Debug)]
pub(crate) struct BackgroundCommandEnd {
    pub session: SessionId,
    /// The command's item in its final state.
    pub item: ThreadItem,
}

/// What a turn does next.
#[derive(Debug)]
pub(crate) enum NextAction {
    /// Request a response from the model.
    Respond(Box<ModelRequest>),
    /// Request a summary of the history, which is close to the context window.
    Compact(Box<ModelRequest>),
    /// End the turn.
    End,
}

/// Whether a response needs another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// It called tools, or the turn has just begun.
    Needed,
    /// It is the last, unless there is new input.
    IfSteered,
}

/// How the task of a turn ended.
#[derive(Debug)]
pub(crate) enum TurnOutcome {
    Completed,
    Interrupted,
    Failed(TurnError),
}

/// Creates the channel of a thread.
pub(crate) fn turn_channel() -> (mpsc::Sender<TurnMessage>, mpsc::Receiver<TurnMessage>) {
    mpsc::channel(CAPACITY)
}

/// The sending half of a thread's channel, for one of its turns. Cheap to clone.
///
/// Messages to a thread that has been unloaded are dropped; its turns are being cancelled then.
#[derive(Clone, Debug)]
pub(crate) struct TurnReporter {
    turn_id: TurnId,
    messages: mpsc::Sender<TurnMessage>,
}

impl TurnReporter {
    pub fn new(turn_id: TurnId, messages: mpsc::Sender<TurnMessage>) -> Self {
        Self { turn_id, messages }
    }

    /// Reports a batch of events. An empty batch costs nothing.
    pub async fn report(&self, events: Vec<TurnEvent>) {
        if !events.is_empty() {
            self.send(TurnMessageBody::Events(events)).await;
        }
    }

    pub async fn report_one(&self, event: TurnEvent) {
        self.report(vec![event]).await;
    }

    /// Returns the thread's history; `None` if the thread has been unloaded.
    pub async fn conversation(&self) -> Option<History> {
        self.query(TurnQuery::History).await
    }

    /// Returns what a subagent with the thread's full history starts with; `None` if the thread has been unloaded.
    pub async fn inherited_history(&self) -> Option<InheritedHistory> {
        self.query(TurnQuery::InheritedHistory).await
    }

    /// Has the thread carry out a call of a goal tool; `None` if the thread has been unloaded.
    pub async fn goal(&self, request: GoalRequest) -> Option<Result<GoalReport, String>> {
        self.query(|reply| TurnQuery::Goal { request, reply }).await
    }

    /// Waits until everything reported so far is stored. A turn whose records cannot be stored is cancelled before.
    pub async fn stored(&self) {
        self.query(TurnQuery::Stored).await;
    }

    /// Waits until it is stored that a tool call may have effects. Returns `None` if the call must not have any, because the
    /// turn is being stopped.
    pub async fn begin(&self, call_id: String, item: Option<ThreadItem>) -> Option<()> {
        let item = item.map(Box::new);
        self.query(|reply| TurnQuery::Begin { call_id, item, reply }).await
    }

    /// Returns what to do next. The turn ends if the thread has been unloaded.
    pub async fn next(&self, follow_up: FollowUp) -> NextAction {
        let next = self.query(|reply| TurnQuery::NextAction { follow_up, reply }).await;
        next.unwrap_or(NextAction::End)
    }

    /// Has the thread send a server request to its subscribers.
    pub async fn ask(&self, question: QuestionRequest) {
        self.send(TurnMessageBody::Question(Box::new(question))).await;
    }

    pub async fn background_command_ended(&self, session: SessionId, item: ThreadItem) {
        let end = BackgroundCommandEnd { session, item };
        self.send(TurnMessageBody::BackgroundCommandEnded(Box::new(end))).await;
    }

    pub async fn shell_command_ended(&self) {
        self.send(TurnMessageBody::ShellCommandEnded).await;
    }

    pub async fn ended(&self, outcome: TurnOutcome) {
        self.send(TurnMessageBody::Ended(Box::new(outcome))).await;
    }

    async fn query<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> TurnQuery) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.send(TurnMessageBody::Query(query(reply))).await;
        answer.await.ok()
    }

    async fn send(&self, body: TurnMessageBody) {
        // An error means that the thread has been unloaded.
        let _ = self.messages.send(TurnMessage { turn_id: self.turn_id.clone(), body }).await;
    }
}
