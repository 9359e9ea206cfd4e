//! Questions that a turn asks: who waits for what, and when it is over.

use codicil_protocol::{
    ServerRequestResolved, ServerRequestResolvedNotification, ThreadStatus, rpc::RequestId,
};
use tokio::sync::oneshot;

use super::actor::ThreadActor;
use crate::{
    audience::OpenQuestion,
    tools::{QuestionKind, QuestionRequest},
};

impl ThreadActor {
    /// Shows that the thread waits, then asks.
    pub(super) fn on_ask(&mut self, asking: QuestionRequest, reply: oneshot::Sender<OpenQuestion>) {
        let Some(active) = &self.active else { return };
        if active.cancel.is_cancelled() {
            return;
        }
        self.show_waiting(Some(asking.kind));
        let question = self.world.audience.ask(&self.state.id, &*asking.encode);
        let id = question.id.clone();
        if reply.send(question).is_ok()
            && let Some(active) = &mut self.active
        {
            active.asked.push((id, asking.kind));
        }
    }

    /// Everybody learns that the question is over, then that the thread goes on.
    pub(super) fn on_answered(&mut self, id: &RequestId) {
        let Some(active) = &mut self.active else { return };
        let Some(at) = active.asked.iter().position(|(asked, _)| asked == id) else { return };
        let (id, kind) = active.asked.remove(at);
        self.say_resolved(id, kind);
        self.show_waiting(None);
    }

    /// What nobody answered is void once its turn is over.
    pub(super) fn resolve_all(&self, asked: Vec<(RequestId, QuestionKind)>) {
        for (id, kind) in asked {
            self.say_resolved(id, kind);
        }
    }

    fn say_resolved(&self, request_id: RequestId, kind: QuestionKind) {
        if kind.is_announced() {
            let thread_id = self.state.id.clone();
            self.notify::<ServerRequestResolved>(&ServerRequestResolvedNotification {
                thread_id,
                request_id,
            });
        }
    }

    /// The status says what is waited for, with one question more if there is one.
    fn show_waiting(&mut self, more: Option<QuestionKind>) {
        let Some(active) = &self.active else { return };
        let mut active_flags = Vec::new();
        for flag in active.asked.iter().map(|(_, kind)| *kind).chain(more).filter_map(QuestionKind::flag) {
            if !active_flags.contains(&flag) {
                active_flags.push(flag);
            }
        }
        self.set_status(ThreadStatus::Active { active_flags });
    }
}
