//! The open server requests of a turn, and the wait for their replies.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use codicil_protocol::{ThreadActiveFlag, ThreadItem, rpc::RequestId};
use codicil_store::AskedRequest;
use serde_json::value::RawValue;
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};

use crate::{
    thread_clients::{ClientAnswer, ClientReply, OpenQuestion},
    turn_channel::QuestionRequest,
};

pub(super) use codicil_store::QuestionKind;

/// The open server requests of a turn, oldest first.
#[derive(Default)]
pub(super) struct OpenQuestions(Vec<AskedQuestion>);

/// A server request that is not resolved yet.
struct AskedQuestion {
    id: RequestId,
    kind: QuestionKind,
    /// Set for requests that outlive the process.
    durable: Option<DurableRequest>,
    /// `None` for a request that was withdrawn because the turn is being stopped. It is resolved with the turn.
    wait: Option<QuestionWait>,
}

/// A request that outlives the process.
#[derive(Clone, Debug)]
pub(super) struct DurableRequest {
    pub asked: AskedRequest,
    /// Unix seconds.
    pub asked_at: i64,
    /// The result when the deadline of the request has passed.
    pub default: Option<Box<RawValue>>,
}

/// The two ends of a request: the clients, and the tool that asked.
struct QuestionWait {
    /// Dropping this withdraws the request.
    question: OpenQuestion,
    deadline: Option<Pin<Box<Sleep>>>,
    /// `None` for a request that was sent again, until its call has come to it.
    reply: Option<ReplySender>,
}

/// Sends the reply to the tool that asked; `None` if there was none in time.
pub(super) type ReplySender = oneshot::Sender<Option<ClientReply>>;

/// Why the wait for a reply is over.
pub(super) enum QuestionEnd {
    /// A client replied.
    Replied(ClientAnswer),
    /// The time limit passed.
    TimedOut,
    /// The tool no longer waits, or no client can reply any more.
    Abandoned,
}

/// A request whose wait is over. It is still in the table.
pub(super) struct EndedQuestion {
    pub id: RequestId,
    pub end: QuestionEnd,
    pub reply: Option<ReplySender>,
}

impl OpenQuestions {
    pub fn push(
        &mut self,
        request: QuestionRequest,
        question: OpenQuestion,
        durable: Option<DurableRequest>,
    ) {
        let deadline = request.time_limit.map(|limit| Box::pin(sleep(limit)));
        let id = question.id.clone();
        let wait = QuestionWait { question, deadline, reply: Some(request.reply) };
        self.0.push(AskedQuestion { id, kind: request.kind, durable, wait: Some(wait) });
    }

    /// Adds a request of an earlier process. The call that asked it has not come to it yet.
    pub fn restore(&mut self, question: OpenQuestion, durable: DurableRequest, time_limit: Option<Duration>) {
        let deadline = time_limit.map(|limit| Box::pin(sleep(limit)));
        let id = question.id.clone();
        let kind = durable.asked.kind;
        let wait = QuestionWait { question, deadline, reply: None };
        self.0.push(AskedQuestion { id, kind, durable: Some(durable), wait: Some(wait) });
    }

    /// Connects a call with the request that it sent before a restart. Returns the request if there is none.
    pub fn attach(&mut self, request: QuestionRequest) -> Option<QuestionRequest> {
        let Some(durable) = &request.durable else { return Some(request) };
        let is_same =
            |asked: &AskedRequest| asked.call_id == durable.call_id && asked.method == durable.method;
        let waits =
            self.0.iter_mut().filter(|asked| asked.durable.as_ref().is_some_and(|it| is_same(&it.asked)));
        let wait = waits.filter_map(|asked| asked.wait.as_mut()).find(|wait| wait.reply.is_none());
        let Some(wait) = wait else { return Some(request) };
        wait.reply = Some(request.reply);
        if let Some(limit) = request.time_limit {
            wait.deadline = Some(Box::pin(sleep(limit)));
        }
        None
    }

    /// Removes a request and returns its kind.
    pub fn remove(&mut self, id: &RequestId) -> Option<QuestionKind> {
        let at = self.0.iter().position(|asked| asked.id == *id)?;
        Some(self.0.remove(at).kind)
    }

    /// Returns the stored part of a request, if it outlives the process.
    pub fn durable(&self, id: &RequestId) -> Option<&DurableRequest> {
        self.0.iter().find(|asked| asked.id == *id)?.durable.as_ref()
    }

    /// Returns the requests that outlive the process and have no answer, oldest first.
    pub fn durable_requests(&self) -> impl Iterator<Item = &DurableRequest> {
        self.0.iter().filter(|asked| asked.wait.is_some()).filter_map(|asked| asked.durable.as_ref())
    }

    /// Returns whether every request outlives the process.
    pub fn are_durable(&self) -> bool {
        self.0.iter().all(|asked| asked.durable.is_some())
    }

    /// Returns the items that wait for an answer.
    pub fn open_items(&self) -> Vec<ThreadItem> {
        self.durable_requests().filter_map(|request| request.asked.item.clone()).collect()
    }

    /// Ends the wait for a request that was answered beside the clients that were asked.
    pub fn answer(&mut self, request: &str, answer: ClientAnswer) -> Option<EndedQuestion> {
        let is_asked = |asked: &&mut AskedQuestion| {
            asked.durable.as_ref().is_some_and(|durable| durable.asked.request == request)
        };
        let asked = self.0.iter_mut().find(is_asked)?;
        let wait = asked.wait.take()?;
        Some(EndedQuestion { id: asked.id.clone(), end: QuestionEnd::Replied(answer), reply: wait.reply })
    }

    /// Returns the kinds of the open requests except for one.
    pub fn kinds_without(&self, id: Option<&RequestId>) -> Vec<QuestionKind> {
        self.0.iter().filter(|asked| Some(&asked.id) != id).map(|asked| asked.kind).collect()
    }

    /// Returns the status flags of the open requests and of `more`, each once.
    pub fn flags(&self, more: Option<QuestionKind>) -> Vec<ThreadActiveFlag> {
        QuestionKind::flags(self.0.iter().map(|asked| asked.kind).chain(more))
    }

    /// Returns the ids and kinds of the requests that are not resolved, and withdraws them.
    pub fn into_unresolved(self) -> impl Iterator<Item = (RequestId, QuestionKind)> {
        self.0.into_iter().map(|asked| (asked.id, asked.kind))
    }

    /// Waits until the wait for one of the replies is over. Pending while there are no requests.
    pub async fn next(&mut self) -> EndedQuestion {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<EndedQuestion> {
        for asked in &mut self.0 {
            let Some(wait) = &mut asked.wait else { continue };
            let Poll::Ready(end) = wait.poll_end(cx) else { continue };
            if let Some(QuestionWait { reply, .. }) = asked.wait.take() {
                return Poll::Ready(EndedQuestion { id: asked.id.clone(), end, reply });
            }
        }
        Poll::Pending
    }
}

impl QuestionWait {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<QuestionEnd> {
        if self.reply.as_mut().is_some_and(|reply| reply.poll_closed(cx).is_ready()) {
            return Poll::Ready(QuestionEnd::Abandoned);
        }
        if let Poll::Ready(reply) = Pin::new(&mut self.question.answer).poll(cx) {
            return Poll::Ready(reply.map_or(QuestionEnd::Abandoned, QuestionEnd::Replied));
        }
        match &mut self.deadline {
            Some(deadline) => deadline.as_mut().poll(cx).map(|()| QuestionEnd::TimedOut),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::Frame;

    use super::*;
    use crate::thread_clients::QuestionGuard;

    struct AskedApproval {
        client: oneshot::Sender<ClientAnswer>,
        tool: oneshot::Receiver<Option<ClientReply>>,
    }

    fn ask(questions: &mut OpenQuestions, id: i64, time_limit: Option<Duration>) -> AskedApproval {
        let (client, answer) = oneshot::channel();
        let (reply, tool) = oneshot::channel();
        let encode = Box::new(|_: &RequestId| Frame::written::<codicil_protocol::ThreadArchived>(Vec::new()));
        let request =
            QuestionRequest { kind: QuestionKind::Approval, encode, time_limit, durable: None, reply };
        let id = RequestId::Integer(id);
        questions.push(request, OpenQuestion { id, answer, withdraw: QuestionGuard(Box::new(())) }, None);
        AskedApproval { client, tool }
    }

    #[tokio::test]
    async fn the_wait_ends_with_the_reply_of_a_client() {
        let mut questions = OpenQuestions::default();
        let _first = ask(&mut questions, 1, None);
        let second = ask(&mut questions, 2, None);
        second
            .client
            .send(ClientAnswer { reply: Ok(RawValue::NULL.to_owned()), by: "test".to_owned() })
            .unwrap();
        let ended = questions.next().await;
        assert_eq!(ended.id, RequestId::Integer(2));
        assert!(matches!(ended.end, QuestionEnd::Replied(ClientAnswer { reply: Ok(_), .. })));
        assert_eq!(questions.remove(&ended.id), Some(QuestionKind::Approval));
        assert_eq!(questions.flags(None), [ThreadActiveFlag::WaitingOnApproval]);
    }

    #[tokio::test]
    async fn the_wait_ends_when_the_tool_is_dropped() {
        let mut questions = OpenQuestions::default();
        let asked = ask(&mut questions, 1, None);
        drop(asked.tool);
        let ended = questions.next().await;
        assert!(matches!(ended.end, QuestionEnd::Abandoned));
        assert!(asked.client.is_closed(), "the request is withdrawn");
        assert_eq!(questions.into_unresolved().count(), 1, "and is resolved with the turn");
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_with_the_time_limit() {
        let mut questions = OpenQuestions::default();
        let _asked = ask(&mut questions, 1, Some(Duration::from_secs(5)));
        assert!(matches!(questions.next().await.end, QuestionEnd::TimedOut));
    }
}
