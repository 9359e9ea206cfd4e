//! Feedback reports: written to the server's home and, if an endpoint is configured, sent there.
//!
//! A report is one JSON file in `feedback/` below the home, readable by its owner only. [`redact`](redact::redact)
//! removes everything that looks like a secret before a report is written. Nothing leaves the machine unless
//! `[feedback] endpoint` is set.

mod logs;
mod redact;
mod report;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_protocol::{FeedbackUploadParams, ThreadId};
use parking_lot::Mutex;
use reqwest::Url;
use tokio::task::JoinSet;
use uuid::Uuid;

use self::report::FeedbackReport;
pub use self::{
    logs::{RecentLogs, recent_logs},
    report::FeedbackSender,
};

/// Reports that are sent at the same time. Further ones are only written.
const MAX_SENDING: usize = 8;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout of the whole request.
const SEND_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a report was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum FeedbackError {
    /// Clients of the reference server match on this text.
    #[error("sending feedback is disabled by configuration")]
    Disabled,
    #[error("failed to write the report: {0}")]
    Io(#[from] io::Error),
    #[error("feedback savePath must be an absolute host path")]
    RelativePath,
    #[error("failed to save feedback: feedback save path already exists")]
    PathExists,
    #[error("failed to save feedback: {0}")]
    Save(io::Error),
}

/// Writes and sends reports. Dropping it cancels what is still being sent; the files stay.
#[derive(Debug)]
pub struct Feedback {
    directory: PathBuf,
    sending: Mutex<JoinSet<()>>,
}

/// A report on disk.
#[derive(Debug)]
pub struct WrittenReport {
    /// The thread of the report, or a generated id that the user can quote.
    pub thread_id: ThreadId,
    pub path: PathBuf,
    body: String,
}

impl Feedback {
    pub fn new(home: &Path) -> Self {
        Self { directory: home.join("feedback"), sending: Mutex::default() }
    }

    /// Writes a report. With `include_logs` it holds the thread as it is stored, the last lines of the
    /// server's log and the files that the client names. Blocks on the disk.
    pub fn write(
        &self,
        params: FeedbackUploadParams,
        sender: &FeedbackSender,
        thread: Option<String>,
    ) -> Result<WrittenReport, FeedbackError> {
        let thread_id = params.thread_id.clone().unwrap_or_else(placeholder_id);
        let report = FeedbackReport::new(&thread_id, params, sender, thread);
        let (path, body) = report.write(&self.directory)?;
        Ok(WrittenReport { thread_id, path, body })
    }

    /// Writes a report to a new file outside the home and returns its thread. Blocks on the disk.
    pub fn save(
        &self,
        params: FeedbackUploadParams,
        sender: &FeedbackSender,
        thread: Option<String>,
        path: &Path,
    ) -> Result<ThreadId, FeedbackError> {
        let thread_id = params.thread_id.clone().unwrap_or_else(placeholder_id);
        let report = FeedbackReport::new(&thread_id, params, sender, thread);
        report.save(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => FeedbackError::PathExists,
            _ => FeedbackError::Save(error),
        })?;
        Ok(thread_id)
    }

    /// Sends a report in the background. A failure is logged; the file stays either way.
    pub fn send(&self, endpoint: String, report: WrittenReport) {
        let WrittenReport { path, body, .. } = report;
        let mut sending = self.sending.lock();
        while sending.try_join_next().is_some() {}
        if sending.len() >= MAX_SENDING {
            tracing::warn!(report = %path.display(), "did not send a report: too many are being sent");
            return;
        }
        sending.spawn(async move {
            if let Err(error) = post(&endpoint, body).await {
                tracing::warn!(report = %path.display(), "failed to send a report: {error}");
            }
        });
    }
}

/// Why a report could not be sent. The endpoint's address is left out: it may contain a secret.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("feedback.endpoint is not a valid URL")]
    InvalidUrl,
    #[error("{0}")]
    Setup(String),
    #[error("{0}")]
    Http(reqwest::Error),
    #[error("the endpoint answered {0}")]
    Status(reqwest::StatusCode),
}

/// Posts a report as JSON, without retries.
async fn post(endpoint: &str, body: String) -> Result<(), SendError> {
    let url: Url = endpoint.parse().map_err(|_| SendError::InvalidUrl)?;
    let client = codicil_http::http_client(&url, CONNECT_TIMEOUT).await;
    let client = client.map_err(|error| SendError::Setup(error.to_string()))?;
    let request =
        client.post(url).header("content-type", "application/json").timeout(SEND_TIMEOUT).body(body);
    let response = request.send().await.map_err(|error| SendError::Http(error.without_url()))?;
    if response.status().is_success() { Ok(()) } else { Err(SendError::Status(response.status())) }
}

/// Returns an id for a report without a thread, in the form that clients know.
fn placeholder_id() -> ThreadId {
    format!("no-active-thread-{}", Uuid::now_v7()).as_str().into()
}

#[cfg(test)]
mod tests;
