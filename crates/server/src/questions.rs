//! Server requests that wait for a client's answer.
//!
//! One table holds every open question. The first answer counts, and the asker may withdraw its question at any time.
//! Ids count from 0 per process, as in the reference server.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicI64, Ordering},
};

use codicil_engine::{ClientAnswer, ClientReply};
use codicil_protocol::{Frame, ThreadId, rpc::RequestId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::clients::ClientId;

/// The table of open questions.
#[derive(Debug, Default)]
pub struct OpenQuestions {
    next_id: AtomicI64,
    pending: Mutex<HashMap<RequestId, PendingQuestion>>,
}

/// The clients that are asked and may answer.
#[derive(Debug, PartialEq, Eq)]
pub enum QuestionAudience {
    /// The subscribers of a thread, including those that subscribe later.
    Subscribers(ThreadId),
    Clients(Vec<ClientId>),
}

#[derive(Debug)]
struct PendingQuestion {
    audience: QuestionAudience,
    frame: Frame,
    reply: oneshot::Sender<ClientAnswer>,
}

impl OpenQuestions {
    /// Adds a question and assigns its id. The caller sends the frame.
    pub fn ask(
        &self,
        audience: QuestionAudience,
        encode: &dyn Fn(&RequestId) -> Frame,
    ) -> (RequestId, Frame, oneshot::Receiver<ClientAnswer>) {
        let id = self.new_id();
        let frame = encode(&id);
        let (reply, answer) = oneshot::channel();
        let pending = PendingQuestion { audience, frame: frame.clone(), reply };
        self.pending.lock().insert(id.clone(), pending);
        (id, frame, answer)
    }

    /// Returns an id that no other server request of this process has.
    pub fn new_id(&self) -> RequestId {
        RequestId::Integer(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    /// Passes an answer on to the asker. An answer to an unknown question, or a second answer, is ignored.
    pub fn answer(
        &self,
        id: &RequestId,
        may_answer: impl FnOnce(&QuestionAudience) -> bool,
        reply: ClientReply,
        by: &str,
    ) {
        let mut pending = self.pending.lock();
        if pending.get(id).is_some_and(|question| may_answer(&question.audience))
            && let Some(question) = pending.remove(id)
        {
            drop(pending);
            // Fails if the asker has withdrawn the question meanwhile.
            let _ = question.reply.send(ClientAnswer { reply, by: by.to_owned() });
        }
    }

    /// Removes a question that needs no answer any more.
    pub fn withdraw(&self, id: &RequestId) {
        self.pending.lock().remove(id);
    }

    /// Returns the open questions for the subscribers of a thread, oldest first.
    pub fn of_thread(&self, thread: &ThreadId) -> Vec<Frame> {
        let pending = self.pending.lock();
        let subscribers = QuestionAudience::Subscribers(thread.clone());
        let mut open: Vec<_> =
            pending.iter().filter(|(_, question)| question.audience == subscribers).collect();
        open.sort_by_key(|(id, _)| *id);
        open.into_iter().map(|(_, question)| question.frame.clone()).collect()
    }
}
