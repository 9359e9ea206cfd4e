//! Asking people: the question goes out through the thread, the answer comes back here.

use std::{future::pending, time::Duration};

use codicil_protocol::{Frame, Method, ThreadActiveFlag, rpc::RequestId};
use tokio::{sync::oneshot, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{TurnTools, call::Cancelled};
use crate::{
    audience::Question,
    step::{Step, Steps},
};

/// A question that a thread is to put to its subscribers.
pub(crate) struct Asking {
    /// Makes the message once its id is known.
    pub encode: Box<dyn Fn(&RequestId) -> Frame + Send>,
    pub kind: Kind,
}

impl std::fmt::Debug for Asking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asking").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What a question means for the thread while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A person decides. The thread shows that it waits, and everybody learns when it is over.
    Approval,
    /// A person answers.
    UserInput,
    /// A program answers; nobody has to look.
    Call,
}

impl Kind {
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
pub(crate) enum Reply<T> {
    Answer(T),
    /// Something that is no answer to this question.
    Nonsense,
    /// The client reported an error.
    Error,
}

/// Asks in the name of a turn. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub steps: Steps,
    pub cancel: CancellationToken,
}

impl Asker {
    /// Asks the thread's subscribers and waits for the first answer, however long it takes.
    pub async fn ask<M>(&self, params: M::Params, kind: Kind) -> Result<Reply<M::Response>, Cancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let answer = self.ask_until::<M>(params, kind, pending()).await?;
        // Nothing but the answer ends a wait without a deadline.
        Ok(answer.unwrap_or(Reply::Error))
    }

    /// The same, with a deadline; `None` when nobody answered before it.
    pub async fn ask_within<M>(
        &self,
        params: M::Params,
        kind: Kind,
        limit: Duration,
    ) -> Result<Option<Reply<M::Response>>, Cancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        self.ask_until::<M>(params, kind, sleep(limit)).await
    }

    async fn ask_until<M>(
        &self,
        params: M::Params,
        kind: Kind,
        late: impl Future<Output = ()>,
    ) -> Result<Option<Reply<M::Response>>, Cancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let encode = Box::new(move |id: &RequestId| Frame::request::<M>(id, &params));
        let (reply, asked) = oneshot::channel();
        self.steps.one(Step::Ask { asking: Asking { encode, kind }, reply }).await;
        // A thread that is gone asks nobody.
        let Question { id, answer, withdraw } = asked.await.map_err(|_| Cancelled)?;
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(Cancelled),
            answer = answer => Some(answer.map_err(|_| Cancelled)?),
            () = late => None,
        };
        drop(withdraw);
        self.steps.one(Step::Answered(id)).await;
        self.steps.settled().await;
        Ok(answer.map(|answer| match answer {
            Ok(result) => serde_json::from_str(result.get()).map_or(Reply::Nonsense, Reply::Answer),
            Err(_) => Reply::Error,
        }))
    }
}

impl TurnTools {
    pub(crate) fn asker(&self) -> Asker {
        Asker { steps: self.steps.clone(), cancel: self.cancel.clone() }
    }

    pub(crate) async fn ask<M>(&self, params: M::Params, kind: Kind) -> Result<Reply<M::Response>, Cancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        self.asker().ask::<M>(params, kind).await
    }
}
