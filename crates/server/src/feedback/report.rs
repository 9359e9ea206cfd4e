//! The contents of a report and the directory that reports are written to.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use codicil_protocol::{FeedbackUploadParams, ThreadId};
use serde::Serialize;
use uuid::Uuid;

use super::{logs::recent_logs, redact::redact};

/// The longest text of an attachment. A longer text loses its beginning.
pub(super) const MAX_ATTACHMENT_BYTES: usize = 4 << 20;

/// The longest text that the user can write into a report.
const MAX_REASON_BYTES: usize = 64 << 10;

/// Labels of a report.
const MAX_TAGS: usize = 64;

/// Files that a client can attach.
const MAX_FILES: usize = 16;

/// Reports that are kept. Older ones are deleted.
pub(super) const MAX_REPORTS: usize = 50;

/// The software that a report comes from.
#[derive(Clone, Debug, Default)]
pub struct FeedbackSender {
    pub user_agent: String,
    pub server_version: String,
}

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
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    attachments: Vec<ReportAttachment>,
}

/// A text that belongs to a report, or the reason why it is missing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ReportAttachment {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Whether the beginning of the text is missing.
    is_cut: bool,
}

/// Returns the labels of the client, as far as they fit, without secrets.
fn shown_tags(tags: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let tags = tags.into_iter().take(MAX_TAGS);
    tags.map(|(name, value)| (user_text(&name), user_text(&value))).collect()
}

impl FeedbackReport {
    pub fn new(
        thread_id: &ThreadId,
        params: FeedbackUploadParams,
        sender: &FeedbackSender,
        thread: Option<String>,
    ) -> Self {
        let mut attachments = Vec::new();
        if params.include_logs.unwrap_or_default() {
            attachments.extend(thread.map(|text| ReportAttachment::from_text("thread.json", text)));
            let log = recent_logs().text();
            if !log.is_empty() {
                attachments.push(ReportAttachment::from_text("server.log", log));
            }
            let files = params.extra_log_files.iter().flatten().take(MAX_FILES);
            attachments.extend(files.map(|path| ReportAttachment::from_file(path)));
        }
        Self {
            id: Uuid::now_v7().to_string(),
            created_at: jiff::Timestamp::now().to_string(),
            thread_id: thread_id.clone(),
            classification: user_text(&params.classification),
            reason: params.reason.as_deref().map(user_text),
            user_agent: sender.user_agent.clone(),
            server_version: sender.server_version.clone(),
            os: std::env::consts::OS,
            arch: std::env::consts::ARCH,
            tags: shown_tags(params.tags.unwrap_or_default()),
            attachments,
        }
    }

    /// Writes the report to a new file, which only its owner can read.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let body = serde_json::to_string_pretty(self)?;
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(body.as_bytes())
    }

    /// Writes the report and deletes the oldest reports beyond the limit. Returns the file's path and text.
    pub fn write(&self, directory: &Path) -> io::Result<(PathBuf, String)> {
        let body = serde_json::to_string_pretty(self)?;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let path = directory.join(format!("{}.json", self.id));
        codicil_config::replace_private(&path, body.as_bytes())?;
        remove_oldest(directory)?;
        Ok((path, body))
    }
}

fn remove_oldest(directory: &Path) -> io::Result<()> {
    let entries = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut reports: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect();
    // File names begin with the time.
    reports.sort_unstable();
    let excess = reports.len().saturating_sub(MAX_REPORTS);
    for path in reports.iter().take(excess) {
        // Another process with the same home may have deleted it already.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Returns what the user wrote, shortened and without secrets.
fn user_text(text: &str) -> String {
    redact(text.get(..text.floor_char_boundary(MAX_REASON_BYTES)).unwrap_or(text))
}

impl ReportAttachment {
    fn from_text(name: &str, text: String) -> Self {
        let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_ATTACHMENT_BYTES));
        let end = text.get(start..).unwrap_or_default();
        Self { name: name.to_owned(), text: Some(redact(end)), error: None, is_cut: start > 0 }
    }

    fn from_file(path: &str) -> Self {
        match read_end(Path::new(path)) {
            Ok(FileEnd { text, is_cut }) => Self { is_cut, ..Self::from_text(path, text) },
            Err(error) => {
                Self { name: path.to_owned(), text: None, error: Some(error.to_string()), is_cut: false }
            }
        }
    }
}

/// The last bytes of a file.
struct FileEnd {
    text: String,
    is_cut: bool,
}

fn read_end(path: &Path) -> Result<FileEnd, codicil_fs::FileError> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute").into());
    }
    let mut file = codicil_fs::open_regular(path)?;
    let start = file.metadata()?.len().saturating_sub(MAX_ATTACHMENT_BYTES as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(MAX_ATTACHMENT_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(FileEnd { text: String::from_utf8_lossy(&bytes).into_owned(), is_cut: start > 0 })
}
