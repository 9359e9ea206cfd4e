//! The server requests that are being answered, of all connections of a client.
//!
//! A request outlives its connection: if the server asks it again, over the next connection or another node that has taken the
//! thread over, it goes on under its new id.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use codicil_protocol::rpc::RequestId;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::AbortHandle;

use crate::{connection_state::ConnectionState, responder::RequestSlot};

/// The open requests, by the number of their connection and their id.
#[derive(Debug, Default)]
pub struct OpenRequests(Mutex<HashMap<(u64, RequestId), OpenRequest>>);

/// A server request that is being answered, or whose answer the server may not have received.
#[derive(Debug)]
pub struct OpenRequest {
    pub slot: Arc<RequestSlot>,
    pub thread: Option<String>,
    pub method: String,
    pub params: Value,
    pub task: AbortHandle,
    /// Whether the current connection has asked it.
    pub is_current: bool,
}

impl OpenRequests {
    /// Returns whether there is room for another request. Answers that are kept make room last.
    pub fn make_room(&self, limit: usize, keeps_answers: bool) -> bool {
        let mut open = self.0.lock();
        let is_kept = keeps_answers && open.len() < limit;
        open.retain(|_, request| is_kept || !request.task.is_finished());
        open.len() < limit
    }

    pub fn insert(&self, connection: &ConnectionState, id: RequestId, request: OpenRequest) {
        self.0.lock().insert((connection.number, id), request);
    }

    /// Continues a request that was asked before, under its new id. Returns `None` if there is none such, and the answer if
    /// the server of another connection has asked before and has it already.
    pub fn resume(
        &self,
        connection: &Arc<ConnectionState>,
        id: &RequestId,
        method: &str,
        params: &Value,
    ) -> Option<Option<Bytes>> {
        let mut open = self.0.lock();
        let is_same = |request: &OpenRequest| request.method == method && request.params == *params;
        let known = open.iter().find(|(_, request)| is_same(request)).map(|(key, _)| key.clone())?;
        let mut request = open.remove(&known)?;
        let is_elsewhere = known.0 != connection.number;
        request.slot.move_to(connection, id.clone());
        request.is_current = true;
        let answer = request.slot.message().filter(|_| is_elsewhere);
        open.insert((connection.number, id.clone()), request);
        Some(answer)
    }

    /// Cancels a request that was answered by another client or is no longer valid.
    pub fn cancel(&self, connection: &ConnectionState, id: RequestId) {
        if let Some(request) = self.0.lock().remove(&(connection.number, id)) {
            request.task.abort();
        }
    }

    /// Notes that a connection has ended: its server may ask its requests again.
    pub fn note_end(&self, connection: &ConnectionState) {
        let mut open = self.0.lock();
        let of_connection = open.iter_mut().filter(|((number, _), _)| *number == connection.number);
        of_connection.for_each(|(_, request)| request.is_current = false);
    }

    /// Drops the requests of a connection that it has not asked again. Returns the answers to the others.
    pub fn end_recovery(&self, connection: &ConnectionState) -> Vec<Bytes> {
        let mut open = self.0.lock();
        drop_gone(&mut open, |number, _| number == connection.number);
        let own = open.iter().filter(|((number, _), _)| *number == connection.number);
        own.filter_map(|(_, request)| request.slot.message()).collect()
    }

    /// Drops the requests of a thread that its server has not asked again.
    pub fn end_search(&self, thread: &str) {
        drop_gone(&mut self.0.lock(), |_, request| request.thread.as_deref() == Some(thread));
    }
}

fn drop_gone(
    open: &mut HashMap<(u64, RequestId), OpenRequest>,
    is_meant: impl Fn(u64, &OpenRequest) -> bool,
) {
    for (_, gone) in open.extract_if(|(number, _), request| !request.is_current && is_meant(*number, request))
    {
        gone.task.abort();
    }
}
