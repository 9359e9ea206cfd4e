//! The open server requests of a turn, and the wait for their replies.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use codicil_protocol::{ThreadActiveFlag, rpc::RequestId};
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};

use crate::{
    thread_clients::{ClientReply, OpenQuestion},
    turn_channel::QuestionRequest,
};

pub(super) use crate::turn_channel::QuestionKind;

/// The open server requests of a turn, oldest first.
#[derive(Default)]
pub(super) struct OpenQuestions(Vec<AskedQuestion>);

/// A server request that is not resolved yet.
struct AskedQuestion {
    id: RequestId,
    kind: QuestionKind,
    /// `None` for a request that was withdrawn because the turn is being stopped. It is resolved with the turn.
    wait: Option<QuestionWait>,
}

/// The two ends of a request: the clients, and the tool that asked.
struct QuestionWait {
    /// Dropping this withdraws the request.
    question: OpenQuestion,
    deadline: Option<Pin<Box<Sleep>>>,
    reply: oneshot::Sender<Option<ClientReply>>,
}

/// Why the wait for a reply is over.
pub(super) enum QuestionEnd {
    /// A client replied.
    Replied(ClientReply),
    /// The time limit passed.
    TimedOut,
    /// The tool no longer waits, or no client can reply any more.
    Abandoned,
}

/// A request whose wait is over. It is still in the table.
pub(super) struct EndedQuestion {
    pub id: RequestId,
    pub end: QuestionEnd,
    pub reply: oneshot::Sender<Option<ClientReply>>,
}

impl OpenQuestions {
    pub fn push(&mut self, request: QuestionRequest, question: OpenQuestion) {
        let deadline = request.time_limit.map(|limit| Box::pin(sleep(limit)));
        let id = question.id.clone();
        let wait = QuestionWait { question, deadline, reply: request.reply };
        self.0.push(AskedQuestion { id, kind: request.kind, wait: Some(wait) });
    }

    /// Removes a request and returns its kind.
    pub fn remove(&mut self, id: &RequestId) -> Option<QuestionKind> {
        let at = self.0.iter().position(|asked| asked.id == *id)?;
        Some(self.0.remove(at).kind)
    }

    /// Returns the status flags of the open requests and of `more`, each once.
    pub fn flags(&self, more: Option<QuestionKind>) -> Vec<ThreadActiveFlag> {
        let mut flags = Vec::new();
        let kinds = self.0.iter().map(|asked| asked.kind).chain(more);
        for flag in kinds.filter_map(QuestionKind::flag) {
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        flags
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
        if self.reply.poll_closed(cx).is_ready() {
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
    use std::time::Duration;

    use codicil_protocol::Frame;
    use serde_json::value::RawValue;

    use super::*;
    use crate::thread_clients::QuestionGuard;

    struct AskedApproval {
        client: oneshot::Sender<ClientReply>,
        tool: oneshot::Receiver<Option<ClientReply>>,
    }

    fn ask(questions: &mut OpenQuestions, id: i64, time_limit: Option<Duration>) -> AskedApproval {
        let (client, answer) = oneshot::channel();
        let (reply, tool) = oneshot::channel();
        let encode = Box::new(|_: &RequestId| Frame::written::<codicil_protocol::ThreadArchived>(Vec::new()));
        let request = QuestionRequest { kind: QuestionKind::Approval, encode, time_limit, reply };
        let id = RequestId::Integer(id);
        questions.push(request, OpenQuestion { id, answer, withdraw: QuestionGuard(Box::new(())) });
        AskedApproval { client, tool }
    }

    #[tokio::test]
    async fn the_wait_ends_with_the_reply_of_a_client() {
        let mut questions = OpenQuestions::default();
        let _first = ask(&mut questions, 1, None);
        let second = ask(&mut questions, 2, None);
        second.client.send(Ok(RawValue::NULL.to_owned())).unwrap();
        let ended = questions.next().await;
        assert_eq!(ended.id, RequestId::Integer(2));
        assert!(matches!(ended.end, QuestionEnd::Replied(Ok(_))));
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
