//! Reports of people: written down on this machine and, where an endpoint is configured, sent there.
//!
//! A report is one JSON file in `feedback/` of the server's home, for its owner only. Everything in it that
//! looks like a secret is blotted out first. Nothing leaves the machine unless `[feedback] endpoint` says
//! where to.

mod logs;
mod redact;
mod report;
mod send;

use std::{
    io,
    path::{Path, PathBuf},
};

use codicil_protocol::{FeedbackUploadParams, ThreadId};
use parking_lot::Mutex;
use tokio::task::JoinSet;
use uuid::Uuid;

pub use self::{
    logs::{RecentLogs, recent_logs},
    report::{MAX_ATTACHMENT_BYTES, MAX_REPORTS},
};
use self::{report::FeedbackReport, send::send};

/// Reports on their way at the same time.
const MAX_SENDING: usize = 8;

/// Why a report was not taken.
#[derive(Debug, thiserror::Error)]
pub enum FeedbackError {
    /// The sentence is the reference server's; clients match on it.
    #[error("sending feedback is disabled by configuration")]
    Disabled,
    #[error("failed to write the report: {0}")]
    Io(#[from] io::Error),
}

/// Who reports, from where.
#[derive(Clone, Debug, Default)]
pub struct FeedbackSender {
    pub user_agent: String,
    pub server_version: String,
}

/// Takes reports. Dropping it gives up what is still being sent; the files stay.
#[derive(Debug)]
pub struct Feedback {
    folder: PathBuf,
    sending: Mutex<JoinSet<()>>,
}

impl Feedback {
    pub fn new(home: &Path) -> Self {
        Self { folder: home.join("feedback"), sending: Mutex::default() }
    }

    /// Writes a report and answers the id to quote. With logs come the thread as it is stored, the last
    /// lines of the server's log and the files that the client names. Blocks on the disk.
    pub fn write(
        &self,
        params: FeedbackUploadParams,
        sender: &FeedbackSender,
        thread: Option<String>,
    ) -> Result<(ThreadId, WrittenReport), FeedbackError> {
        let id = params.thread_id.clone().unwrap_or_else(no_thread);
        let report = FeedbackReport::new(&id, params, sender, thread);
        let (path, body) = report.write(&self.folder)?;
        Ok((id, WrittenReport { path, body }))
    }

    /// Sends a report in its own time. A failure is logged; the file stays either way.
    pub fn send(&self, endpoint: String, report: WrittenReport) {
        let mut sending = self.sending.lock();
        while sending.try_join_next().is_some() {}
        if sending.len() >= MAX_SENDING {
            tracing::warn!(report = %report.path.display(), "too many reports are being sent; this one is not");
            return;
        }
        sending.spawn(async move {
            if let Err(error) = send(&endpoint, report.body).await {
                tracing::warn!(report = %report.path.display(), "a report could not be sent: {error}");
            }
        });
    }
}

/// A report on disk.
#[derive(Debug)]
pub struct WrittenReport {
    pub path: PathBuf,
    body: String,
}

/// Something to quote when there is no thread, in the form that clients know.
fn no_thread() -> ThreadId {
    format!("no-active-thread-{}", Uuid::now_v7()).as_str().into()
}
