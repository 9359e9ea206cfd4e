//! Requests of the server that wait for a client's answer.
//!
//! One table holds every pending question. The first answer counts; whoever asked may give up at any
//! time, and a question that nobody is left to answer is void. Ids count from 0 per process, as clients
//! of the reference server have seen.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicI64, Ordering},
};

use codicil_engine::ClientReply;
use codicil_protocol::{Frame, ThreadId, rpc::RequestId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::clients::ClientId;

#[derive(Debug, Default)]
pub struct OpenQuestions {
    next_id: AtomicI64,
    pending: Mutex<HashMap<RequestId, PendingQuestion>>,
}

/// Who is asked, and so may answer.
#[derive(Debug, PartialEq, Eq)]
pub enum QuestionAudience {
    /// Whoever is subscribed to a thread, also later on.
    Subscribers(ThreadId),
    Clients(Vec<ClientId>),
}

#[derive(Debug)]
struct PendingQuestion {
    asked: QuestionAudience,
    frame: Frame,
    reply: oneshot::Sender<ClientReply>,
}

impl OpenQuestions {
    /// Notes a question and gives it an id; the caller sends the frame.
    pub fn ask(
        &self,
        asked: QuestionAudience,
        encode: &dyn Fn(&RequestId) -> Frame,
    ) -> (RequestId, Frame, oneshot::Receiver<ClientReply>) {
        let id = RequestId::Integer(self.next_id.fetch_add(1, Ordering::Relaxed));
        let frame = encode(&id);
        let (reply, answer) = oneshot::channel();
        let pending = PendingQuestion { asked, frame: frame.clone(), reply };
        self.lock().insert(id.clone(), pending);
        (id, frame, answer)
    }

    /// Hands an answer to whoever asked. An answer to nothing, or a second one, is ignored.
    pub fn answer(
        &self,
        id: &RequestId,
        may_answer: impl FnOnce(&QuestionAudience) -> bool,
        answer: ClientReply,
    ) {
        let mut pending = self.lock();
        if pending.get(id).is_some_and(|question| may_answer(&question.asked))
            && let Some(question) = pending.remove(id)
        {
            drop(pending);
            // The asker may have given up in this very moment; then the answer is late.
            let _ = question.reply.send(answer);
        }
    }

    /// Drops a question that is not asked any more.
    pub fn withdraw(&self, id: &RequestId) {
        self.lock().remove(id);
    }

    /// The questions a new subscriber of a thread has to see, oldest first.
    pub fn of_thread(&self, thread: &ThreadId) -> Vec<Frame> {
        let pending = self.lock();
        let concerns =
            |asked: &QuestionAudience| matches!(asked, QuestionAudience::Subscribers(of) if of == thread);
        let mut open: Vec<_> = pending.iter().filter(|(_, question)| concerns(&question.asked)).collect();
        open.sort_by_key(|(id, _)| *id);
        open.into_iter().map(|(_, question)| question.frame.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, PendingQuestion>> {
        self.pending.lock()
    }
}
