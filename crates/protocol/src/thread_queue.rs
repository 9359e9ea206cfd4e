//! The queue of a thread: `thread/queue/*`. Input that is queued starts a turn of its own when the thread is idle.

use crate::{ThreadId, Turn, UserInput, wire};

/// Queued input.
#[wire]
pub struct QueuedSubmission {
    pub id: String,
    /// Comes back as `clientId` of the user message.
    pub client_user_message_id: String,
    pub input: Vec<UserInput>,
}

/// Adds input to the queue of a thread.
#[wire]
pub struct ThreadQueueAddParams {
    pub thread_id: ThreadId,
    pub client_user_message_id: String,
    pub input: Vec<UserInput>,
}

/// The new entry; `thread/queue/changed` follows.
#[wire]
pub struct ThreadQueueAddResponse {
    pub queued_submission: QueuedSubmission,
}

/// Lists the queue of a thread.
#[wire(sparse)]
pub struct ThreadQueueListParams {
    pub thread_id: ThreadId,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// One page of the queue, next first.
#[wire]
pub struct ThreadQueueListResponse {
    pub data: Vec<QueuedSubmission>,
    pub next_cursor: Option<String>,
}

/// Replaces the input of a queued entry.
#[wire]
pub struct ThreadQueueUpdateParams {
    pub thread_id: ThreadId,
    pub queued_submission_id: String,
    pub input: Vec<UserInput>,
}

/// The entry after the change; `thread/queue/changed` follows.
#[wire]
pub struct ThreadQueueUpdateResponse {
    pub queued_submission: QueuedSubmission,
}

/// Removes an entry from the queue.
#[wire]
pub struct ThreadQueueDeleteParams {
    pub thread_id: ThreadId,
    pub queued_submission_id: String,
}

/// Whether the queue had the entry.
#[wire]
pub struct ThreadQueueDeleteResponse {
    pub deleted: bool,
}

/// Changes the order of the queue.
#[wire]
pub struct ThreadQueueReorderParams {
    pub thread_id: ThreadId,
    /// All entries, in their new order.
    pub queued_submission_ids: Vec<String>,
}

/// The order is changed; `thread/queue/changed` follows.
#[wire]
#[derive(Default)]
pub struct ThreadQueueReorderResponse {}

/// Starts a turn with queued input at once. Rejected while a turn is running.
#[wire(sparse)]
pub struct ThreadQueueStartParams {
    pub thread_id: ThreadId,
    /// Defaults to the next entry.
    pub queued_submission_id: Option<String>,
}

/// The turn that took the input.
#[wire]
pub struct ThreadQueueStartResponse {
    pub turn: Turn,
}

/// The queue of a thread changed; list it again. Sent to its subscribers.
#[wire]
pub struct ThreadQueueChangedNotification {
    pub thread_id: ThreadId,
}
