//! What a running turn reports to its thread, and what it asks of it.
//!
//! A turn streams the model and runs tools beside the thread's actor; the actor alone writes the store and
//! tells subscribers. Steps travel in batches, because a burst of tokens must not cost a message each.

use codicil_model::{History, ModelRequest, ToolList};
use codicil_protocol::{
    Frame, ItemId, RateLimitSnapshot, ResponseItem, ThreadItem, TokenUsageBreakdown, TurnError,
    rpc::RequestId,
};
use tokio::sync::{mpsc, oneshot};

use crate::{audience::OpenQuestion, thread::InheritedHistory, tools::QuestionRequest};

/// One thing that happened in a turn.
#[derive(Debug)]
pub(crate) enum TurnEvent {
    /// An item begins.
    Started(ThreadItem),
    /// Something about an open item that is told and not kept.
    Told(Frame),
    /// An item is complete, with what it adds to the model's history.
    Completed {
        item: ThreadItem,
        context: Vec<ResponseItem>,
    },
    /// Something enters the model's history that no item shows.
    Context(Vec<ResponseItem>),
    /// The same, behind what the model is asked next.
    Notice(Vec<ResponseItem>),
    /// A response is complete.
    Used(TokenUsageBreakdown),
    RateLimits(Box<RateLimitSnapshot>),
    Rerouted(String),
    /// The model failed and is asked again.
    Retrying(TurnError),
    /// The history has been summed up; from here on the summary stands for it.
    Compacted {
        item: ItemId,
        summary: String,
    },
    /// What the model may call in this turn.
    Offered(ToolList),
    /// Somebody is to be asked.
    Ask {
        asking: QuestionRequest,
        reply: oneshot::Sender<OpenQuestion>,
    },
    /// Somebody aside wants to know what has been said.
    Conversation(oneshot::Sender<History>),
    /// Everything before this has been said.
    Settled(oneshot::Sender<()>),
    /// A question has its answer.
    Answered(RequestId),
    /// What is there to copy, everything reported so far included?
    Inherit(oneshot::Sender<InheritedHistory>),
    /// What is there to do next?
    Next {
        follow_up: FollowUp,
        reply: oneshot::Sender<NextAction>,
    },
}

/// What a turn is to do next.
#[derive(Debug)]
pub(crate) enum NextAction {
    /// Have the model go on.
    Respond(Box<ModelRequest>),
    /// Have the model sum up the conversation, which is getting too long.
    Compact(Box<ModelRequest>),
    /// Nothing: the turn is over.
    End,
}

/// Whether a response asks for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FollowUp {
    /// It called tools, or is the first of its turn.
    Needed,
    /// It is the last, unless there is new input.
    IfSteered,
}

/// How a turn ended by itself.
#[derive(Debug)]
pub(crate) enum TurnOutcome {
    Completed,
    Interrupted,
    Failed(TurnError),
}

/// The turn's end of the channel to its thread.
#[derive(Clone, Debug)]
pub(crate) struct TurnReporter(mpsc::Sender<Vec<TurnEvent>>);

/// The same end, for the thread itself: it does not keep the turn from being over.
#[derive(Debug)]
pub(crate) struct WeakTurnReporter(mpsc::WeakSender<Vec<TurnEvent>>);

impl WeakTurnReporter {
    /// `None` when the turn is over.
    pub fn upgrade(&self) -> Option<TurnReporter> {
        self.0.upgrade().map(TurnReporter)
    }
}

impl TurnReporter {
    /// A turn that is this many batches ahead of its thread waits for it.
    const CAPACITY: usize = 32;

    pub fn channel() -> (Self, mpsc::Receiver<Vec<TurnEvent>>) {
        let (sender, receiver) = mpsc::channel(Self::CAPACITY);
        (Self(sender), receiver)
    }

    pub fn downgrade(&self) -> WeakTurnReporter {
        WeakTurnReporter(self.0.downgrade())
    }

    /// A thread that is gone is not told any more; its turns are being cancelled then.
    pub async fn report(&self, steps: Vec<TurnEvent>) {
        if !steps.is_empty() {
            let _ = self.0.send(steps).await;
        }
    }

    pub async fn one(&self, step: TurnEvent) {
        self.report(vec![step]).await;
    }

    /// What has been said so far; `None` when the thread is gone.
    pub async fn conversation(&self) -> Option<History> {
        let (reply, answer) = oneshot::channel();
        self.one(TurnEvent::Conversation(reply)).await;
        answer.await.ok()
    }

    /// Waits until everything reported so far has been said. For those who go on to report in another way.
    pub async fn settled(&self) {
        let (reply, settled) = oneshot::channel();
        self.one(TurnEvent::Settled(reply)).await;
        // A thread that is gone says nothing more.
        let _ = settled.await;
    }

    /// What to do next. A thread that is gone wants nothing more.
    pub async fn next(&self, follow_up: FollowUp) -> NextAction {
        let (reply, answer) = oneshot::channel();
        self.one(TurnEvent::Next { follow_up, reply }).await;
        answer.await.unwrap_or(NextAction::End)
    }
}
