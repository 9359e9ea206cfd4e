//! Server requests that are open: the thread sends them for its turn's tools, waits for the clients' replies, and
//! resolves them.
//!
//! Clients learn that a request is resolved, and subscribers see the new status, before the tool gets the reply.
//! What the tool does with it therefore always follows on the wire.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use codicil_protocol::{
    ServerRequestResolved, ServerRequestResolvedNotification, ThreadActiveFlag, ThreadStatus, rpc::RequestId,
};
use tokio::{
    sync::oneshot,
    time::{Sleep, sleep},
};

use super::actor::ThreadActor;
use crate::{
    audience::{ClientReply, OpenQuestion},
    step::{QuestionKind, QuestionRequest},
};

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
    id: RequestId,
    end: QuestionEnd,
    reply: oneshot::Sender<Option<ClientReply>>,
}

impl OpenQuestions {
    fn push(&mut self, request: QuestionRequest, question: OpenQuestion) {
        let deadline = request.time_limit.map(|limit| Box::pin(sleep(limit)));
        let id = question.id.clone();
        let wait = QuestionWait { question, deadline, reply: request.reply };
        self.0.push(AskedQuestion { id, kind: request.kind, wait: Some(wait) });
    }

    fn remove(&mut self, id: &RequestId) -> Option<QuestionKind> {
        let at = self.0.iter().position(|asked| asked.id == *id)?;
        Some(self.0.remove(at).kind)
    }

    /// Returns the status flags of the open requests and of `more`, each once.
    fn flags(&self, more: Option<QuestionKind>) -> Vec<ThreadActiveFlag> {
        let mut flags = Vec::new();
        let kinds = self.0.iter().map(|asked| asked.kind).chain(more);
        for flag in kinds.filter_map(QuestionKind::flag) {
            if !flags.contains(&flag) {
                flags.push(flag);
            }
        }
        flags
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

impl ThreadActor {
    /// Updates the status, then sends the request to the subscribers.
    pub(super) fn on_question(&mut self, request: QuestionRequest) {
        let Some(active) = &self.active else { return };
        if active.cancel.is_cancelled() {
            return;
        }
        self.update_waiting_status(Some(request.kind));
        let question = self.world.audience.ask(&self.state.id, &*request.encode);
        if let Some(active) = &mut self.active {
            active.questions.push(request, question);
        }
    }

    /// Resolves the request for all clients, updates the status, and only then forwards the reply.
    pub(super) fn on_question_ended(&mut self, ended: EndedQuestion) {
        let Some(active) = &mut self.active else { return };
        if active.cancel.is_cancelled() {
            // The request is withdrawn now and resolved after the turn's end.
            return;
        }
        let Some(kind) = active.questions.remove(&ended.id) else { return };
        self.notify_resolved(ended.id, kind);
        self.update_waiting_status(None);
        let reply = match ended.end {
            QuestionEnd::Replied(reply) => Some(reply),
            QuestionEnd::TimedOut => None,
            QuestionEnd::Abandoned => return,
        };
        // The tool may have been dropped in this moment.
        let _ = ended.reply.send(reply);
    }

    /// Resolves the requests that are still open at the end of their turn.
    pub(super) fn resolve_all(&self, questions: OpenQuestions) {
        for asked in questions.0 {
            self.notify_resolved(asked.id, asked.kind);
        }
    }

    fn notify_resolved(&self, request_id: RequestId, kind: QuestionKind) {
        if kind.is_announced() {
            let thread_id = self.state.id.clone();
            self.notify::<ServerRequestResolved>(&ServerRequestResolvedNotification {
                thread_id,
                request_id,
            });
        }
    }

    /// Sets the status flags to those of the open requests and of one that is about to be sent.
    fn update_waiting_status(&mut self, more: Option<QuestionKind>) {
        let Some(active) = &self.active else { return };
        let active_flags = active.questions.flags(more);
        self.set_status(ThreadStatus::Active { active_flags });
    }
}
