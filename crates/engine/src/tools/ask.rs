//! Server requests of tools: sent by the thread, decoded here.

use std::time::Duration;

use codicil_protocol::{Frame, Method, rpc::RequestId};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{TurnTools, call::TurnCancelled};
use crate::turn_channel::{QuestionRequest, TurnReporter};

pub(crate) use crate::turn_channel::QuestionKind;

/// The reply of a client, decoded.
#[derive(Debug)]
pub(crate) enum QuestionReply<T> {
    Answer(T),
    /// A result that does not have the shape of the response.
    Nonsense,
    /// The client reported an error.
    Error,
}

/// Sends the server requests of a turn. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct QuestionSender {
    pub reporter: TurnReporter,
    pub cancel: CancellationToken,
}

impl QuestionSender {
    /// Asks the thread's subscribers and waits for the first reply, however long it takes.
    pub async fn ask<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
    ) -> Result<QuestionReply<M::Response>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let reply = self.send::<M>(params, kind, None).await?;
        // Only a time limit ends the wait without a reply.
        Ok(reply.unwrap_or(QuestionReply::Error))
    }

    /// Like [`ask`](Self::ask), but returns `None` if there is no reply within the limit.
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
        self.send::<M>(params, kind, Some(limit)).await
    }

    async fn send<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
        time_limit: Option<Duration>,
    ) -> Result<Option<QuestionReply<M::Response>>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let encode = Box::new(move |id: &RequestId| Frame::request::<M>(id, &params));
        let (reply, answer) = oneshot::channel();
        self.reporter.ask(QuestionRequest { kind, encode, time_limit, reply }).await;
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(TurnCancelled),
            // The thread drops the question when its turn is over.
            answer = answer => answer.map_err(|_| TurnCancelled)?,
        };
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
        QuestionSender { reporter: self.reporter.clone(), cancel: self.cancel.clone() }
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
