//! Pages of lists.
//!
//! Most lists have cursors that count from the start. The history of a thread can be read in both directions: its
//! cursors are positions between two entries, counted from the oldest of the thread, so that they stay valid while the
//! thread grows and in lists of one turn.

use std::ops::Range;

use codicil_protocol::{
    SortDirection, ThreadItem, ThreadItemEntry, ThreadItemsListAnchor, ThreadItemsListCursor,
    ThreadItemsListParams, ThreadItemsListResponse, ThreadResumeInitialTurnsPageParams, ThreadTimelineEntry,
    ThreadTimelineListResponse, ThreadTurnsListResponse, Turn, TurnItemsView,
};
use codicil_store::StoredTurn;
use jiff::Timestamp;

use crate::{limits::MAX_PAGE_ENTRIES, timeline::active_session};

/// Entries of a page of history without a limit of its own.
const DEFAULT_PAGE_ENTRIES: u32 = 25;

/// Why a page cannot be returned.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    #[error("invalid cursor: {0}")]
    InvalidCursor(String),
    #[error("invalid thread timeline cursor")]
    InvalidTimelineCursor,
    #[error("cursor {start} exceeds total {entries} {total}")]
    BeyondEnd { start: usize, entries: &'static str, total: usize },
    #[error("turnId is required when cursor is an item anchor")]
    AnchorWithoutTurn,
    #[error("cursor.itemId does not identify an item in the requested history scope")]
    UnknownAnchor,
}

/// A page of a list whose cursors count from the start.
#[derive(Debug)]
pub struct ListPage<T> {
    pub data: Vec<T>,
    pub next_cursor: Option<String>,
}

impl<T> ListPage<T> {
    /// Cuts a page out of a list. `entries` is the plural noun for error messages.
    pub fn new(
        all: Vec<T>,
        cursor: Option<&str>,
        limit: Option<u32>,
        entries: &'static str,
    ) -> Result<Self, PageError> {
        let total = all.len();
        let start = parse_cursor(cursor)?.unwrap_or(0);
        if start > total {
            return Err(PageError::BeyondEnd { start, entries, total });
        }
        Ok(Self::starting_at(start, all, limit))
    }

    /// Cuts a page out of a list. A start beyond the end gives an empty page.
    pub fn starting_at(start: usize, all: Vec<T>, limit: Option<u32>) -> Self {
        let total = all.len();
        let limit = limit.map_or(total, |limit| limit.max(1) as usize);
        let data: Vec<_> = all.into_iter().skip(start).take(limit).collect();
        let end = start.saturating_add(data.len());
        Self { data, next_cursor: (end < total).then(|| end.to_string()) }
    }
}

pub fn parse_cursor(cursor: Option<&str>) -> Result<Option<usize>, PageError> {
    let parse = |cursor: &str| cursor.parse().map_err(|_| PageError::InvalidCursor(cursor.to_owned()));
    cursor.map(parse).transpose()
}

/// Returns the page of turns that `thread/resume` includes. Its cursors are those of `thread/turns/list`.
pub fn initial_turns_page(
    turns: &[StoredTurn],
    params: ThreadResumeInitialTurnsPageParams,
) -> ThreadTurnsListResponse {
    let direction = params.sort_direction.unwrap_or(SortDirection::Desc);
    let page = HistoryPage::starting_at(None, 0..turns.len(), params.limit, direction);
    page.turns(turns, params.items_view.unwrap_or(TurnItemsView::Summary))
}

/// Returns the cursor from which a history of this length is read newest first; `None` for an empty one.
pub fn newest_entry_cursor(total: usize) -> Option<String> {
    (total > 0).then(|| total.to_string())
}

/// Returns the cursor from which turns are read newest first, beginning with this one.
pub fn turn_cursor(index: usize) -> String {
    index.saturating_add(1).to_string()
}

/// A range of a thread's history, in one of two directions.
#[derive(Debug)]
pub struct HistoryPage {
    range: Range<usize>,
    /// The entries that the list consists of.
    scope: Range<usize>,
    direction: SortDirection,
}

impl HistoryPage {
    pub fn new(
        total: usize,
        cursor: Option<&str>,
        limit: Option<u32>,
        direction: SortDirection,
    ) -> Result<Self, PageError> {
        Ok(Self::starting_at(parse_cursor(cursor)?, 0..total, limit, direction))
    }

    /// Returns the page that starts at a cursor, or after or before an item. `items` are those of all turns.
    pub fn of_items(
        items: &[(&StoredTurn, usize)],
        params: &ThreadItemsListParams,
    ) -> Result<Self, PageError> {
        let direction = params.sort_direction.unwrap_or(SortDirection::Asc);
        let scope = match &params.turn_id {
            None => 0..items.len(),
            Some(id) => {
                let is_wanted = |(turn, _): &(&StoredTurn, usize)| turn.id == *id;
                let start = items.iter().position(is_wanted).unwrap_or(items.len());
                start..items.iter().rposition(is_wanted).map_or(start, |last| last.saturating_add(1))
            }
        };
        let position = match &params.cursor {
            None => None,
            Some(ThreadItemsListCursor::Page(cursor)) => parse_cursor(Some(cursor))?,
            Some(ThreadItemsListCursor::Anchor(_)) if params.turn_id.is_none() => {
                return Err(PageError::AnchorWithoutTurn);
            }
            Some(ThreadItemsListCursor::Anchor(ThreadItemsListAnchor::Item { item_id })) => {
                let is_anchor = |(turn, index): &(&StoredTurn, usize)| {
                    decode_item(turn, *index).is_some_and(|item| item.id() == Some(item_id))
                };
                let in_scope = items.get(scope.clone()).unwrap_or_default();
                let anchor = in_scope.iter().position(is_anchor).ok_or(PageError::UnknownAnchor)?;
                let anchor = scope.start.saturating_add(anchor);
                // The anchor itself is not part of the page.
                Some(if direction == SortDirection::Desc { anchor } else { anchor.saturating_add(1) })
            }
        };
        Ok(Self::starting_at(position, scope, params.limit, direction))
    }

    fn starting_at(
        cursor: Option<usize>,
        scope: Range<usize>,
        limit: Option<u32>,
        direction: SortDirection,
    ) -> Self {
        let limit = limit.unwrap_or(DEFAULT_PAGE_ENTRIES).clamp(1, MAX_PAGE_ENTRIES) as usize;
        let range = match direction {
            SortDirection::Desc => {
                let end = cursor.unwrap_or(scope.end).clamp(scope.start, scope.end);
                end.saturating_sub(limit).max(scope.start)..end
            }
            _ => {
                let start = cursor.unwrap_or(scope.start).clamp(scope.start, scope.end);
                start..start.saturating_add(limit).min(scope.end)
            }
        };
        Self { range, scope, direction }
    }

    /// Returns the turns of this page.
    pub fn turns(&self, turns: &[StoredTurn], view: TurnItemsView) -> ThreadTurnsListResponse {
        let turns = turns.get(self.range.clone()).unwrap_or_default();
        let data = self.sorted(turns.iter().map(|turn| with_items(turn, view)).collect());
        ThreadTurnsListResponse {
            data,
            next_cursor: self.next_cursor(),
            backwards_cursor: self.backwards_cursor(),
        }
    }

    /// Returns the items of this page. Each entry is a turn and the index of one of its items.
    pub fn items(&self, items: &[(&StoredTurn, usize)]) -> ThreadItemsListResponse {
        let items = items.get(self.range.clone()).unwrap_or_default();
        let data = self.sorted(items.iter().filter_map(|(turn, index)| item_entry(turn, *index)).collect());
        ThreadItemsListResponse {
            data,
            next_cursor: self.next_cursor(),
            backwards_cursor: self.backwards_cursor(),
        }
    }

    /// Returns the entries of the page in their order.
    pub fn timeline(&self, mut entries: Vec<ThreadTimelineEntry>) -> ThreadTimelineListResponse {
        entries.truncate(self.range.end);
        let data = entries.split_off(self.range.start.min(entries.len()));
        ThreadTimelineListResponse {
            data,
            next_cursor: self.next_cursor(),
            active_realtime_session_at_page_start: active_session(&entries),
        }
    }

    fn sorted<T>(&self, mut entries: Vec<T>) -> Vec<T> {
        if self.direction == SortDirection::Desc {
            entries.reverse();
        }
        entries
    }

    fn next_cursor(&self) -> Option<String> {
        match self.direction {
            SortDirection::Desc => {
                (self.range.start > self.scope.start).then(|| self.range.start.to_string())
            }
            _ => (self.range.end < self.scope.end).then(|| self.range.end.to_string()),
        }
    }

    /// Returns the cursor for the other direction. It includes the first entry of this page again, which may
    /// have changed meanwhile.
    fn backwards_cursor(&self) -> Option<String> {
        let position = match self.direction {
            SortDirection::Desc => self.range.end.checked_sub(1)?,
            _ => self.range.start.saturating_add(1),
        };
        (!self.range.is_empty()).then(|| position.to_string())
    }
}

/// Returns a turn without its items.
pub fn turn_head(turn: &StoredTurn) -> Turn {
    Turn { items_view: TurnItemsView::NotLoaded, ..turn.head() }
}

/// Decodes a turn with the items that a view includes. A summary has the first message of the user and the last message
/// of the agent.
fn with_items(turn: &StoredTurn, view: TurnItemsView) -> Turn {
    if view == TurnItemsView::NotLoaded {
        return turn_head(turn);
    }
    let mut turn = turn.decode();
    turn.items_view = view;
    if view == TurnItemsView::Summary {
        let is_agent_message = |item: &ThreadItem| matches!(item, ThreadItem::AgentMessage { .. });
        let is_user_message = |item: &ThreadItem| matches!(item, ThreadItem::UserMessage { .. });
        let first_message = turn.items.iter().position(is_user_message);
        let last_message = turn.items.iter().rposition(is_agent_message);
        let mut index = 0;
        turn.items.retain(|_| {
            let is_kept = [first_message, last_message].contains(&Some(index));
            index += 1;
            is_kept
        });
    }
    turn
}

fn decode_item(turn: &StoredTurn, index: usize) -> Option<ThreadItem> {
    serde_json::from_str(turn.items.get(index)?.get()).ok()
}

/// Returns an item of a turn.
pub fn item_entry(turn: &StoredTurn, index: usize) -> Option<ThreadItemEntry> {
    let item = decode_item(turn, index)?;
    let times = turn.item_times(index, &item);
    Some(ThreadItemEntry {
        turn_id: turn.id.clone(),
        item,
        started_at_ms: times.started.map(Timestamp::as_millisecond),
        completed_at_ms: times.completed.map(Timestamp::as_millisecond),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_into_pages() {
        let check = |cursor: Option<&str>, limit: Option<u32>, data: &[u8], next: Option<&str>| {
            let page = ListPage::new(vec![0, 1, 2, 3, 4], cursor, limit, "numbers").unwrap();
            assert_eq!(page.data, data, "{cursor:?} {limit:?}");
            assert_eq!(page.next_cursor.as_deref(), next, "{cursor:?} {limit:?}");
        };
        check(None, None, &[0, 1, 2, 3, 4], None);
        check(None, Some(2), &[0, 1], Some("2"));
        check(Some("2"), Some(2), &[2, 3], Some("4"));
        check(Some("4"), Some(2), &[4], None);
        check(Some("5"), Some(2), &[], None);
        check(None, Some(0), &[0], Some("1"));
    }

    #[test]
    fn a_list_rejects_cursors_that_it_did_not_return() {
        let check = |cursor: &str, expected: &str| {
            let error = ListPage::new(vec![0], Some(cursor), None, "numbers").unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check("x", "invalid cursor: x");
        check("-1", "invalid cursor: -1");
        check("2", "cursor 2 exceeds total numbers 1");
    }

    /// Returns the pages of a history of five, two at a time, and the backwards cursor of the first page.
    fn pages(direction: SortDirection) -> (Vec<Vec<usize>>, Option<String>) {
        let mut pages = Vec::new();
        let mut cursor = None;
        let mut backwards_cursor = None;
        loop {
            let page = HistoryPage::new(5, cursor.as_deref(), Some(2), direction).unwrap();
            pages.push(page.sorted(page.range.clone().collect()));
            backwards_cursor = backwards_cursor.or_else(|| page.backwards_cursor());
            cursor = page.next_cursor();
            if cursor.is_none() {
                return (pages, backwards_cursor);
            }
        }
    }

    #[test]
    fn pages_of_history_hold_every_entry_once_in_both_directions() {
        let (ascending, backwards_cursor) = pages(SortDirection::Asc);
        assert_eq!(ascending, [vec![0, 1], vec![2, 3], vec![4]]);
        assert_eq!(backwards_cursor.as_deref(), Some("1"));
        let (descending, backwards_cursor) = pages(SortDirection::Desc);
        assert_eq!(descending, [vec![4, 3], vec![2, 1], vec![0]]);
        assert_eq!(backwards_cursor.as_deref(), Some("4"));
    }

    #[test]
    fn the_backwards_cursor_includes_the_first_entry_again() {
        let page = HistoryPage::new(5, Some("4"), None, SortDirection::Asc).unwrap();
        assert_eq!(page.range, 4..5);
        let page = HistoryPage::new(5, Some("1"), None, SortDirection::Desc).unwrap();
        assert_eq!(page.range, 0..1);
    }

    #[test]
    fn history_accepts_cursors_and_limits_out_of_range() {
        assert!(HistoryPage::new(5, Some("x"), None, SortDirection::Asc).is_err());
        let page = HistoryPage::new(5, Some("99"), Some(0), SortDirection::Asc).unwrap();
        assert_eq!(page.range, 5..5);
        let page = HistoryPage::new(0, None, Some(u32::MAX), SortDirection::Desc).unwrap();
        assert_eq!(page.backwards_cursor(), None);
    }
}
