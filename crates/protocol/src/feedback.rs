//! Feedback reports: `feedback/upload`. The response does not wait for the network. The configuration can disable reports.

use std::collections::BTreeMap;

use crate::{LegacyAppPathString, ThreadId, wire};

/// Submits a feedback report.
#[wire(sparse)]
pub struct FeedbackUploadParams {
    /// The kind of report, chosen by the client.
    pub classification: String,
    pub reason: Option<String>,
    /// The thread that the report is about.
    pub thread_id: Option<ThreadId>,
    /// Absent: false. 0.118 requires it.
    #[in_118(bool)]
    #[in_166(bool, optional)]
    pub include_logs: Option<bool>,
    /// Paths of further files to attach.
    pub extra_log_files: Option<Vec<String>>,
    /// Labels of the client, kept in the report.
    #[since("0.166")]
    pub tags: Option<BTreeMap<String, String>>,
}

/// The id of the report.
#[wire]
pub struct FeedbackUploadResponse {
    /// The thread of the report; a random id if the report is not about a thread.
    pub thread_id: ThreadId,
    /// Never set: prompts are not hashed.
    #[omit]
    #[since("0.166")]
    pub prompt_hash: Option<String>,
}

/// Writes a feedback report to a file.
#[wire(sparse)]
pub struct FeedbackSaveParams {
    pub save_path: LegacyAppPathString,
    pub thread_id: Option<ThreadId>,
    pub classification: String,
    pub extra_log_files: Option<Vec<String>>,
    #[serde(default)]
    pub include_logs: bool,
    pub reason: Option<String>,
    pub tags: Option<BTreeMap<String, String>>,
}

/// The file of the report.
#[wire]
pub struct FeedbackSaveResponse {
    pub thread_id: ThreadId,
    pub saved_path: LegacyAppPathString,
    pub prompt_hash: Option<String>,
}
