//! What can be asked of the list of threads, and the cursor that carries on from a page.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};

use codicil_protocol::{Thread, ThreadId, ThreadListParams, ThreadSortKey, ThreadSourceKind};
use uuid::Uuid;

use crate::{
    clock,
    error::{Result, StoreError},
};

/// Threads on a page unless the caller says otherwise.
const DEFAULT_LIMIT: u32 = 25;
/// Threads on a page at most.
const MAX_LIMIT: u32 = 100;
/// A page ends early when its first messages are longer than this together.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// Which threads, in which order, from where on. The default is the first page of interactive threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListQuery {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    pub sort: ListSort,
    /// Empty means all.
    pub model_providers: Vec<String>,
    /// Empty means those of people: cli and vscode.
    pub source_kinds: Vec<ThreadSourceKind>,
    pub archived: bool,
    pub cwd: Option<String>,
    /// Part of the name or of the first message, upper and lower case told apart.
    pub search_term: Option<String>,
}

/// Newest first, by one of two times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListSort {
    #[default]
    Created,
    Updated,
}

/// Some threads, without turns, and where to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadPage {
    pub threads: Vec<Thread>,
    pub next_cursor: Option<String>,
}

impl From<ThreadListParams> for ListQuery {
    fn from(params: ThreadListParams) -> Self {
        Self {
            cursor: params.cursor,
            limit: params.limit,
            sort: match params.sort_key {
                Some(ThreadSortKey::UpdatedAt) => ListSort::Updated,
                _ => ListSort::Created,
            },
            model_providers: params.model_providers.unwrap_or_default(),
            source_kinds: params.source_kinds.unwrap_or_default(),
            archived: params.archived.unwrap_or_default(),
            cwd: params.cwd.as_deref().map(plain),
            search_term: params.search_term,
        }
    }
}

impl ListQuery {
    pub(crate) fn limit(&self) -> usize {
        self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT) as usize
    }

    pub(crate) fn start(&self) -> Result<Option<ListCursor>> {
        self.cursor.as_deref().map(ListCursor::parse).transpose()
    }

    pub(crate) fn search_term(&self) -> Option<&str> {
        self.search_term.as_deref().filter(|term| !term.is_empty())
    }

    /// The kinds that match, with the one that stands for all agents spelled out.
    pub(crate) fn kinds(&self) -> Vec<ThreadSourceKind> {
        use ThreadSourceKind::{
            Cli, SubAgent, SubAgentCompact, SubAgentOther, SubAgentReview, SubAgentThreadSpawn, Vscode,
        };
        if self.source_kinds.is_empty() {
            return vec![Cli, Vscode];
        }
        let mut kinds = self.source_kinds.clone();
        if kinds.contains(&SubAgent) {
            kinds.extend([SubAgentReview, SubAgentCompact, SubAgentThreadSpawn, SubAgentOther]);
        }
        kinds
    }
}

/// The place of a thread in a list: its time in seconds, then its id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor {
    pub at: i64,
    pub id: ThreadId,
}

impl ListCursor {
    /// `2026-11-15T20:00:00Z|<thread id>`
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = text.split_once('|').and_then(|(at, id)| {
            let at = clock::parse_seconds(&colons(at))?;
            Uuid::parse_str(id).ok().map(|_| Self { at, id: ThreadId::from(id) })
        });
        parsed.ok_or_else(|| StoreError::InvalidCursor(text.to_owned()))
    }

    pub fn text(&self) -> Option<String> {
        Some(format!("{}|{}", clock::stamp_seconds(self.at)?, self.id))
    }
}

/// A time whose clock is written with dashes, as in the names of files, with colons.
fn colons(at: &str) -> Cow<'_, str> {
    match at.split_once('T') {
        Some((day, time)) if time.len() == 8 && time.matches('-').count() == 2 => {
            format!("{day}T{}Z", time.replace('-', ":")).into()
        }
        _ => at.into(),
    }
}

/// A directory without a slash at its end.
fn plain(cwd: &str) -> String {
    Path::new(cwd).components().collect::<PathBuf>().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        let cursor =
            ListCursor { at: 1_794_772_800, id: ThreadId::from("019a8914-3a00-7000-8000-000000000001") };
        let text = cursor.text().unwrap();
        assert_eq!(text, "2026-11-15T20:00:00Z|019a8914-3a00-7000-8000-000000000001");
        assert_eq!(ListCursor::parse(&text).unwrap(), cursor);
        let dashed = text.replace("20:00:00Z", "20-00-00");
        assert_eq!(ListCursor::parse(&dashed).unwrap(), cursor);
    }

    #[test]
    fn other_cursors_are_refused_by_name() {
        for text in [
            "",
            "x",
            "|",
            "2026-11-15T20:00:00Z",
            "2026-11-15T20:00:00Z|",
            "today|a",
            "2026-11-15T20:00:00Z|a b",
            "2026-11-15T20:00:00Z|thread",
        ] {
            let error = ListCursor::parse(text).unwrap_err();
            assert_eq!(error.to_string(), format!("invalid cursor: {text}"));
        }
    }

    #[test]
    fn limits_are_kept_within_bounds() {
        let limit = |limit| ListQuery { limit, ..ListQuery::default() }.limit();
        assert_eq!([limit(None), limit(Some(0)), limit(Some(7)), limit(Some(1000))], [25, 1, 7, 100]);
    }
}
