//! Read states of threads: `thread/readState/*`. The server keeps for each thread up to where the user has read it.

use crate::{ThreadId, TurnId, wire};

/// How far a thread is read.
#[wire]
pub struct ThreadReadState {
    /// Changes with every change of the state.
    pub revision: String,
    /// Null if everything is read.
    pub first_unread: Option<ThreadUnreadPosition>,
}

/// The place in a thread from which on it is unread.
#[wire(open, tag = "type")]
pub enum ThreadUnreadPosition {
    ThreadStart,
    Turn { turn_id: TurnId },
}

/// Marks a thread as read or unread.
#[wire]
pub struct ThreadReadStateUpdateParams {
    pub thread_id: ThreadId,
    /// Rejects the change if the state has another revision.
    pub expected_revision: String,
    pub operation: ThreadReadStateOperation,
}

/// The change of a read state.
#[wire(sparse, open, tag = "type")]
pub enum ThreadReadStateOperation {
    Read,
    Unread,
}

/// The state after the change; `thread/readState/changed` follows.
#[wire]
pub struct ThreadReadStateUpdateResponse {
    pub read_state: ThreadReadState,
}

/// The read state of a thread changed. Sent to all connections.
#[wire]
pub struct ThreadReadStateChangedNotification {
    pub thread_id: ThreadId,
    pub read_state: ThreadReadState,
}
