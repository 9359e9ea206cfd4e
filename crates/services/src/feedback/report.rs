//! What a report holds, and where it is written.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use codicil_protocol::{FeedbackUploadParams, ThreadId};
use serde::Serialize;
use uuid::Uuid;

use super::{FeedbackSender, logs::recent_logs, redact::redact};

/// The longest text of an attachment; of a longer one the end is taken.
pub const MAX_ATTACHMENT_BYTES: usize = 4 << 20;

/// The longest that a person's own words may be.
const MAX_REASON_BYTES: usize = 64 << 10;

/// Files that a client can attach.
const MAX_FILES: usize = 16;

/// Reports that are kept. Older ones make room.
pub const MAX_REPORTS: usize = 50;

/// A report, as it is written and sent.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FeedbackReport {
    id: String,
    created_at: String,
    thread_id: ThreadId,
    classification: String,
    reason: Option<String>,
    user_agent: String,
    server_version: String,
    os: &'static str,
    arch: &'static str,
    attachments: Vec<ReportAttachment>,
}

/// A text that goes with a report, or why it does not.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportAttachment {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The beginning is missing.
    is_cut: bool,
}

impl FeedbackReport {
    pub fn new(
        id: &ThreadId,
        params: FeedbackUploadParams,
        sender: &FeedbackSender,
        thread: Option<String>,
    ) -> Self {
        let mut attachments = Vec::new();
        if params.include_logs {
            attachments.extend(thread.map(|text| ReportAttachment::of_text("thread.json", text)));
            let log = recent_logs().text();
            attachments.extend((!log.is_empty()).then(|| ReportAttachment::of_text("server.log", log)));
            let files = params.extra_log_files.iter().flatten().take(MAX_FILES);
            attachments.extend(files.map(|path| ReportAttachment::of_file(path)));
        }
        Self {
            id: Uuid::now_v7().to_string(),
            created_at: jiff::Timestamp::now().to_string(),
            thread_id: id.clone(),
            classification: short(&params.classification),
            reason: params.reason.as_deref().map(short),
            user_agent: sender.user_agent.clone(),
            server_version: sender.server_version.clone(),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            attachments,
        }
    }

    /// The file and what it says. Ids count time, so the oldest reports have the smallest names.
    pub fn write(&self, folder: &Path) -> io::Result<(PathBuf, String)> {
        let body = serde_json::to_string_pretty(self)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let path = folder.join(format!("{}.json", self.id));
        codicil_config::replace_private(&path, body.as_bytes())?;
        make_room(folder)?;
        Ok((path, body))
    }
}

fn make_room(folder: &Path) -> io::Result<()> {
    let entries = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut reports: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    reports.sort_unstable();
    let excess = reports.len().saturating_sub(MAX_REPORTS);
    // Somebody else may be making room at the same time.
    reports.iter().take(excess).for_each(|path| drop(fs::remove_file(path)));
    Ok(())
}

/// A person's own words, without secrets.
fn short(text: &str) -> String {
    redact(text.get(..text.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or(text))
}

impl ReportAttachment {
    fn of_text(name: &str, text: String) -> Self {
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_ATTACHMENT_BYTES));
        let end = text.get(start..).unwrap_or_default();
        Self { name: name.to_owned(), text: Some(redact(end)), error: None, is_cut: start > 0 }
    }

    /// A file that cannot be read is named with the reason.
    fn of_file(path: &str) -> Self {
        match read_end(Path::new(path)) {
            Ok((text, is_cut)) => Self { is_cut, ..Self::of_text(path, text) },
            Err(error) => {
                Self { name: path.to_owned(), text: None, error: Some(error.to_string()), is_cut: false }
            }
        }
    }
}

fn read_end(path: &Path) -> Result<(String, bool), codicil_fs::FileError> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute").into());
    }
    let mut file = codicil_fs::open_regular(path)?;
    let start = file.metadata()?.len().saturating_sub(MAX_ATTACHMENT_BYTES as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_ATTACHMENT_BYTES as u64).read_to_end(&mut bytes)?;
    Ok((String::from_utf8_lossy(&bytes).into_owned(), start > 0))
}
