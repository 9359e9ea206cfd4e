//! Asking people: the question goes out through the thread, the answer comes back here.

use std::{future::pending, time::Duration};

use codicil_protocol::{Frame, Method, ThreadActiveFlag, rpc::RequestId};
use tokio::{sync::oneshot, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{TurnTools, call::TurnCancelled};
use crate::{
    audience::OpenQuestion,
    step::{TurnEvent, TurnReporter},
};

/// A question that a thread is to put to its subscribers.
pub(crate) struct QuestionRequest {
    /// Makes the message once its id is known.
    pub encode: Box<dyn Fn(&RequestId) -> Frame + Send>,
    pub kind: QuestionKind,
}

impl std::fmt::Debug for QuestionRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What a question means for the thread while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuestionKind {
    /// A person decides. The thread shows that it waits, and everybody learns when it is over.
    Approval,
    /// A person answers.
    UserInput,
    /// A program answers; nobody has to look.
    Call,
}

impl QuestionKind {
    pub fn flag(self) -> Option<ThreadActiveFlag> {
        match self {
            Self::Approval => Some(ThreadActiveFlag::WaitingOnApproval),
            Self::UserInput => Some(ThreadActiveFlag::WaitingOnUserInput),
            Self::Call => None,
        }
    }

    /// Whether `serverRequest/resolved` tells that the question is over.
    pub fn is_announced(self) -> bool {
        self != Self::Call
    }
}

/// What came back.
#[derive(Debug)]
pub(crate) enum QuestionReply<T> {
    Answer(T),
    /// Something that is no answer to this question.
    Nonsense,
    /// The client reported an error.
    Error,
}

/// Asks in the name of a turn. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct QuestionSender {
    pub steps: TurnReporter,
    pub cancel: CancellationToken,
}

impl QuestionSender {
    /// Asks the thread's subscribers and waits for the first answer, however long it takes.
    pub async fn ask<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
    ) -> Result<QuestionReply<M::Response>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let answer = self.ask_until::<M>(params, kind, pending()).await?;
        // Nothing but the answer ends a wait without a deadline.
        Ok(answer.unwrap_or(QuestionReply::Error))
    }

    /// The same, with a deadline; `None` when nobody answered before it.
    pub async fn ask_within<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
        limit: Duration,
    ) -> Result<Option<QuestionReply<M::Response>>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        self.ask_until::<M>(params, kind, sleep(limit)).await
    }

    async fn ask_until<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
        late: impl Future<Output = ()>,
    ) -> Result<Option<QuestionReply<M::Response>>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let encode = Box::new(move |id: &RequestId| Frame::request::<M>(id, &params));
        let (reply, asked) = oneshot::channel();
        self.steps.one(TurnEvent::Ask { asking: QuestionRequest { encode, kind }, reply }).await;
        // A thread that is gone asks nobody.
        let OpenQuestion { id, answer, withdraw } = asked.await.map_err(|_| TurnCancelled)?;
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(TurnCancelled),
            answer = answer => Some(answer.map_err(|_| TurnCancelled)?),
            () = late => None,
        };
        drop(withdraw);
        self.steps.one(TurnEvent::Answered(id)).await;
        self.steps.settled().await;
        Ok(answer.map(|answer| match answer {
            Ok(result) => {
                serde_json::from_str(result.get()).map_or(QuestionReply::Nonsense, QuestionReply::Answer)
            }
            Err(_) => QuestionReply::Error,
        }))
    }
}

impl TurnTools {
    pub(crate) fn asker(&self) -> QuestionSender {
        QuestionSender { steps: self.steps.clone(), cancel: self.cancel.clone() }
    }

    pub(crate) async fn ask<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
    ) -> Result<QuestionReply<M::Response>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        self.asker().ask::<M>(params, kind).await
    }
}
