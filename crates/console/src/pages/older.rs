//! Older turns and items of a thread, which a page loads on demand.
//!
//! A thread is one sequence of items here, read from the newest backwards: a page of it has a limited number of items and
//! bytes, however many turns they belong to. A turn that does not fit continues with the next page; the script of the page
//! puts its parts together.

use axum::extract::{Path, Query, State};
use codicil_client::protocol::{
    CodicilTurnEntry, CodicilTurnRead, CodicilTurnReadParams, ItemId, SortDirection, ThreadId,
    ThreadItemEntry, ThreadItemsList, ThreadItemsListCursor, ThreadItemsListParams, ThreadItemsListResponse,
    ThreadTurnsList, ThreadTurnsListParams, Turn, TurnId, TurnItemsView,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{
    PageError,
    turns::{self, NewestTurns},
};
use crate::{
    live::{OlderItems, ThreadView, TurnView},
    state::Console,
};

/// Items that are loaded at a time.
const OLDER_ITEMS: u32 = 60;

/// HTML that is loaded at a time, in bytes.
const OLDER_BYTES: usize = 160_000;

/// Items of one request when one of them is looked for. The server returns no more.
const SEARCHED_AT_ONCE: u32 = 100;

/// Turns that are shown of a thread that cannot be opened.
const STORED_TURNS: u32 = 8;

/// The place in a thread before which everything is older than what a page shows.
#[derive(Debug, Default, Deserialize)]
pub struct OlderPlace {
    /// The turn of the first item that is shown, which may have more items.
    turn: Option<TurnId>,
    /// The first item that is shown, if the items before it do not begin at a cursor.
    item: Option<ItemId>,
    /// The cursor from which older items are read, at or shortly after the place. Without it, they are read from the newest.
    items: Option<String>,
}

impl OlderPlace {
    fn link(&self, thread: &ThreadId) -> Markup {
        let parts = [
            ("turn", self.turn.as_deref()),
            ("item", self.item.as_deref()),
            ("items", self.items.as_deref()),
        ];
        let pairs = parts.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        html! {
            p #older .more { a.button data-older="" href={ "/threads/" (thread) "/older?" (query) } { "Show earlier turns" } }
        }
    }
}

/// Returns the link to what is older than a page shows of a view.
pub fn link_before(view: &ThreadView, shown: &NewestTurns<'_>) -> Markup {
    let first_turn = view.turns.front().map(|turn| &turn.id);
    let turn = shown.first.map(|(turn, _)| turn).or(first_turn).cloned();
    let items = match &view.older {
        OlderItems::At(cursor) if !shown.is_cut => Some(cursor.clone()),
        _ => None,
    };
    let item = shown.first.map(|(_, item)| item.clone()).filter(|_| items.is_none());
    OlderPlace { turn, item, items }.link(&view.thread.id)
}

/// `GET /threads/{thread}/older`: what is older than a place, as a part of the page, and the link to the rest.
pub async fn older_turns(
    State(console): State<Console>,
    Path(thread): Path<String>,
    Query(place): Query<OlderPlace>,
) -> Result<Markup, PageError> {
    if place.turn.is_none() && place.items.is_none() {
        return Err(PageError::BadRequest("say before which turn".to_owned()));
    }
    let thread = ThreadId::from(thread);
    let found = items_before(&console, &thread, &place).await?;
    let groups = by_turn(found.iter().flat_map(|part| &part.items).take(OLDER_ITEMS as usize));
    let is_new = |turn: &&TurnId| place.turn.as_ref() != Some(*turn);
    let wanted: Vec<TurnId> = groups.iter().map(|group| &group.id).filter(is_new).cloned().collect();
    let mut heads = turn_heads(&console, &thread, wanted).await?;
    let views: Vec<TurnView> = groups.into_iter().map(|group| with_head(group, &mut heads)).collect();
    let shown = turns::newest_turns(&thread, views.iter().rev(), place.turn.as_ref(), OLDER_BYTES);
    Ok(html! {
        @if let Some(next) = place_before(&found, shown.items) { (next.link(&thread)) }
        (shown.html)
    })
}

/// Returns the view of a turn with some of its items. Of a turn that a page shows already, only the items are needed.
fn with_head(group: Turn, heads: &mut Vec<CodicilTurnEntry>) -> TurnView {
    let Some(index) = heads.iter().position(|head| head.turn.id == group.id) else {
        return TurnView::from(group);
    };
    let CodicilTurnEntry { turn, plan } = heads.swap_remove(index);
    TurnView { plan, ..TurnView::from(Turn { items: group.items, ..turn }) }
}

/// Groups items by their turns, newest first. The items of a turn are in order.
fn by_turn<'a>(entries: impl Iterator<Item = &'a ThreadItemEntry>) -> Vec<Turn> {
    let mut groups: Vec<Turn> = Vec::new();
    for ThreadItemEntry { turn_id, item, .. } in entries {
        match groups.last_mut() {
            Some(last) if last.id == *turn_id => last.items.push(item.clone()),
            _ => groups.push(Turn { items: vec![item.clone()], ..Turn::in_progress(turn_id.clone()) }),
        }
    }
    groups.iter_mut().for_each(|group| group.items.reverse());
    groups
}

/// Returns turns without items, with their plans.
pub async fn turn_heads(
    console: &Console,
    thread: &ThreadId,
    turn_ids: Vec<TurnId>,
) -> Result<Vec<CodicilTurnEntry>, PageError> {
    if turn_ids.is_empty() {
        return Ok(Vec::new());
    }
    let params = CodicilTurnReadParams { thread_id: thread.clone(), turn_ids };
    Ok(console.client.call::<CodicilTurnRead>(params).await?.data)
}

/// Items that one request returned, newest first.
struct ItemsPage {
    /// The cursor of the request.
    cursor: Option<String>,
    items: Vec<ThreadItemEntry>,
    next_cursor: Option<String>,
}

/// Reads the items before a place, in one request if they begin at a cursor. An item that is not there any more is an error.
async fn items_before(
    console: &Console,
    thread: &ThreadId,
    place: &OlderPlace,
) -> Result<Vec<ItemsPage>, PageError> {
    let is_shown = |entry: &ThreadItemEntry| {
        place.turn.as_ref() == Some(&entry.turn_id) && entry.item.id() == place.item.as_ref()
    };
    let limit = if place.item.is_some() { SEARCHED_AT_ONCE } else { OLDER_ITEMS };
    let mut searched = place.item.as_ref();
    let mut found = Vec::new();
    let mut next = Some(place.items.clone());
    let mut count = 0;
    while let Some(cursor) = next.take().filter(|_| count < OLDER_ITEMS as usize) {
        let mut page = items_page(console, thread, cursor.clone(), limit).await?;
        next = page.next_cursor.clone().map(Some);
        if let Some(item) = searched {
            match page.data.iter().position(is_shown) {
                Some(index) => drop(page.data.drain(..=index)),
                None if next.is_some() => continue,
                None => return Err(PageError::NotFound(format!("item {item}"))),
            }
            searched = None;
        }
        count += page.data.len();
        found.push(ItemsPage { cursor, items: page.data, next_cursor: page.next_cursor });
    }
    Ok(found)
}

/// Returns the place before the items that are shown of those that were found; `None` if the thread has nothing before them.
fn place_before(found: &[ItemsPage], shown: usize) -> Option<OlderPlace> {
    let mut rest = shown;
    let mut turn = None;
    for part in found {
        if rest < part.items.len() {
            let first = rest.checked_sub(1).and_then(|index| part.items.get(index));
            let item = first.and_then(|entry| entry.item.id().cloned());
            let turn = first.map(|entry| entry.turn_id.clone()).or(turn);
            return Some(OlderPlace { turn, item, items: part.cursor.clone() });
        }
        rest -= part.items.len();
        turn = part.items.last().map(|entry| entry.turn_id.clone()).or(turn);
    }
    let cursor = found.last()?.next_cursor.clone()?;
    Some(OlderPlace { turn, item: None, items: Some(cursor) })
}

/// Returns items of a thread, newest first.
async fn items_page(
    console: &Console,
    thread: &ThreadId,
    cursor: Option<String>,
    limit: u32,
) -> Result<ThreadItemsListResponse, PageError> {
    let params = ThreadItemsListParams {
        thread_id: thread.clone(),
        turn_id: None,
        cursor: cursor.map(ThreadItemsListCursor::Page),
        limit: Some(limit),
        sort_direction: Some(SortDirection::Desc),
    };
    Ok(console.client.call::<ThreadItemsList>(params).await?)
}

/// Returns the newest turns of a thread that cannot be opened, in order, and what is before them.
pub async fn stored_turns(
    console: &Console,
    thread: &ThreadId,
) -> Result<(Vec<Turn>, OlderItems), PageError> {
    let params = ThreadTurnsListParams {
        thread_id: thread.clone(),
        cursor: None,
        limit: Some(STORED_TURNS),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(TurnItemsView::Full),
    };
    let page = console.client.call::<ThreadTurnsList>(params).await?;
    let older = if page.next_cursor.is_some() { OlderItems::BeforeFirst } else { OlderItems::None };
    Ok((page.data.into_iter().rev().collect(), older))
}
