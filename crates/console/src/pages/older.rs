//! Older turns and items of a thread, which a page loads on demand.
//!
//! A thread is one sequence of items here, read from the newest backwards: a page of it has a limited number of items and
//! bytes, however many turns they belong to. A turn that does not fit continues with the next page; the script of the page
//! puts its parts together.

use axum::extract::{Path, Query, State};
use codicil_client::protocol::{
    ItemId, SortDirection, ThreadId, ThreadItem, ThreadItemEntry, ThreadItemsList, ThreadItemsListAnchor,
    ThreadItemsListCursor, ThreadItemsListParams, ThreadItemsListResponse, ThreadTurnsList,
    ThreadTurnsListParams, ThreadTurnsListResponse, Turn, TurnId, TurnItemsView,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{PageError, items, turns};
use crate::{
    live::{ThreadView, TurnView},
    render::text::url_part,
    state::Console,
};

/// Items that are loaded at a time.
const OLDER_ITEMS: u32 = 60;

/// HTML that is loaded at a time, in bytes.
const OLDER_BYTES: usize = 160_000;

/// Turns or items of one request when one of them is looked for. The server returns no more.
const SEARCHED_AT_ONCE: u32 = 100;

/// Turns that are shown of a thread that cannot be opened.
const STORED_TURNS: u32 = 8;

/// Where the next older part of a thread begins: before an item that a page shows, or at the cursors of the part before.
#[derive(Debug, Deserialize)]
pub struct OlderQuery {
    /// The turn of the first item that is shown.
    turn: Option<String>,
    /// The first item that is shown.
    item: Option<String>,
    /// The cursor of the items before.
    items: Option<String>,
    /// The cursor of the turns before `turn`.
    turns: Option<String>,
}

/// The place in a thread before which everything is older than what a page shows.
struct OlderPlace {
    /// The turn of the first item that is shown, which may have more items.
    turn: Option<TurnId>,
    items: Option<String>,
    turns: Option<String>,
}

impl OlderPlace {
    fn link(&self, thread: &ThreadId) -> Markup {
        let turn = self.turn.as_ref().map(|turn| turn.to_string());
        let parts = [("turn", &turn), ("items", &self.items), ("turns", &self.turns)];
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
        OlderQuery { turn, items: items @ Some(_), turns, .. } => {
            OlderPlace { turn: turn.map(TurnId::from), items, turns }
        }
        OlderQuery { turn: Some(turn), item, .. } => {
            let (turn, item) = (TurnId::from(turn), item.map(ItemId::from));
            match place_before(&console, &thread, turn, item.as_ref()).await? {
                Some(place) => place,
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
    let heads = turn_heads(console, thread, next.turns.clone(), &wanted).await?;
    let views: Vec<TurnView> = groups
        .into_iter()
        .map(|group| match heads.iter().find(|head| head.id == group.id) {
            Some(head) => TurnView::from(Turn { items: group.items, ..head.clone() }),
            None => TurnView::from(group),
        })
        .collect();
    let shown = turns::newest_turns(thread, views.iter().rev(), next.turn.as_ref(), OLDER_BYTES);
    if shown.is_cut {
        // The same part, as far as it is shown, ends at the cursor of the rest.
        let count = u32::try_from(shown.items).unwrap_or(OLDER_ITEMS);
        next.items = items_page(console, thread, place.items, count).await?.next_cursor;
    }
    if let Some((turn, _)) = shown.first
        && let Some(index) = heads.iter().position(|head| head.id == *turn)
    {
        let count = u32::try_from(index + 1).unwrap_or(OLDER_ITEMS);
        next.turns = turns_page(console, thread, next.turns, count).await?.next_cursor;
    }
    next.turn = shown.first.map(|(turn, _)| turn.clone()).or(next.turn);
    Ok(html! {
        @if next.items.is_some() { (next.link(thread)) }
        (shown.html)
    })
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

/// Returns turns without items, newest first, until all that are wanted are among them.
async fn turn_heads(
    console: &Console,
    thread: &ThreadId,
    mut cursor: Option<String>,
    wanted: &[TurnId],
) -> Result<Vec<Turn>, PageError> {
    let mut heads: Vec<Turn> = Vec::new();
    loop {
        let missing = wanted.iter().filter(|turn| !heads.iter().any(|head| head.id == **turn)).count();
        let Some(at) = cursor.take().filter(|_| missing > 0) else { return Ok(heads) };
        let count = u32::try_from(missing).unwrap_or(SEARCHED_AT_ONCE);
        let page = turns_page(console, thread, Some(at), count).await?;
        heads.extend(page.data);
        cursor = page.next_cursor;
    }
}

/// Returns the place before an item, or before a turn that has none. Pages begin near the end of their thread.
async fn place_before(
    console: &Console,
    thread: &ThreadId,
    turn: TurnId,
    item: Option<&ItemId>,
) -> Result<Option<OlderPlace>, PageError> {
    let items = match item {
        Some(item) => match items_before(console, thread, &turn, item).await? {
            Some(cursor) => Some(cursor),
            None => return Ok(None),
        },
        None => None,
    };
    let turns = turns_before(console, thread, &turn).await?;
    Ok(Some(OlderPlace { turn: Some(turn), items, turns }))
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

/// Returns the cursor of the turns before one; `None` if it is the first.
async fn turns_before(
    console: &Console,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<Option<String>, PageError> {
    let mut cursor = None;
    loop {
        let page = turns_page(console, thread, cursor.clone(), SEARCHED_AT_ONCE).await?;
        let Some(index) = page.data.iter().position(|found| found.id == *turn) else {
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Err(PageError::NotFound(format!("turn {turn}")));
            }
            continue;
        };
        let count = u32::try_from(index + 1).unwrap_or(SEARCHED_AT_ONCE);
        let until = turns_page(console, thread, cursor.clone(), count).await?;
        if until.data.last().is_some_and(|last| last.id == *turn) {
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

/// Returns turns of a thread without their items, newest first.
async fn turns_page(
    console: &Console,
    thread: &ThreadId,
    cursor: Option<String>,
    limit: u32,
) -> Result<ThreadTurnsListResponse, PageError> {
    let params = ThreadTurnsListParams {
        thread_id: thread.clone(),
        cursor,
        limit: Some(limit),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(TurnItemsView::NotLoaded),
    };
    Ok(console.client.call::<ThreadTurnsList>(params).await?)
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

/// Returns a turn that is too old for the page, for a link to it.
pub async fn linked_turn(console: &Console, thread: &ThreadId, turn: &TurnId) -> Result<Markup, PageError> {
    let mut cursor = None;
    loop {
        let page = turns_page(console, thread, cursor, SEARCHED_AT_ONCE).await?;
        if let Some(head) = page.data.into_iter().find(|found| found.id == *turn) {
            let (items, link) = items_of_turn(console, thread, turn, None).await?;
            let shown = turns::turn(thread, &TurnView::from(Turn { items, ..head }), &link);
            return Ok(
                html! { section.linked aria-label="Linked turn" { h2 { "Linked turn" } (link) (shown) } },
            );
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Err(PageError::NotFound(format!("turn {turn}")));
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct OlderItemsQuery {
    /// The first item that is shown already.
    before: String,
}

/// `GET /threads/{thread}/turns/{turn}/items`: the items of a linked turn before one, as a part of the page.
pub async fn older_items(
    State(console): State<Console>,
    Path((thread, turn)): Path<(String, String)>,
    Query(query): Query<OlderItemsQuery>,
) -> Result<Markup, PageError> {
    let (thread, turn) = (ThreadId::from(thread), TurnId::from(turn));
    let (found, link) = items_of_turn(&console, &thread, &turn, Some(query.before.into())).await?;
    let view = TurnView::from(Turn { items: found, ..Turn::in_progress(turn) });
    Ok(html! {
        (link)
        @for item in &view.items { (items::item(&thread, &view, item)) }
    })
}

/// Returns the last items of a turn before one, in order, and the link to those before them.
async fn items_of_turn(
    console: &Console,
    thread: &ThreadId,
    turn: &TurnId,
    before: Option<ItemId>,
) -> Result<(Vec<ThreadItem>, Markup), PageError> {
    let anchor = before.map(|item_id| ThreadItemsListCursor::Anchor(ThreadItemsListAnchor::Item { item_id }));
    let params = ThreadItemsListParams {
        thread_id: thread.clone(),
        turn_id: Some(turn.clone()),
        cursor: anchor,
        limit: Some(OLDER_ITEMS),
        sort_direction: Some(SortDirection::Desc),
    };
    let page = console.client.call::<ThreadItemsList>(params).await?;
    let first = page.data.last().and_then(|entry| entry.item.id()).filter(|_| page.next_cursor.is_some());
    let address =
        first.map(|first| format!("/threads/{thread}/turns/{turn}/items?before={}", url_part(first)));
    let link = html! {
        @if let Some(address) = address { p.more { a.button data-more="" href=(address) { "Show earlier items" } } }
    };
    Ok((page.data.into_iter().rev().map(|entry| entry.item).collect(), link))
}
