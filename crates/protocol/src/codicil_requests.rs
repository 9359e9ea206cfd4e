//! `codicil/request/*`: server requests that outlive the connection and the process.

use serde_json::Value;

use crate::*;

/// Selects the requests to list.
#[wire(sparse)]
#[derive(Default)]
pub struct CodicilRequestListParams {
    /// One thread; without it, all threads.
    pub thread_id: Option<ThreadId>,
    /// `nextCursor` of the page before.
    pub cursor: Option<String>,
    /// The maximum number of requests.
    pub limit: Option<u32>,
}

/// A page of open requests.
#[wire]
pub struct CodicilRequestListResponse {
    pub data: Vec<CodicilWaitingRequest>,
    pub next_cursor: Option<String>,
}

/// A server request that waits for an answer.
#[wire]
pub struct CodicilWaitingRequest {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The identity of the request. Unlike the id of the message, it stays the same when the request is sent again.
    pub request: String,
    pub method: String,
    pub params: Value,
    /// Unix seconds.
    pub asked_at: i64,
    /// When the default answer is given, in Unix seconds.
    #[omit]
    pub deadline: Option<i64>,
}

/// The answer to a server request: either a result or an error.
#[wire(sparse)]
pub struct CodicilRequestAnswerParams {
    pub thread_id: ThreadId,
    /// The identity of the request, from `codicil/request/list`.
    pub request: String,
    /// The response of the request's method.
    pub result: Option<Value>,
    pub error: Option<rpc::ErrorObject>,
}

/// What became of an answer.
#[wire(tag = "status", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CodicilRequestAnswerResponse {
    /// The answer is stored, and the turn goes on with it.
    Accepted {},
    /// The request had an answer before, or its turn was over.
    AlreadyResolved {
        /// The name of the client that answered; `deadline` for the default answer, `turnEnd` for a turn that ended.
        by: String,
        /// Unix seconds.
        at: i64,
    },
}
