//! List entries of a backend and rows of the list, which are the same in two forms.

use codicil_protocol::{GitInfo, ReasoningEffort, SessionSource, ThreadHistoryMode, ThreadId};
use serde::{Deserialize, Serialize};

use crate::{
    backend::{EntryChange, ThreadEntry, ThreadHome},
    error::Result,
    facts::IndexedFacts,
    record::QuestionKind,
    summary::{FileStamp, ModelChoice, ThreadSummary, kind_name, source_kind},
};

/// The part of an entry that a backend does not look into.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EntryDetails {
    source: SessionSource,
    cli_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<GitInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ThreadId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_nickname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    originator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_source: Option<String>,
    history_mode: ThreadHistoryMode,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_requests: Vec<QuestionKind>,
}

impl Default for EntryDetails {
    fn default() -> Self {
        Self {
            source: SessionSource::Unknown,
            cli_version: String::new(),
            model: None,
            effort: None,
            git: None,
            forked_from: None,
            agent_nickname: None,
            agent_role: None,
            originator: None,
            thread_source: None,
            history_mode: ThreadHistoryMode::default(),
            open_requests: Vec::new(),
        }
    }
}

/// Returns the opaque part of a row.
pub fn details(row: &ThreadSummary) -> Result<String> {
    let row = row.clone();
    Ok(serde_json::to_string(&EntryDetails {
        source: row.source,
        cli_version: row.cli_version,
        model: row.model.model,
        effort: row.model.effort,
        git: row.git,
        forked_from: row.forked_from,
        agent_nickname: row.agent_nickname,
        agent_role: row.agent_role,
        originator: row.originator,
        thread_source: row.thread_source,
        history_mode: row.history_mode,
        open_requests: row.open_requests,
    })?)
}

/// Returns the labels of a row.
pub fn facts(row: &ThreadSummary) -> String {
    row.facts.to_json().unwrap_or_else(|| "{}".to_owned())
}

pub fn open_requests(row: &ThreadSummary) -> i32 {
    i32::try_from(row.open_requests.len()).unwrap_or(i32::MAX)
}

/// Returns the change that makes an entry that of a row.
pub fn whole_change(row: &ThreadSummary) -> Result<EntryChange> {
    Ok(EntryChange {
        active_at: Some(row.updated_at),
        preview: row.preview.clone(),
        name: row.name.clone(),
        open_requests: Some(open_requests(row)),
        details: Some(details(row)?),
        facts: Some(facts(row)),
        activity: None,
    })
}

pub fn entry_of(row: &ThreadSummary) -> Result<ThreadEntry> {
    Ok(ThreadEntry {
        id: row.id.clone(),
        parent: row.parent_thread_id.clone(),
        place: ThreadHome::Here,
        archived: row.archived,
        created_at: row.created_at,
        updated_at: row.updated_at,
        source_kind: kind_name(source_kind(&row.source)).to_owned(),
        model_provider: row.model_provider.clone(),
        cwd: row.cwd.clone(),
        name: row.name.clone(),
        preview: row.preview.clone(),
        open_requests: open_requests(row),
        details: details(row)?,
        facts: facts(row),
    })
}

/// Returns the row of an entry. Details of another version that cannot be read are left out.
pub fn row_of(entry: ThreadEntry) -> ThreadSummary {
    let details: EntryDetails = serde_json::from_str(&entry.details).unwrap_or_default();
    ThreadSummary {
        id: entry.id,
        dir: String::new(),
        file: String::new(),
        archived: entry.archived,
        created_at: entry.created_at,
        updated_at: entry.updated_at,
        source: details.source,
        model_provider: entry.model_provider,
        model: ModelChoice { model: details.model, effort: details.effort },
        cwd: entry.cwd,
        cli_version: details.cli_version,
        preview: entry.preview,
        name: entry.name,
        git: details.git,
        forked_from: details.forked_from,
        parent_thread_id: entry.parent,
        agent_nickname: details.agent_nickname,
        agent_role: details.agent_role,
        originator: details.originator,
        thread_source: details.thread_source,
        history_mode: details.history_mode,
        open_requests: details.open_requests,
        facts: IndexedFacts::from_json(Some(&entry.facts)),
        stamp: FileStamp::default(),
    }
}
