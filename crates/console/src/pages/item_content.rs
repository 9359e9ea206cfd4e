//! What items have beyond their place on a thread's page: whole outputs and messages, images.

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use codicil_client::protocol::{
    self, DynamicToolCallOutputContentItem, FsReadFile, FsReadFileParams, ItemId, ThreadId, ThreadItem,
    ThreadItemsRead, ThreadItemsReadParams, TurnId, UserInput,
};
use maud::{Markup, html};

use super::PageError;
use crate::{
    render::{
        ansi::{self, OutputLines},
        markdown::markdown,
    },
    state::Console,
};

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
    let params = ThreadItemsReadParams {
        thread_id: thread.clone(),
        turn_id: turn.clone(),
        item_ids: vec![item.clone()],
    };
    let found = console.client.call::<ThreadItemsRead>(params).await?.data.into_iter().next();
    found.map(|entry| entry.item).ok_or_else(|| PageError::NotFound(format!("item {item}")))
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
        ThreadItem::McpToolCall { result: Some(result), .. } => {
            let data = result.content.get(index).and_then(|part| part.get("data")?.as_str());
            ImageBytes::Data(format!("data:;base64,{}", data.ok_or_else(not_found)?))
        }
        ThreadItem::DynamicToolCall { content_items: Some(parts), .. } => {
            match parts.into_iter().nth(index) {
                Some(DynamicToolCallOutputContentItem::InputImage { image_url, .. }) => {
                    ImageBytes::Data(image_url)
                }
                _ => return Err(not_found()),
            }
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
