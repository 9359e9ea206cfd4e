//! Server requests of tools: sent by the thread, decoded here.

use std::time::Duration;

use codicil_protocol::{Frame, Method, ThreadItem, rpc::RequestId};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{TurnTools, call::TurnCancelled};
use crate::turn_channel::{DurableQuestion, QuestionRequest, TurnReporter};

pub(crate) use codicil_store::QuestionKind;

/// The reply of a client, decoded.
#[derive(Debug)]
pub(crate) enum QuestionReply<T> {
    Answer(T),
    /// A result that does not have the shape of the response.
    Unreadable,
    /// The client reported an error.
    Error,
}

/// The tool call that asks, and its item as clients have seen it start.
pub(crate) struct AskingCall<'a> {
    pub call_id: &'a str,
    pub item: Option<ThreadItem>,
}

impl AskingCall<'_> {
    fn durable<M: Method>(self, params: &M::Params) -> DurableQuestion {
        DurableQuestion {
            call_id: self.call_id.to_owned(),
            method: M::NAME,
            params: serde_json::to_value(params).expect("wire types are always JSON"),
            item: self.item,
        }
    }
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
        let reply = self.send::<M>(params, kind, None, None).await?;
        // Only a time limit ends the wait without a reply.
        Ok(reply.unwrap_or(QuestionReply::Error))
    }

    /// Like [`ask`](Self::ask), for a request that outlives the process: it is asked again, or its stored answer is used, when
    /// the call runs again after a restart.
    pub async fn ask_durably<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
        asker: AskingCall<'_>,
    ) -> Result<QuestionReply<M::Response>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let durable = asker.durable::<M>(&params);
        let reply = self.send::<M>(params, kind, None, Some(durable)).await?;
        Ok(reply.unwrap_or(QuestionReply::Error))
    }

    /// Like [`ask_durably`](Self::ask_durably), but returns `None` if there is no reply within the limit.
    pub async fn ask_within<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
        asker: AskingCall<'_>,
        limit: Duration,
    ) -> Result<Option<QuestionReply<M::Response>>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let durable = asker.durable::<M>(&params);
        self.send::<M>(params, kind, Some(limit), Some(durable)).await
    }

    async fn send<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
        time_limit: Option<Duration>,
        durable: Option<DurableQuestion>,
    ) -> Result<Option<QuestionReply<M::Response>>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        let encode = Box::new(move |id: &RequestId| Frame::request::<M>(id, &params));
        let (reply, answer) = oneshot::channel();
        self.reporter.ask(QuestionRequest { kind, encode, time_limit, durable, reply }).await;
        let answer = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(TurnCancelled),
            // The thread drops the question when its turn is over.
            answer = answer => answer.map_err(|_| TurnCancelled)?,
        };
        Ok(answer.map(|answer| match answer {
            Ok(result) => {
                serde_json::from_str(result.get()).map_or(QuestionReply::Unreadable, QuestionReply::Answer)
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

    pub(crate) async fn ask_durably<M>(
        &self,
        params: M::Params,
        kind: QuestionKind,
        asker: AskingCall<'_>,
    ) -> Result<QuestionReply<M::Response>, TurnCancelled>
    where
        M: Method,
        M::Params: Send + 'static,
    {
        self.asker().ask_durably::<M>(params, kind, asker).await
    }

    /// Stores that a call may have effects from here on. Everything before this may happen again after a restart; what follows
    /// happens once. `item` is the item of the call, for clients that have seen it start when the server is killed.
    pub(crate) async fn begin(&self, call_id: &str, item: Option<ThreadItem>) -> Result<(), TurnCancelled> {
        self.reporter.begin(call_id.to_owned(), item).await.ok_or(TurnCancelled)
    }
}
