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

use super::{PageError, turns};
use crate::{
    live::{ThreadView, TurnView},
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

/// Where the next older part of a thread begins: before an item that a page shows, or at the cursor of the part before.
#[derive(Debug, Deserialize)]
pub struct OlderQuery {
    /// The turn of the first item that is shown.
    turn: Option<String>,
    /// The first item that is shown.
    item: Option<String>,
    /// The cursor of the items before.
    items: Option<String>,
}

/// The place in a thread before which everything is older than what a page shows.
struct OlderPlace {
    /// The turn of the first item that is shown, which may have more items.
    turn: Option<TurnId>,
    items: Option<String>,
}

impl OlderPlace {
    fn link(&self, thread: &ThreadId) -> Markup {
        let turn = self.turn.as_ref().map(|turn| turn.to_string());
        let parts = [("turn", &turn), ("items", &self.items)];
        let pairs = parts.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        link(thread, pairs)
    }
}

/// Returns the link to what is older than the items of a page.
pub fn link_before(view: &ThreadView, first: Option<(&TurnId, &ItemId)>) -> Markup {
    let first_turn = view.turns.front().map(|turn| &turn.id);
    let turn = first.map(|(turn, _)| turn).or(first_turn).map(|turn| &**turn);
    let item = first.map(|(_, item)| &**item);
    link(
        &view.thread.id,
        [("turn", turn), ("item", item)].into_iter().filter_map(|(name, value)| Some((name, value?))),
    )
}

fn link<'a>(thread: &ThreadId, pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Markup {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    html! {
        p #older .more { a.button data-older="" href={ "/threads/" (thread) "/older?" (query) } { "Show earlier turns" } }
    }
}

/// `GET /threads/{thread}/older`: what is older than a place, as a part of the page.
pub async fn older_turns(
    State(console): State<Console>,
    Path(thread): Path<String>,
    Query(query): Query<OlderQuery>,
) -> Result<Markup, PageError> {
    let thread = ThreadId::from(thread);
    let place = match query {
        OlderQuery { turn, items: items @ Some(_), .. } => OlderPlace { turn: turn.map(TurnId::from), items },
        OlderQuery { turn: Some(turn), item: None, .. } => {
            OlderPlace { turn: Some(TurnId::from(turn)), items: None }
        }
        OlderQuery { turn: Some(turn), item: Some(item), .. } => {
            let turn = TurnId::from(turn);
            match items_before(&console, &thread, &turn, &ItemId::from(item)).await? {
                Some(cursor) => OlderPlace { turn: Some(turn), items: Some(cursor) },
                None => return Ok(html! {}),
            }
        }
        OlderQuery { .. } => return Err(PageError::BadRequest("say before which turn".to_owned())),
    };
    older_part(&console, &thread, place).await
}

/// Returns what is older than a place, and the link to the rest.
async fn older_part(console: &Console, thread: &ThreadId, place: OlderPlace) -> Result<Markup, PageError> {
    let found = items_page(console, thread, place.items.clone(), OLDER_ITEMS).await?;
    let mut next = OlderPlace { items: found.next_cursor, ..place };
    let groups = by_turn(found.data);
    let is_new = |turn: &&TurnId| next.turn.as_ref() != Some(*turn);
    let wanted: Vec<TurnId> = groups.iter().map(|group| &group.id).filter(is_new).cloned().collect();
    let mut heads = turn_heads(console, thread, wanted).await?;
    let views: Vec<TurnView> = groups.into_iter().map(|group| with_head(group, &mut heads)).collect();
    let shown = turns::newest_turns(thread, views.iter().rev(), next.turn.as_ref(), OLDER_BYTES);
    if shown.is_cut {
        // The same part, as far as it is shown, ends at the cursor of the rest.
        let count = u32::try_from(shown.items).unwrap_or(OLDER_ITEMS);
        next.items = items_page(console, thread, place.items, count).await?.next_cursor;
    }
    next.turn = shown.first.map(|(turn, _)| turn.clone()).or(next.turn);
    Ok(html! {
        @if next.items.is_some() { (next.link(thread)) }
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
fn by_turn(entries: Vec<ThreadItemEntry>) -> Vec<Turn> {
    let mut groups: Vec<Turn> = Vec::new();
    for ThreadItemEntry { turn_id, item, .. } in entries {
        match groups.last_mut() {
            Some(last) if last.id == turn_id => last.items.push(item),
            _ => groups.push(Turn { items: vec![item], ..Turn::in_progress(turn_id) }),
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

/// Returns the cursor of the items before one; `None` if it is the first.
async fn items_before(
    console: &Console,
    thread: &ThreadId,
    turn: &TurnId,
    item: &ItemId,
) -> Result<Option<String>, PageError> {
    let is_wanted = |entry: &ThreadItemEntry| entry.turn_id == *turn && entry.item.id() == Some(item);
    let mut cursor = None;
    loop {
        let page = items_page(console, thread, cursor.clone(), SEARCHED_AT_ONCE).await?;
        let Some(index) = page.data.iter().position(is_wanted) else {
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Err(PageError::NotFound(format!("item {item}")));
            }
            continue;
        };
        let count = u32::try_from(index + 1).unwrap_or(SEARCHED_AT_ONCE);
        let until = items_page(console, thread, cursor.clone(), count).await?;
        // New items may have arrived between the two requests.
        if until.data.last().is_some_and(is_wanted) {
            return Ok(until.next_cursor);
        }
    }
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

/// Returns the newest turns of a thread that cannot be opened, in order, and whether there are older ones.
pub async fn stored_turns(console: &Console, thread: &ThreadId) -> Result<(Vec<Turn>, bool), PageError> {
    let params = ThreadTurnsListParams {
        thread_id: thread.clone(),
        cursor: None,
        limit: Some(STORED_TURNS),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(TurnItemsView::Full),
    };
    let page = console.client.call::<ThreadTurnsList>(params).await?;
    let has_older = page.next_cursor.is_some();
    Ok((page.data.into_iter().rev().collect(), has_older))
}
