//! Attachments of threads: `thread/attachment/*` and `thread/attachmentOwner/list`. An attachment is data of a client that
//! belongs to a thread; the server only stores it.

use serde_json::Value;

use crate::{ThreadId, wire};

/// Data that a client attached to a thread.
#[wire]
pub struct ThreadAttachment {
    pub id: String,
    /// The kind of the attachment, chosen by the client.
    pub attachment_type: String,
    /// Unix seconds.
    pub created_at: i64,
    /// What the attachment is about, such as a URL. A thread has at most one of each kind and key.
    pub identity_key: String,
    pub payload: Value,
}

/// Attaches data to a thread.
#[wire]
pub struct ThreadAttachmentAddParams {
    pub thread_id: ThreadId,
    pub attachment_type: String,
    pub identity_key: String,
    pub payload: Value,
}

/// The attachment. An existing one of the same kind and key is kept.
#[wire]
pub struct ThreadAttachmentAddResponse {
    pub attachment: ThreadAttachment,
    pub outcome: ThreadAttachmentAddOutcome,
}

/// Whether an attachment is new.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadAttachmentAddOutcome {
    Created,
    Existing,
}

/// Lists the attachments of a thread.
#[wire(sparse)]
pub struct ThreadAttachmentListParams {
    pub thread_id: ThreadId,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// One page of attachments, oldest first.
#[wire]
pub struct ThreadAttachmentListResponse {
    pub data: Vec<ThreadAttachment>,
    pub next_cursor: Option<String>,
}

/// Lists the threads that have an attachment of a kind and key.
#[wire(sparse)]
pub struct ThreadAttachmentOwnerListParams {
    pub attachment_type: String,
    pub identity_key: String,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    /// Lists only archived threads. Otherwise archived threads are not listed.
    pub archived: Option<bool>,
}

/// One page of threads.
#[wire]
pub struct ThreadAttachmentOwnerListResponse {
    pub data: Vec<ThreadAttachmentOwner>,
    pub next_cursor: Option<String>,
}

/// A thread with the attachment.
#[wire]
pub struct ThreadAttachmentOwner {
    pub thread_id: ThreadId,
    pub archived: bool,
}

/// Removes an attachment from a thread.
#[wire]
pub struct ThreadAttachmentRemoveParams {
    pub thread_id: ThreadId,
    pub attachment_type: String,
    pub identity_key: String,
}

/// The attachment is removed. Succeeds also without one.
#[wire]
#[derive(Default)]
pub struct ThreadAttachmentRemoveResponse {}

/// An attachment of a thread was added or removed. Sent to all connections.
#[wire]
pub struct ThreadAttachmentUpdatedNotification {
    pub thread_id: ThreadId,
    pub attachment_id: String,
    pub attachment_type: String,
    pub identity_key: String,
    pub operation: ThreadAttachmentOperation,
}

/// What happened to an attachment.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadAttachmentOperation {
    Created,
    Deleted,
}
