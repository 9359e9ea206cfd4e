//! Queries for the list of threads, and cursors.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use codicil_protocol::{
    Patch, SortDirection, Thread, ThreadId, ThreadListCwdFilter, ThreadListParams, ThreadReadState,
    ThreadSortKey, ThreadSourceKind,
};
use uuid::Uuid;

use crate::{
    clock,
    error::{Result, StoreError},
    summary::ThreadSummary,
};

/// The beginning of cursors in a section.
const RANK: &str = "rank:";

/// The default page size.
const DEFAULT_LIMIT: u32 = 25;
/// The maximum page size.
const MAX_LIMIT: u32 = 100;
/// A page ends early if its previews exceed this size.
pub const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The filter, order and position of a list. The default is the first page of interactive threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListQuery {
    pub cursor: Option<String>,
    pub limit: Option<u32>,
    pub sort: ListSort,
    /// Whether the oldest threads come first.
    pub oldest_first: bool,
    /// Empty: all providers.
    pub model_providers: Vec<String>,
    /// Empty: the interactive ones, `cli` and `vscode`; for a list below a thread, all kinds.
    pub source_kinds: Vec<ThreadSourceKind>,
    pub archived: bool,
    /// `None`: all directories.
    pub cwds: Option<Vec<String>>,
    pub excluded: Vec<ThreadId>,
    pub below: Option<ListBelow>,
    /// Only these threads; `None`: all.
    pub only: Option<Vec<ThreadId>>,
    /// `None`: all sections.
    pub section: Option<ListSection>,
    pub project_id: Option<String>,
    /// A case-sensitive substring of the name or the first user message.
    pub search_term: Option<String>,
}

/// The subagents of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListBelow {
    /// Those that its agent started.
    Children(ThreadId),
    /// Those and theirs, at any depth.
    Descendants(ThreadId),
}

/// The section of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSection {
    In(String),
    /// None of these, which are all that exist: a thread may still name a section that was deleted.
    OutsideOf(Vec<String>),
}

/// What threads are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListSort {
    #[default]
    Created,
    Updated,
    /// The manual order of sections.
    Section,
}

/// A page of threads, without turns.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadPage {
    pub threads: Vec<Thread>,
    /// What the user has read of these threads.
    pub read_states: BTreeMap<String, ThreadReadState>,
    pub next_cursor: Option<String>,
    /// The cursor that continues before the first thread of this page, in the opposite direction.
    pub backwards_cursor: Option<String>,
}

/// A thread as lists show it.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedThread {
    pub thread: Thread,
    /// `None` before the first turn.
    pub read_state: Option<ThreadReadState>,
}

impl From<ThreadListParams> for ListQuery {
    fn from(params: ThreadListParams) -> Self {
        Self {
            cursor: params.cursor,
            limit: params.limit,
            sort: match params.sort_key {
                Some(ThreadSortKey::UpdatedAt | ThreadSortKey::RecencyAt) => ListSort::Updated,
                Some(ThreadSortKey::SectionPosition) => ListSort::Section,
                _ => ListSort::Created,
            },
            oldest_first: match params.sort_direction {
                Some(direction) => direction == SortDirection::Asc,
                // The manual order begins with the first place.
                None => params.sort_key == Some(ThreadSortKey::SectionPosition),
            },
            model_providers: params.model_providers.unwrap_or_default(),
            source_kinds: params.source_kinds.unwrap_or_default(),
            archived: params.archived.unwrap_or_default(),
            cwds: params.cwd.map(|filter| match filter {
                ThreadListCwdFilter::One(cwd) => vec![without_trailing_slash(&cwd)],
                ThreadListCwdFilter::Any(cwds) => {
                    cwds.iter().map(|cwd| without_trailing_slash(cwd)).collect()
                }
            }),
            excluded: params.excluded_thread_ids.unwrap_or_default(),
            below: (params.parent_thread_id.map(ListBelow::Children))
                .or(params.ancestor_thread_id.map(ListBelow::Descendants)),
            only: None,
            section: match params.section_id {
                Patch::Missing => None,
                Patch::Null => Some(ListSection::OutsideOf(Vec::new())),
                Patch::Value(id) => Some(ListSection::In(id)),
            },
            project_id: params.project_id,
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

    /// Returns the matching kinds, with `SubAgent` expanded to all kinds of subagents. Empty: all kinds.
    pub(crate) fn kinds(&self) -> Vec<ThreadSourceKind> {
        use ThreadSourceKind::{
            Cli, SubAgent, SubAgentCompact, SubAgentOther, SubAgentReview, SubAgentThreadSpawn, Vscode,
        };
        if self.source_kinds.is_empty() {
            return if self.below.is_some() { Vec::new() } else { vec![Cli, Vscode] };
        }
        let mut kinds = self.source_kinds.clone();
        if kinds.contains(&SubAgent) {
            kinds.extend([SubAgentReview, SubAgentCompact, SubAgentThreadSpawn, SubAgentOther]);
        }
        kinds
    }
}

/// The position of a thread in a list: its time in seconds, then its id. In a section its rank counts instead of the time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListCursor {
    pub at: i64,
    pub rank: Option<String>,
    pub id: ThreadId,
}

impl ListCursor {
    /// Returns the position of a row in a list.
    pub fn of(sort: ListSort, row: &ThreadSummary) -> Self {
        let id = row.id.clone();
        match sort {
            ListSort::Created => Self { at: row.created_at, rank: None, id },
            ListSort::Updated => Self { at: row.updated_at, rank: None, id },
            ListSort::Section => {
                let rank = row.facts.section.as_ref().map(|place| place.rank.clone());
                Self { at: 0, rank: Some(rank.unwrap_or_default()), id }
            }
        }
    }

    /// Parses `2026-11-15T20:00:00Z|<thread id>` or `rank:<rank>|<thread id>`.
    pub fn parse(text: &str) -> Result<Self> {
        let parsed = text.split_once('|').and_then(|(place, id)| {
            Uuid::parse_str(id).ok()?;
            let id = ThreadId::from(id);
            match place.strip_prefix(RANK) {
                Some(rank) => Some(Self { at: 0, rank: Some(rank.to_owned()), id }),
                None => Some(Self { at: clock::parse_seconds(&with_colons(place))?, rank: None, id }),
            }
        });
        parsed.ok_or_else(|| StoreError::InvalidCursor(text.to_owned()))
    }

    /// Returns the position from which a list is read in the other direction. That list includes the row again, unless
    /// this one has the newest threads first.
    pub fn backwards(sort: ListSort, oldest_first: bool, row: &ThreadSummary) -> Self {
        let cursor = Self::of(sort, row);
        if oldest_first || sort == ListSort::Updated { cursor.included(oldest_first) } else { cursor }
    }

    /// Returns the position from which a list in the other direction includes this one again.
    #[must_use]
    pub fn included(self, oldest_first: bool) -> Self {
        let Ok(id) = Uuid::parse_str(&self.id) else { return self };
        let number = id.as_u128();
        let next = if oldest_first { number.saturating_add(1) } else { number.saturating_sub(1) };
        Self { id: ThreadId::from(Uuid::from_u128(next).to_string()), ..self }
    }

    pub fn text(&self) -> Option<String> {
        match &self.rank {
            Some(rank) => Some(format!("{RANK}{rank}|{}", self.id)),
            None => Some(format!("{}|{}", clock::stamp_seconds(self.at)?, self.id)),
        }
    }
}

/// Replaces dashes by colons in a time that is formatted as in file names.
fn with_colons(at: &str) -> Cow<'_, str> {
    match at.split_once('T') {
        Some((day, time)) if time.len() == 8 && time.matches('-').count() == 2 => {
            format!("{day}T{}Z", time.replace('-', ":")).into()
        }
        _ => at.into(),
    }
}

/// Removes a trailing slash from a directory.
fn without_trailing_slash(cwd: &str) -> String {
    Path::new(cwd).components().collect::<PathBuf>().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip() {
        let cursor = ListCursor {
            at: 1_794_772_800,
            rank: None,
            id: ThreadId::from("019a8914-3a00-7000-8000-000000000001"),
        };
        let text = cursor.text().unwrap();
        assert_eq!(text, "2026-11-15T20:00:00Z|019a8914-3a00-7000-8000-000000000001");
        assert_eq!(ListCursor::parse(&text).unwrap(), cursor);
        let dashed = text.replace("20:00:00Z", "20-00-00");
        assert_eq!(ListCursor::parse(&dashed).unwrap(), cursor);
    }

    #[test]
    fn invalid_cursors_are_rejected() {
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
    fn page_sizes_are_limited() {
        let limit = |limit| ListQuery { limit, ..ListQuery::default() }.limit();
        assert_eq!([limit(None), limit(Some(0)), limit(Some(7)), limit(Some(1000))], [25, 1, 7, 100]);
    }
}
