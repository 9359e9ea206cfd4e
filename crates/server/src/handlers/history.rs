//! `thread/turns/list` and `thread/items/list`: the history of a thread, page by page.
//!
//! A cursor is a position between two entries, counted from the oldest, so that it stays good while a thread
//! grows and can be read from in both directions.

use std::ops::Range;

use codicil_engine::IncludeTurns;
use codicil_protocol::{
    SortDirection, ThreadItem, ThreadItemEntry, ThreadItemsListParams, ThreadItemsListResponse,
    ThreadResumeInitialTurnsPageParams, ThreadTurnsListParams, ThreadTurnsListResponse, Turn, TurnItemsView,
};
use codicil_store::StoredTurn;

use crate::{cx::Cx, error::RpcError, limits::LARGEST_PAGE};

/// Entries of a page, unless the client says.
const PAGE: u32 = 25;

pub async fn turns_list(cx: Cx, params: ThreadTurnsListParams) -> Result<ThreadTurnsListResponse, RpcError> {
    let direction = params.sort_direction.unwrap_or(SortDirection::Desc);
    let read = cx.threads().read(&params.thread_id, IncludeTurns::Included).await?;
    let page = HistoryPage::new(read.turns.len(), params.cursor.as_deref(), params.limit, direction)?;
    let view = params.items_view.unwrap_or(TurnItemsView::Full);
    Ok(page.of_turns(&read.turns, view))
}

/// The page that a resumed thread comes with. Its cursors are those of `thread/turns/list`.
pub fn initial_page(
    turns: &[StoredTurn],
    asked: ThreadResumeInitialTurnsPageParams,
) -> ThreadTurnsListResponse {
    let direction = asked.sort_direction.unwrap_or(SortDirection::Desc);
    let page = HistoryPage::at(turns.len(), None, asked.limit, direction);
    page.of_turns(turns, asked.items_view.unwrap_or(TurnItemsView::Summary))
}

pub async fn items_list(cx: Cx, params: ThreadItemsListParams) -> Result<ThreadItemsListResponse, RpcError> {
    let direction = params.sort_direction.unwrap_or(SortDirection::Asc);
    let read = cx.threads().read(&params.thread_id, IncludeTurns::Included).await?;
    let wanted = read.turns.iter().filter(|turn| params.turn_id.as_ref().is_none_or(|id| turn.id == *id));
    let places: Vec<_> =
        wanted.flat_map(|turn| (0..turn.items.len()).map(move |item| (turn, item))).collect();
    let page = HistoryPage::new(places.len(), params.cursor.as_deref(), params.limit, direction)?;
    let entries = places.get(page.range.clone()).unwrap_or_default();
    let data = page.sorted(entries.iter().filter_map(|(turn, item)| entry(turn, *item)).collect());
    Ok(ThreadItemsListResponse { data, next_cursor: page.next(), backwards_cursor: page.backwards() })
}

/// Some entries of a list, in one of two directions.
struct HistoryPage {
    range: Range<usize>,
    total: usize,
    direction: SortDirection,
}

impl HistoryPage {
    fn new(
        total: usize,
        cursor: Option<&str>,
        limit: Option<u32>,
        direction: SortDirection,
    ) -> Result<Self, RpcError> {
        let place = |cursor: &str| {
            cursor.parse().map_err(|_| RpcError::invalid_request(format_args!("invalid cursor: {cursor}")))
        };
        let cursor: Option<usize> = cursor.map(place).transpose()?;
        Ok(Self::at(total, cursor, limit, direction))
    }

    fn at(total: usize, cursor: Option<usize>, limit: Option<u32>, direction: SortDirection) -> Self {
        let limit = limit.unwrap_or(PAGE).clamp(1, LARGEST_PAGE) as usize;
        let range = match direction {
            SortDirection::Desc => {
                let end = cursor.unwrap_or(total).min(total);
                end.saturating_sub(limit)..end
            }
            _ => {
                let start = cursor.unwrap_or(0).min(total);
                start..start.saturating_add(limit).min(total)
            }
        };
        Self { range, total, direction }
    }

    fn of_turns(&self, turns: &[StoredTurn], view: TurnItemsView) -> ThreadTurnsListResponse {
        let turns = turns.get(self.range.clone()).unwrap_or_default();
        let data = self.sorted(turns.iter().map(|turn| shown(turn, view)).collect());
        ThreadTurnsListResponse { data, next_cursor: self.next(), backwards_cursor: self.backwards() }
    }

    fn sorted<T>(&self, mut entries: Vec<T>) -> Vec<T> {
        if self.direction == SortDirection::Desc {
            entries.reverse();
        }
        entries
    }

    fn next(&self) -> Option<String> {
        match self.direction {
            SortDirection::Desc => (self.range.start > 0).then(|| self.range.start.to_string()),
            _ => (self.range.end < self.total).then(|| self.range.end.to_string()),
        }
    }

    /// Includes the first entry of this page again: it may have changed meanwhile.
    fn backwards(&self) -> Option<String> {
        let place = match self.direction {
            SortDirection::Desc => self.range.end.checked_sub(1)?,
            _ => self.range.start.saturating_add(1),
        };
        (!self.range.is_empty()).then(|| place.to_string())
    }
}

fn shown(turn: &StoredTurn, view: TurnItemsView) -> Turn {
    let mut turn = turn.decode();
    match view {
        TurnItemsView::NotLoaded => turn.items.clear(),
        TurnItemsView::Summary => {
            let said = turn.items.iter().rposition(|item| matches!(item, ThreadItem::AgentMessage { .. }));
            let mut at = 0;
            turn.items.retain(|item| {
                at += 1;
                matches!(item, ThreadItem::UserMessage { .. }) || said == Some(at - 1)
            });
        }
        _ => {}
    }
    turn
}

fn entry(turn: &StoredTurn, at: usize) -> Option<ThreadItemEntry> {
    let item = serde_json::from_str(turn.items.get(at)?.get()).ok()?;
    Some(ThreadItemEntry { turn_id: turn.id.clone(), item, started_at_ms: None, completed_at_ms: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages of a list of five, two at a time, and where the first of them turns round to.
    fn pages(direction: SortDirection) -> (Vec<Vec<usize>>, Option<String>) {
        let (mut pages, mut cursor, mut first) = (Vec::new(), None, None);
        loop {
            let page = HistoryPage::new(5, cursor.as_deref(), Some(2), direction).unwrap();
            pages.push(page.sorted(page.range.clone().collect()));
            first = first.or_else(|| page.backwards());
            cursor = page.next();
            if cursor.is_none() {
                return (pages, first);
            }
        }
    }

    #[test]
    fn pages_hold_everything_once_in_either_direction() {
        let (ascending, turn_round) = pages(SortDirection::Asc);
        assert_eq!((ascending, turn_round.as_deref()), (vec![vec![0, 1], vec![2, 3], vec![4]], Some("1")));
        let (descending, turn_round) = pages(SortDirection::Desc);
        assert_eq!((descending, turn_round.as_deref()), (vec![vec![4, 3], vec![2, 1], vec![0]], Some("4")));
    }

    #[test]
    fn the_backwards_cursor_includes_the_first_entry_again() {
        let page = HistoryPage::new(5, Some("4"), None, SortDirection::Asc).unwrap();
        assert_eq!(page.range, 4..5);
        let page = HistoryPage::new(5, Some("1"), None, SortDirection::Desc).unwrap();
        assert_eq!(page.range, 0..1);
    }

    #[test]
    fn odd_cursors_and_limits_do_no_harm() {
        assert!(HistoryPage::new(5, Some("x"), None, SortDirection::Asc).is_err());
        assert_eq!(HistoryPage::new(5, Some("99"), Some(0), SortDirection::Asc).unwrap().range, 5..5);
        assert_eq!(HistoryPage::new(0, None, Some(u32::MAX), SortDirection::Desc).unwrap().backwards(), None);
    }
}
