//! Suggestions while a person types: directories, files and skills. The answers are JSON for the script.

use axum::{
    Json,
    extract::{Path, Query, State},
};
use codicil_client::protocol::{
    AbsolutePathBuf, FsReadDirectory, FsReadDirectoryParams, FuzzyFileSearch, FuzzyFileSearchParams,
    SkillsList, SkillsListParams, ThreadId,
};
use serde::{Deserialize, Serialize};

use crate::{pages::PageError, state::Console};

/// Suggestions of one answer.
const MAX_SUGGESTIONS: usize = 12;

#[derive(Debug, Deserialize)]
pub struct CompletionQuery {
    #[serde(default)]
    q: String,
}

/// A suggestion: what is inserted, and what explains it.
#[derive(Debug, Serialize)]
pub struct Suggestion {
    text: String,
    hint: String,
}

/// `GET /complete/directories`: directories of the server that begin with the query; those of the last threads without one.
pub async fn complete_directories(
    State(console): State<Console>,
    Query(query): Query<CompletionQuery>,
) -> Json<Vec<Suggestion>> {
    if query.q.is_empty() {
        return Json(recent_directories(&console));
    }
    let (parent, begin) = query.q.rsplit_once('/').unwrap_or(("", &query.q));
    let folder = if parent.is_empty() { "/" } else { parent };
    let Some(path) = AbsolutePathBuf::new(folder) else { return Json(Vec::new()) };
    // A directory that cannot be read has no suggestions.
    let Ok(found) = console.client.call::<FsReadDirectory>(FsReadDirectoryParams { path }).await else {
        return Json(Vec::new());
    };
    let is_wanted =
        |name: &str| name.starts_with(begin) && (begin.starts_with('.') || !name.starts_with('.'));
    let mut names: Vec<_> = found
        .entries
        .into_iter()
        .filter(|entry| entry.is_directory && is_wanted(&entry.file_name))
        .map(|entry| entry.file_name)
        .collect();
    names.sort_unstable();
    let suggestion = |name: String| Suggestion { text: format!("{parent}/{name}"), hint: String::new() };
    Json(names.into_iter().take(MAX_SUGGESTIONS).map(suggestion).collect())
}

fn recent_directories(console: &Console) -> Vec<Suggestion> {
    let mut found: Vec<Suggestion> = Vec::new();
    for thread in &console.overview.threads().threads {
        if found.len() < MAX_SUGGESTIONS && found.iter().all(|known| known.text != thread.cwd) {
            found.push(Suggestion { text: thread.cwd.clone(), hint: "used before".to_owned() });
        }
    }
    found
}

/// `GET /threads/{thread}/complete/files`: files of the thread's directory.
pub async fn complete_files(
    State(console): State<Console>,
    Path(thread): Path<String>,
    Query(query): Query<CompletionQuery>,
) -> Result<Json<Vec<Suggestion>>, PageError> {
    let cwd = console.hubs.page(&ThreadId::from(thread)).await?.view.settings.cwd;
    let params = FuzzyFileSearchParams { query: query.q, roots: vec![cwd], cancellation_token: None };
    let found = console.client.call::<FuzzyFileSearch>(params).await?;
    let suggestion = |file| {
        let codicil_client::protocol::FuzzyFileSearchResult { path, .. } = file;
        Suggestion { text: path, hint: String::new() }
    };
    Ok(Json(found.files.into_iter().take(MAX_SUGGESTIONS).map(suggestion).collect()))
}

/// `GET /threads/{thread}/complete/skills`: skills that begin with the query.
pub async fn complete_skills(
    State(console): State<Console>,
    Path(thread): Path<String>,
    Query(query): Query<CompletionQuery>,
) -> Result<Json<Vec<Suggestion>>, PageError> {
    let cwd = console.hubs.page(&ThreadId::from(thread)).await?.view.settings.cwd;
    let params = SkillsListParams { cwds: Some(vec![cwd]), ..Default::default() };
    let found = console.client.call::<SkillsList>(params).await?;
    let skills = found.data.into_iter().flat_map(|entry| entry.skills);
    let wanted = skills.filter(|skill| skill.enabled && skill.name.starts_with(&query.q));
    let suggestion = |skill: codicil_client::protocol::SkillMetadata| Suggestion {
        hint: skill.short_description.unwrap_or(skill.description).chars().take(120).collect(),
        text: skill.name,
    };
    Ok(Json(wanted.take(MAX_SUGGESTIONS).map(suggestion).collect()))
}
