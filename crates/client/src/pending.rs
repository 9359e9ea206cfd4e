//! Pending calls, by request id.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use bytes::Bytes;
use codicil_protocol::rpc::{ErrorObject, RequestId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::Disconnected;

/// The raw JSON of a result, or the reason why there is none.
pub type CallAnswer = Result<Bytes, CallFailure>;

#[derive(Debug)]
pub enum CallFailure {
    Error(ErrorObject),
    Disconnected(Arc<Disconnected>),
}

/// The pending calls of a connection.
#[derive(Debug, Default)]
pub struct PendingCalls {
    next_id: AtomicI64,
    calls: Mutex<CallTable>,
}

#[derive(Debug, Default)]
struct CallTable {
    waiting: HashMap<i64, oneshot::Sender<CallAnswer>>,
    disconnected: Option<Arc<Disconnected>>,
}

/// A pending call. It is removed when dropped.
#[derive(Debug)]
pub struct WaitingCall {
    id: i64,
    pending: Arc<PendingCalls>,
    answer: oneshot::Receiver<CallAnswer>,
}

impl PendingCalls {
    /// Registers a call under the next id. Ids start at 0.
    pub fn open(self: &Arc<Self>) -> WaitingCall {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let mut calls = self.calls.lock();
        match calls.disconnected.clone() {
            // The receiver is in scope, so this cannot fail.
            Some(reason) => drop(sender.send(Err(CallFailure::Disconnected(reason)))),
            None => drop(calls.waiting.insert(id, sender)),
        }
        WaitingCall { id, pending: self.clone(), answer }
    }

    /// Resolves a call. Returns `false` if no call with this id is pending: it timed out, or was never made.
    pub fn resolve(&self, id: &RequestId, answer: CallAnswer) -> bool {
        let id = match id {
            RequestId::Integer(id) => Some(*id),
            // Some servers return numeric ids as strings.
            RequestId::String(text) => text.parse().ok(),
        };
        let caller = id.and_then(|id| self.calls.lock().waiting.remove(&id));
        caller.is_some_and(|caller| caller.send(answer).is_ok())
    }

    /// Fails every pending call, and all later ones.
    pub fn end_all(&self, reason: &Arc<Disconnected>) {
        let waiting = {
            let mut calls = self.calls.lock();
            calls.disconnected = Some(reason.clone());
            std::mem::take(&mut calls.waiting)
        };
        for caller in waiting.into_values() {
            // The caller may have been dropped.
            let _ = caller.send(Err(CallFailure::Disconnected(reason.clone())));
        }
    }

    pub fn count(&self) -> usize {
        self.calls.lock().waiting.len()
    }
}

impl WaitingCall {
    pub fn id(&self) -> RequestId {
        RequestId::Integer(self.id)
    }

    pub async fn answer(&mut self) -> CallAnswer {
        let lost = || ErrorObject { code: 0, message: "the response was lost".to_owned(), data: None };
        (&mut self.answer).await.unwrap_or_else(|_| Err(CallFailure::Error(lost())))
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.pending.calls.lock().waiting.remove(&self.id);
    }
}
