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

use crate::{
    connection_state::ConnectionState,
    error::{DisconnectCause, Disconnected},
};

/// The raw JSON of a result, or the reason why there is none.
pub type CallAnswer = Result<Bytes, CallFailure>;

#[derive(Debug)]
pub enum CallFailure {
    Error(ErrorObject),
    Disconnected(Arc<Disconnected>),
    /// The node that the call was sent to is lost. The call can be sent to the next one: it was not sent, or has a key.
    NodeLost(Arc<Disconnected>),
}

/// The pending calls of a client.
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
    /// The number of the connection that it was sent over.
    connection: u64,
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
        let new_call = |caller| PendingCall { caller, connection: 0, keyed_message: None };
        let mut calls = self.calls.lock();
        match calls.disconnected.clone() {
            // The receiver is in scope, so this cannot fail.
            Some(reason) => drop(sender.send(Err(CallFailure::Disconnected(reason)))),
            None => drop(calls.waiting.insert(id, new_call(sender))),
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

    /// Fails the pending calls of the first connection without keys. The others wait for the next connection.
    pub fn fail_unkeyed(&self, reason: &Arc<Disconnected>) {
        let is_unkeyed =
            |_: &i64, call: &mut PendingCall| call.connection == 0 && call.keyed_message.is_none();
        let failed: Vec<_> = self.calls.lock().waiting.extract_if(is_unkeyed).collect();
        for (_, call) in failed {
            // The caller may have been dropped.
            let _ = call.caller.send(Err(CallFailure::Disconnected(reason.clone())));
        }
    }

    /// Gives the pending calls of a node that is lost back to their callers. Those without keys fail, unless they were not
    /// sent.
    pub fn lose_node(&self, connection: &ConnectionState, reason: &Arc<Disconnected>) {
        let is_meant = |_: &i64, call: &mut PendingCall| call.connection == connection.number;
        let lost: Vec<_> = self.calls.lock().waiting.extract_if(is_meant).collect();
        for (_, call) in lost {
            let can_be_sent = call.keyed_message.is_some() || !connection.was_open();
            let failure = if can_be_sent { CallFailure::NodeLost } else { CallFailure::Disconnected };
            // The caller may have been dropped.
            let _ = call.caller.send(Err(failure(reason.clone())));
        }
    }

    /// Gives a call back to its caller, whose node is lost.
    pub fn give_back(&self, waiting: &WaitingCall) {
        if let Some(call) = self.calls.lock().waiting.remove(&waiting.id) {
            let cause = DisconnectCause::ClosedByServer(String::new());
            let reason = Arc::new(Disconnected { cause, stderr_tail: String::new() });
            // The caller may have been dropped.
            let _ = call.caller.send(Err(CallFailure::NodeLost(reason)));
        }
    }

    /// Returns whether calls of a connection are pending.
    pub fn has_calls_of(&self, connection: &ConnectionState) -> bool {
        self.calls.lock().waiting.values().any(|call| call.connection == connection.number)
    }

    /// Returns the pending requests of the first connection with keys, in the order of the calls.
    pub fn keyed_messages(&self) -> Vec<Bytes> {
        let calls = self.calls.lock();
        let first = calls.waiting.iter().filter(|(_, call)| call.connection == 0);
        let mut messages: Vec<_> =
            first.filter_map(|(id, call)| Some((*id, call.keyed_message.clone()?))).collect();
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

    /// Notes the connection of the call, and keeps a request with a key for the next one.
    pub fn send_over(&self, connection: &ConnectionState, keyed_message: Option<&Bytes>) {
        if let Some(call) = self.pending.calls.lock().waiting.get_mut(&self.id) {
            call.connection = connection.number;
            call.keyed_message = keyed_message.cloned();
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
