//! The summary of a thread: one row of the index, created from its file or its first record.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use codicil_protocol::{
    GitInfo, ReasoningEffort, SessionSource, SubAgentSource, Thread, ThreadHistoryMode, ThreadId, ThreadItem,
    ThreadSourceKind, UserInput,
};

use crate::{
    facts::IndexedFacts,
    layout::HomeLayout,
    record::{QuestionKind, StoredSettings, ThreadMeta},
    thread::unloaded_status,
};

/// The index row of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadSummary {
    pub id: ThreadId,
    /// The directory, relative to the home.
    pub dir: String,
    pub file: String,
    pub archived: bool,
    pub created_at: i64,
    pub updated_at: i64,
    pub source: SessionSource,
    pub model_provider: String,
    /// The model and effort of the last settings.
    pub model: ModelChoice,
    pub cwd: String,
    pub cli_version: String,
    /// The first user message; `None` until there is one.
    pub preview: Option<String>,
    pub name: Option<String>,
    pub git: Option<GitInfo>,
    pub forked_from: Option<ThreadId>,
    pub parent_thread_id: Option<ThreadId>,
    pub agent_nickname: Option<String>,
    pub agent_role: Option<String>,
    pub originator: Option<String>,
    pub thread_source: Option<String>,
    pub history_mode: ThreadHistoryMode,
    /// The kinds of the server requests that wait for an answer.
    pub open_requests: Vec<QuestionKind>,
    pub facts: IndexedFacts,
    pub stamp: FileStamp,
}

/// The model and effort of a settings record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelChoice {
    pub model: Option<String>,
    pub effort: Option<ReasoningEffort>,
}

impl From<&StoredSettings> for ModelChoice {
    fn from(settings: &StoredSettings) -> Self {
        Self { model: settings.model.clone(), effort: settings.effort.clone() }
    }
}

/// The size and time of a file when it was read. A different stamp means different content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    pub size: i64,
    pub mtime: i64,
}

impl FileStamp {
    pub fn of(found: &fs::Metadata) -> Self {
        Self { size: i64::try_from(found.len()).unwrap_or(i64::MAX), mtime: nanoseconds(found) }
    }

    /// Returns whether this stamp is later. Files only grow, so of two stamps with the same time the larger one is later.
    pub fn is_later_than(self, other: Self) -> bool {
        (self.mtime, self.size) > (other.mtime, other.size)
    }

    pub fn read(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|found| Self::of(&found))
    }
}

/// Returns the modification time in nanoseconds, for comparisons only.
pub fn nanoseconds(found: &fs::Metadata) -> i64 {
    found.mtime().wrapping_mul(1_000_000_000).wrapping_add(found.mtime_nsec())
}

impl ThreadSummary {
    /// Returns the summary of a new thread in the file `dir/file`.
    pub fn new(meta: &ThreadMeta, dir: String, file: String, created_at: i64) -> Self {
        Self {
            id: meta.id.clone(),
            dir,
            file,
            archived: false,
            created_at,
            updated_at: created_at,
            source: meta.source.clone(),
            model_provider: meta.model_provider.clone(),
            model: ModelChoice::default(),
            cwd: meta.cwd.clone(),
            cli_version: meta.cli_version.clone(),
            preview: None,
            name: None,
            git: None,
            forked_from: meta.forked_from.clone(),
            parent_thread_id: meta.parent_thread_id.clone(),
            agent_nickname: meta.agent_nickname.clone(),
            agent_role: meta.agent_role.clone(),
            originator: meta.originator.clone(),
            thread_source: meta.thread_source.clone(),
            history_mode: meta.history_mode.clone(),
            open_requests: Vec::new(),
            facts: IndexedFacts::default(),
            stamp: FileStamp::default(),
        }
    }

    /// Converts the summary to a thread that is not loaded.
    pub fn into_thread(self, layout: &HomeLayout) -> Thread {
        // A thread in a database has no file.
        let path = Some(&self.file).filter(|file| !file.is_empty());
        let path = path.map(|file| layout.absolute(&self.dir).join(file));
        // Of threads that users started, clients learn it when they load them.
        let can_accept_direct_input = matches!(self.source, SessionSource::SubAgent(_)).then_some(true);
        Thread {
            session_id: Some(self.id.clone()),
            id: self.id,
            forked_from_id: self.forked_from,
            parent_thread_id: self.parent_thread_id,
            project_id: None,
            section: None,
            section_entered_at: None,
            environments: None,
            history_mode: self.history_mode,
            preview: self.preview.unwrap_or_default(),
            ephemeral: false,
            model_provider: self.model_provider,
            model: self.model.model,
            reasoning_effort: self.model.effort,
            created_at: self.created_at,
            updated_at: self.updated_at,
            recency_at: Some(self.updated_at),
            status: unloaded_status(&self.open_requests),
            path: path.map(|path| path.to_string_lossy().into_owned()),
            cwd: self.cwd,
            cli_version: self.cli_version,
            source: self.source,
            originator: self.originator,
            thread_source: self.thread_source,
            can_accept_direct_input,
            daybreak_enabled: None,
            extra: None,
            agent_nickname: self.agent_nickname,
            name: self.name,
            agent_role: self.agent_role,
            git_info: self.git,
            turns: Vec::new(),
        }
    }
}

/// Returns the concatenated texts of a user message, as the reference server shows them in lists; `None` for other items.
pub fn preview(item: &ThreadItem) -> Option<String> {
    let ThreadItem::UserMessage { content, .. } = item else { return None };
    let texts = content.iter().filter_map(|input| match input {
        UserInput::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    let text: String = texts.collect();
    let has_image =
        (content.iter()).any(|input| matches!(input, UserInput::Image { .. } | UserInput::LocalImage { .. }));
    match text.trim() {
        "" => has_image.then(|| "[Image]".to_owned()),
        text => Some(text.to_owned()),
    }
}

/// Returns the kind of a source, for filters.
pub fn source_kind(source: &SessionSource) -> ThreadSourceKind {
    match source {
        SessionSource::Cli => ThreadSourceKind::Cli,
        SessionSource::Vscode => ThreadSourceKind::Vscode,
        SessionSource::Exec => ThreadSourceKind::Exec,
        SessionSource::AppServer => ThreadSourceKind::AppServer,
        SessionSource::SubAgent(SubAgentSource::Review) => ThreadSourceKind::SubAgentReview,
        SessionSource::SubAgent(SubAgentSource::Compact) => ThreadSourceKind::SubAgentCompact,
        SessionSource::SubAgent(SubAgentSource::ThreadSpawn { .. }) => ThreadSourceKind::SubAgentThreadSpawn,
        SessionSource::SubAgent(_) => ThreadSourceKind::SubAgentOther,
        SessionSource::Unknown | SessionSource::Custom(_) | SessionSource::Unrecognized(_) => {
            ThreadSourceKind::Unknown
        }
    }
}

/// Returns the name of a kind in the index.
pub fn kind_name(kind: ThreadSourceKind) -> &'static str {
    match kind {
        ThreadSourceKind::Cli => "cli",
        ThreadSourceKind::Vscode => "vscode",
        ThreadSourceKind::Exec => "exec",
        ThreadSourceKind::AppServer => "appServer",
        ThreadSourceKind::SubAgent => "subAgent",
        ThreadSourceKind::SubAgentReview => "subAgentReview",
        ThreadSourceKind::SubAgentCompact => "subAgentCompact",
        ThreadSourceKind::SubAgentThreadSpawn => "subAgentThreadSpawn",
        ThreadSourceKind::SubAgentOther => "subAgentOther",
        ThreadSourceKind::Unknown => "unknown",
    }
}
