//! Reports to the makers: `feedback/upload`. It answers at once, also without a network; the
//! configuration can forbid it.

use crate::{ThreadId, wire};

/// A report, and what goes with it.
#[wire(sparse)]
pub struct FeedbackUploadParams {
    /// What kind of report it is; the client's own word.
    pub classification: String,
    pub reason: Option<String>,
    /// The conversation it is about.
    pub thread_id: Option<ThreadId>,
    pub include_logs: bool,
    /// Paths of more files to attach.
    pub extra_log_files: Option<Vec<String>>,
}

/// The id to quote when asking about the report.
#[wire]
pub struct FeedbackUploadResponse {
    /// The thread of the report; made up, and no thread at all, for a report about none.
    pub thread_id: ThreadId,
}
