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
    waiting: HashMap<i64, PendingCall>,
    disconnected: Option<Arc<Disconnected>>,
}

#[derive(Debug)]
struct PendingCall {
    caller: oneshot::Sender<CallAnswer>,
    /// The request, if it has a key: it is sent again on the next connection.
    keyed_message: Option<Bytes>,
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
            None => drop(calls.waiting.insert(id, PendingCall { caller: sender, keyed_message: None })),
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
        let call = id.and_then(|id| self.calls.lock().waiting.remove(&id));
        call.is_some_and(|call| call.caller.send(answer).is_ok())
    }

    /// Fails the pending calls without keys. The others wait for the next connection.
    pub fn fail_unkeyed(&self, reason: &Arc<Disconnected>) {
        let is_unkeyed = |_: &i64, call: &mut PendingCall| call.keyed_message.is_none();
        let failed: Vec<_> = self.calls.lock().waiting.extract_if(is_unkeyed).collect();
        for (_, call) in failed {
            // The caller may have been dropped.
            let _ = call.caller.send(Err(CallFailure::Disconnected(reason.clone())));
        }
    }

    /// Returns the pending requests with keys, in the order of the calls.
    pub fn keyed_messages(&self) -> Vec<Bytes> {
        let calls = self.calls.lock();
        let mut messages: Vec<_> =
            calls.waiting.iter().filter_map(|(id, call)| Some((*id, call.keyed_message.clone()?))).collect();
        messages.sort_by_key(|(id, _)| *id);
        messages.into_iter().map(|(_, message)| message).collect()
    }

    /// Fails every pending call, and all later ones.
    pub fn end_all(&self, reason: &Arc<Disconnected>) {
        let waiting = {
            let mut calls = self.calls.lock();
            calls.disconnected = Some(reason.clone());
            std::mem::take(&mut calls.waiting)
        };
        for call in waiting.into_values() {
            // The caller may have been dropped.
            let _ = call.caller.send(Err(CallFailure::Disconnected(reason.clone())));
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

    /// Keeps the request, which has a key, for the next connection.
    pub fn keep_message(&self, message: &Bytes) {
        if let Some(call) = self.pending.calls.lock().waiting.get_mut(&self.id) {
            call.keyed_message = Some(message.clone());
        }
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
