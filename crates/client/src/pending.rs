//! Calls that wait for their answers.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use bytes::Bytes;
use codicil_protocol::rpc::{ErrorObject, RequestId};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::error::Disconnected;

/// The JSON of a result, an error of the server, or the end of the connection.
pub type CallAnswer = Result<Bytes, CallFailure>;

#[derive(Debug)]
pub enum CallFailure {
    Error(ErrorObject),
    Ended(Arc<Disconnected>),
}

/// All calls of a connection that wait.
#[derive(Debug, Default)]
pub struct PendingCalls {
    next_id: AtomicI64,
    calls: Mutex<CallTable>,
}

#[derive(Debug, Default)]
struct CallTable {
    waiting: HashMap<i64, oneshot::Sender<CallAnswer>>,
    ended: Option<Arc<Disconnected>>,
}

/// One call that waits. It is forgotten when dropped.
#[derive(Debug)]
pub struct WaitingCall {
    id: i64,
    pending: Arc<PendingCalls>,
    answer: oneshot::Receiver<CallAnswer>,
}

impl PendingCalls {
    /// Takes the next id, the first being 0, and waits for its answer.
    pub fn open(self: &Arc<Self>) -> WaitingCall {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let mut calls = self.lock();
        match calls.ended.clone() {
            // The receiver is at hand, so this cannot fail.
            Some(ended) => drop(sender.send(Err(CallFailure::Ended(ended)))),
            None => drop(calls.waiting.insert(id, sender)),
        }
        WaitingCall { id, pending: self.clone(), answer }
    }

    /// Hands an answer to its call. False when nobody waits for it: it came too late, or was never asked for.
    pub fn resolve(&self, id: &RequestId, answer: CallAnswer) -> bool {
        let id = match id {
            RequestId::Integer(id) => Some(*id),
            // Some servers give numbers back as text.
            RequestId::String(text) => text.parse().ok(),
        };
        let caller = id.and_then(|id| self.lock().waiting.remove(&id));
        caller.is_some_and(|caller| caller.send(answer).is_ok())
    }

    /// Ends every call, and those to come.
    pub fn end(&self, ended: &Arc<Disconnected>) {
        let waiting = {
            let mut calls = self.lock();
            calls.ended = Some(ended.clone());
            std::mem::take(&mut calls.waiting)
        };
        for caller in waiting.into_values() {
            // A caller that is gone needs no answer.
            let _ = caller.send(Err(CallFailure::Ended(ended.clone())));
        }
    }

    pub fn count(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, CallTable> {
        self.calls.lock()
    }
}

impl WaitingCall {
    pub fn id(&self) -> RequestId {
        RequestId::Integer(self.id)
    }

    pub async fn answer(&mut self) -> CallAnswer {
        let lost = || ErrorObject { code: 0, message: "the answer was lost".to_owned(), data: None };
        (&mut self.answer).await.unwrap_or_else(|_| Err(CallFailure::Error(lost())))
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.pending.lock().waiting.remove(&self.id);
    }
}
