//! Feedback reports: `feedback/upload`. The response does not wait for the network. The configuration can disable reports.

use crate::{ThreadId, wire};

/// Submits a feedback report.
#[wire(sparse)]
pub struct FeedbackUploadParams {
    /// The kind of report, chosen by the client.
    pub classification: String,
    pub reason: Option<String>,
    /// The thread that the report is about.
    pub thread_id: Option<ThreadId>,
    pub include_logs: bool,
    /// Paths of further files to attach.
    pub extra_log_files: Option<Vec<String>>,
}

/// The id of the report.
#[wire]
pub struct FeedbackUploadResponse {
    /// The thread of the report; a random id if the report is not about a thread.
    pub thread_id: ThreadId,
}
