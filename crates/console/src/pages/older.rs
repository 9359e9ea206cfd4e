//! What a thread's page shows on demand: older turns and items, whole outputs, images.

use axum::{
    extract::{Path, Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use codicil_client::protocol::{
    self, FsReadFile, FsReadFileParams, ItemId, SortDirection, ThreadId, ThreadItem, ThreadItemsList,
    ThreadItemsListCursor, ThreadItemsListParams, ThreadTurnsList, ThreadTurnsListParams, Turn, TurnId,
    TurnItemsView, UserInput,
};
use maud::{Markup, html};
use serde::Deserialize;

use super::{PageError, items, turns};
use crate::{
    live::TurnView,
    render::{
        ansi::{self, OutputLines},
        markdown::markdown,
        text::url_part,
    },
    state::Console,
};

/// Turns that are shown at a time.
const OLDER_TURNS: u32 = 8;

/// Items of a turn that are shown at a time.
const OLDER_ITEMS: usize = 60;

/// Turns among which the first one of a page is looked for. Pages begin near the end of their thread.
const SEARCHED_TURNS: u32 = 1_000;

/// Items that are read of one turn.
const MAX_TURN_ITEMS: usize = 50_000;

#[derive(Debug, Deserialize)]
pub struct OlderQuery {
    /// The first turn or item that is shown already.
    before: Option<String>,
    /// The cursor of the page before.
    cursor: Option<String>,
}

fn turns_page(
    thread: &ThreadId,
    cursor: Option<String>,
    limit: u32,
    view: TurnItemsView,
) -> ThreadTurnsListParams {
    ThreadTurnsListParams {
        thread_id: thread.clone(),
        cursor,
        limit: Some(limit),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(view),
    }
}

/// `GET /threads/{thread}/older`: the turns before one, as a part of the page.
pub async fn older_turns(
    State(console): State<Console>,
    Path(thread): Path<String>,
    Query(query): Query<OlderQuery>,
) -> Result<Markup, PageError> {
    let thread = ThreadId::from(thread);
    let cursor = match (query.cursor, query.before) {
        (Some(cursor), _) => Some(cursor),
        (None, Some(before)) => cursor_before(&console, &thread, &TurnId::from(before)).await?,
        (None, None) => None,
    };
    let Some(cursor) = cursor else { return Ok(html! {}) };
    let params = turns_page(&thread, Some(cursor), OLDER_TURNS, TurnItemsView::Full);
    let page = console.client.call::<ThreadTurnsList>(params).await?;
    Ok(html! {
        @if let Some(cursor) = &page.next_cursor {
            p.more { a.button data-older="" href={ "/threads/" (thread) "/older?cursor=" (cursor) } { "Show earlier turns" } }
        }
        @for turn in page.data.into_iter().rev() { (shown_turn(&thread, turn)) }
    })
}

/// Returns the newest turns of a thread, in order, and whether there are older ones.
pub async fn newest_turns(console: &Console, thread: &ThreadId) -> Result<(Vec<Turn>, bool), PageError> {
    let params = turns_page(thread, None, OLDER_TURNS, TurnItemsView::Full);
    let page = console.client.call::<ThreadTurnsList>(params).await?;
    let has_older = page.next_cursor.is_some();
    Ok((page.data.into_iter().rev().collect(), has_older))
}

/// Returns the cursor of the turns before one.
async fn cursor_before(
    console: &Console,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<Option<String>, PageError> {
    let params = turns_page(thread, None, SEARCHED_TURNS, TurnItemsView::NotLoaded);
    let newest = console.client.call::<ThreadTurnsList>(params).await?;
    let Some(index) = newest.data.iter().position(|found| found.id == *turn) else {
        return Ok(newest.next_cursor);
    };
    let count = u32::try_from(index + 1).unwrap_or(u32::MAX);
    let params = turns_page(thread, None, count, TurnItemsView::NotLoaded);
    Ok(console.client.call::<ThreadTurnsList>(params).await?.next_cursor)
}

/// Returns a turn that is too old for the page, for a link to it.
pub async fn linked_turn(console: &Console, thread: &ThreadId, turn: &TurnId) -> Result<Markup, PageError> {
    let mut cursor = None;
    loop {
        let params = turns_page(thread, cursor, 200, TurnItemsView::NotLoaded);
        let page = console.client.call::<ThreadTurnsList>(params).await?;
        if let Some(found) = page.data.into_iter().find(|found| found.id == *turn) {
            let items = turn_items(console, thread, turn).await?;
            let shown = shown_turn(thread, Turn { items, ..found });
            return Ok(html! { section.linked aria-label="Linked turn" { h2 { "Linked turn" } (shown) } });
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Err(PageError::NotFound(format!("turn {turn}")));
        }
    }
}

/// Returns a turn with the end of its items.
fn shown_turn(thread: &ThreadId, turn: Turn) -> Markup {
    let mut view = TurnView::from(turn);
    let hidden = view.items.len().saturating_sub(OLDER_ITEMS);
    view.items.drain(..hidden);
    view.hidden_items = hidden;
    turns::turn(thread, &view)
}

/// `GET /threads/{thread}/turns/{turn}/items`: the items of a turn before one, as a part of the page.
pub async fn older_items(
    State(console): State<Console>,
    Path((thread, turn)): Path<(String, String)>,
    Query(query): Query<OlderQuery>,
) -> Result<Markup, PageError> {
    let (thread, turn) = (ThreadId::from(thread), TurnId::from(turn));
    let mut all = turn_items(&console, &thread, &turn).await?;
    let is_first = |item: &ThreadItem| {
        query.before.as_deref().is_some_and(|before| item.id().is_some_and(|id| **id == *before))
    };
    let end = all.iter().position(is_first).unwrap_or(all.len());
    all.truncate(end);
    let hidden = all.len().saturating_sub(OLDER_ITEMS);
    let shown = all.split_off(hidden);
    let first = shown.first().and_then(|item| item.id().cloned());
    let mut view = TurnView::from(Turn::in_progress(turn.clone()));
    view.items = shown.into();
    Ok(html! {
        @if hidden > 0 && let Some(first) = first {
            p.more { a.button data-more="" href={ "/threads/" (thread) "/turns/" (turn) "/items?before=" (url_part(&first)) } { "Show " (hidden) " earlier items" } }
        }
        @for item in &view.items { (items::item(&thread, &view, item)) }
    })
}

async fn turn_items(
    console: &Console,
    thread: &ThreadId,
    turn: &TurnId,
) -> Result<Vec<ThreadItem>, PageError> {
    let mut items = Vec::new();
    let mut cursor = None;
    while items.len() < MAX_TURN_ITEMS {
        let params = ThreadItemsListParams {
            thread_id: thread.clone(),
            turn_id: Some(turn.clone()),
            cursor: cursor.take(),
            limit: Some(10_000),
            sort_direction: Some(SortDirection::Asc),
        };
        let page = console.client.call::<ThreadItemsList>(params).await?;
        items.extend(page.data.into_iter().map(|entry| entry.item));
        cursor = page.next_cursor.map(ThreadItemsListCursor::Page);
        if cursor.is_none() {
            break;
        }
    }
    Ok(items)
}

/// Returns an item of a turn.
pub async fn find_item(
    console: &Console,
    thread: &ThreadId,
    turn: &TurnId,
    item: &ItemId,
) -> Result<ThreadItem, PageError> {
    if console.hubs.has(thread) {
        let page = console.hubs.page(thread).await?;
        if let Some(found) = page.view.turn(turn).and_then(|turn| turn.item(item)) {
            return Ok(found.clone());
        }
    }
    let items = turn_items(console, thread, turn).await?;
    let found = items.into_iter().find(|found| found.id() == Some(item));
    found.ok_or_else(|| PageError::NotFound(format!("item {item}")))
}

/// `GET …/items/{item}/output`: the whole output of a command, or a whole message.
pub async fn all_output(
    State(console): State<Console>,
    Path((thread, turn, item)): Path<(String, String, String)>,
) -> Result<Markup, PageError> {
    match find_item(&console, &thread.into(), &turn.into(), &item.into()).await? {
        ThreadItem::CommandExecution { aggregated_output, .. } => {
            let output = aggregated_output.unwrap_or_default();
            Ok(
                html! { pre.output.all tabindex="0" aria-label="Output" { (ansi::output(&output, OutputLines::All).html) } },
            )
        }
        ThreadItem::AgentMessage { text, .. } | ThreadItem::Plan { text, .. } => {
            Ok(html! { div.markdown { (markdown(&text)) } })
        }
        _ => Err(PageError::NotFound("output".to_owned())),
    }
}

/// `GET …/items/{item}/images/{index}`: an image of an item.
pub async fn image(
    State(console): State<Console>,
    Path((thread, turn, item, index)): Path<(String, String, String, usize)>,
) -> Result<Response, PageError> {
    let item = find_item(&console, &thread.into(), &turn.into(), &item.into()).await?;
    let not_found = || PageError::NotFound("image".to_owned());
    let source = match item {
        ThreadItem::UserMessage { content, .. } => {
            match content.into_iter().nth(index).ok_or_else(not_found)? {
                UserInput::Image { source: protocol::ImageSource::Url { url }, .. } => ImageBytes::Data(url),
                UserInput::LocalImage { path, .. } => ImageBytes::File(path),
                _ => return Err(not_found()),
            }
        }
        ThreadItem::ImageView { path, .. } => ImageBytes::File(path),
        ThreadItem::ImageGeneration { result, .. } => {
            ImageBytes::Data(format!("data:image/png;base64,{result}"))
        }
        _ => return Err(not_found()),
    };
    let bytes = match source {
        ImageBytes::Data(url) => {
            // An image elsewhere is not loaded: that would tell its server who reads the thread.
            let data = url
                .strip_prefix("data:")
                .and_then(|data| data.split_once(";base64,"))
                .ok_or_else(not_found)?
                .1;
            BASE64_STANDARD.decode(data.trim()).map_err(|_| not_found())?
        }
        ImageBytes::File(path) => {
            let path = serde_json::from_value(path.into()).map_err(|_| not_found())?;
            let file = console.client.call::<FsReadFile>(FsReadFileParams { path }).await?;
            BASE64_STANDARD.decode(file.data_base64).map_err(|_| not_found())?
        }
    };
    // Only formats that cannot carry scripts, told by their first bytes.
    let Some(media_type) = media_type(&bytes) else {
        return Ok(StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response());
    };
    Ok(([(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "private, max-age=3600")], bytes)
        .into_response())
}

/// Where the bytes of an image are.
enum ImageBytes {
    Data(String),
    File(String),
}

fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}
