//! Size limits for the response of a model.
//!
//! A provider that never stops must not fill the memory of a server with other threads. Beyond a limit the stream
//! is dropped and the request fails with [`ModelError::TooLarge`]; events that arrived before are still passed to
//! the caller. No model comes near these limits: the longest responses have a few hundred thousand tokens, which
//! is about a megabyte.

use std::collections::HashMap;

use codicil_http::EventTooLong;
use codicil_protocol::{
    ContentItem, ItemId, ReasoningItemContent, ReasoningItemReasoningSummary, ResponseItem,
};

use crate::{ModelError, ModelEvent};

/// Limit for all items of a response together: texts, reasoning, arguments of tool calls, images.
pub const MAX_RESPONSE_BYTES: usize = 32 << 20;
/// Limit for one item: the text of a message, the reasoning, the arguments of a tool call. An image is limited
/// by [`MAX_RESPONSE_BYTES`] alone.
pub const MAX_ITEM_BYTES: usize = 8 << 20;
/// Limit for the number of items of a response, tool calls included.
pub const MAX_ITEMS: usize = 1024;
/// Limit for one server-sent event as received. Some events repeat the whole response.
pub const MAX_EVENT_BYTES: usize = MAX_RESPONSE_BYTES;

/// Overhead counted for each part of a reasoning summary.
const PART_BYTES: usize = 64;

/// The size of the response so far, as its events reported it.
#[derive(Default)]
pub(crate) struct ResponseTally {
    bytes: usize,
    /// Size of each item except the current one.
    items: HashMap<ItemId, usize>,
    /// Id and size of the last event's item. Deltas of one item follow each other, so this avoids most lookups.
    current: Option<(ItemId, usize)>,
}

impl ResponseTally {
    /// Counts the events from index `first`. Removes the first event beyond a limit and all after it.
    pub fn count(&mut self, events: &mut Vec<ModelEvent>, first: usize) -> Result<(), ModelError> {
        let new = events.get(first..).unwrap_or_default();
        let Some((at, error)) =
            new.iter().enumerate().find_map(|(at, event)| Some((at, self.add(event).err()?)))
        else {
            return Ok(());
        };
        events.truncate(first + at);
        Err(error)
    }

    fn add(&mut self, event: &ModelEvent) -> Result<(), ModelError> {
        match event {
            ModelEvent::TextDelta { item_id, delta }
            | ModelEvent::ToolInputDelta { item_id, delta }
            | ModelEvent::ReasoningSummaryDelta { item_id, delta, .. }
            | ModelEvent::ReasoningTextDelta { item_id, delta, .. } => self.grow(item_id, delta.len()),
            ModelEvent::ReasoningSummaryPartAdded { item_id, .. } => self.grow(item_id, PART_BYTES),
            ModelEvent::ItemAdded { id, item } | ModelEvent::ItemDone { id, item } => self.set(id, item),
            ModelEvent::RateLimits(_)
            | ModelEvent::Rerouted(_)
            | ModelEvent::Used(_)
            | ModelEvent::Completed { .. } => Ok(()),
        }
    }

    fn grow(&mut self, id: &ItemId, by: usize) -> Result<(), ModelError> {
        let item = self.item(id)?;
        *item += by;
        let is_too_long = *item > MAX_ITEM_BYTES;
        self.bytes += by;
        self.check(is_too_long)
    }

    /// Counts a whole item. Only what its deltas have not counted already is added.
    fn set(&mut self, id: &ItemId, whole: &ResponseItem) -> Result<(), ModelError> {
        let size = size_of(whole);
        let item = self.item(id)?;
        let more = size.saturating_sub(*item);
        *item += more;
        self.bytes += more;
        let is_image = matches!(whole, ResponseItem::ImageGenerationCall { .. });
        self.check(size > MAX_ITEM_BYTES && !is_image)
    }

    fn check(&self, is_item_too_long: bool) -> Result<(), ModelError> {
        if is_item_too_long {
            return Err(item_too_long());
        }
        if self.bytes > MAX_RESPONSE_BYTES {
            return Err(response_too_long());
        }
        Ok(())
    }

    fn item(&mut self, id: &ItemId) -> Result<&mut usize, ModelError> {
        if self.current.as_ref().is_none_or(|(current, _)| current != id) {
            let known = self.items.remove(id);
            if let Some((before, bytes)) = self.current.take() {
                self.items.insert(before, bytes);
            }
            if known.is_none() && self.items.len() >= MAX_ITEMS {
                return Err(too_many_items());
            }
            self.current = Some((id.clone(), known.unwrap_or(0)));
        }
        self.current.as_mut().map(|(_, bytes)| bytes).ok_or_else(too_many_items)
    }
}

/// The size of text that a decoder holds until its item is complete, before any event reports it.
#[derive(Default)]
pub(crate) struct GatheredText {
    bytes: usize,
}

impl GatheredText {
    pub fn append(&mut self, text: &mut String, more: &str) -> Result<(), ModelError> {
        if text.len() + more.len() > MAX_ITEM_BYTES {
            return Err(item_too_long());
        }
        self.bytes += more.len();
        if self.bytes > MAX_RESPONSE_BYTES {
            return Err(response_too_long());
        }
        text.push_str(more);
        Ok(())
    }

    /// Checks that one more item may be added to `count` items.
    pub fn check_items(&self, count: usize) -> Result<(), ModelError> {
        if count < MAX_ITEMS { Ok(()) } else { Err(too_many_items()) }
    }
}

impl From<EventTooLong> for ModelError {
    fn from(error: EventTooLong) -> Self {
        Self::TooLarge(format!("one of its events has more than {} MiB", error.max_bytes >> 20))
    }
}

fn item_too_long() -> ModelError {
    ModelError::TooLarge(format!("one of its items has more than {} MiB", MAX_ITEM_BYTES >> 20))
}

fn response_too_long() -> ModelError {
    ModelError::TooLarge(format!("it has more than {} MiB", MAX_RESPONSE_BYTES >> 20))
}

fn too_many_items() -> ModelError {
    ModelError::TooLarge(format!("it has more than {MAX_ITEMS} items"))
}

/// Returns about how many bytes an item holds.
fn size_of(item: &ResponseItem) -> usize {
    match item {
        ResponseItem::Message { content, .. } => content.iter().map(content_size).sum(),
        ResponseItem::Reasoning { summary, content, encrypted_content } => {
            let parts = summary.iter().map(|part| match part {
                ReasoningItemReasoningSummary::SummaryText { text } => text.len(),
                ReasoningItemReasoningSummary::Unrecognized(other) => json_size(other),
            });
            let raw = content.iter().flatten().map(|part| match part {
                ReasoningItemContent::ReasoningText { text } | ReasoningItemContent::Text { text } => {
                    text.len()
                }
                ReasoningItemContent::Unrecognized(other) => json_size(other),
            });
            parts.sum::<usize>() + raw.sum::<usize>() + encrypted_content.as_ref().map_or(0, String::len)
        }
        ResponseItem::FunctionCall { arguments: text, .. }
        | ResponseItem::CustomToolCall { input: text, .. } => text.len(),
        ResponseItem::ImageGenerationCall { result, revised_prompt, .. } => {
            result.len() + revised_prompt.as_ref().map_or(0, String::len)
        }
        other => json_size(other),
    }
}

fn content_size(part: &ContentItem) -> usize {
    match part {
        ContentItem::InputText { text } | ContentItem::OutputText { text } => text.len(),
        other => json_size(other),
    }
}

/// Returns the length of a value as JSON without building the JSON.
fn json_size(value: &impl serde::Serialize) -> usize {
    struct ByteCount(usize);
    impl std::io::Write for ByteCount {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCount(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: &str, len: usize) -> ModelEvent {
        ModelEvent::TextDelta { item_id: ItemId::from(id), delta: "x".repeat(len) }
    }

    fn call(id: &str, len: usize) -> ModelEvent {
        let item = ResponseItem::FunctionCall {
            id: None,
            call_id: id.to_owned(),
            name: "f".to_owned(),
            namespace: None,
            arguments: "x".repeat(len),
        };
        ModelEvent::ItemDone { id: ItemId::from(id), item: Box::new(item) }
    }

    /// Counts events and compares how many were kept, and the error for the rest.
    fn check(mut events: Vec<ModelEvent>, kept: usize, reason: Option<&str>) {
        let result = ResponseTally::default().count(&mut events, 0);
        assert_eq!(events.len(), kept);
        assert_eq!(result.err().map(|error| error.to_string()).as_deref(), reason);
    }

    #[test]
    fn a_response_within_the_limits_is_unchanged() {
        let events = (0..MAX_ITEMS).map(|at| text(&at.to_string(), 1)).collect();
        check(events, MAX_ITEMS, None);
        check(vec![text("a", MAX_ITEM_BYTES), text("b", MAX_ITEM_BYTES)], 2, None);
        // Content that arrives as deltas and again as a whole item counts once.
        let message = |text: String| ResponseItem::Message {
            id: None,
            role: "assistant".to_owned(),
            content: vec![ContentItem::OutputText { text }],
            end_turn: None,
            phase: None,
        };
        let done = |id: &str| {
            let item = Box::new(message("x".repeat(MAX_ITEM_BYTES)));
            ModelEvent::ItemDone { id: ItemId::from(id), item }
        };
        let twice = ["a", "b", "c", "d"].into_iter().flat_map(|id| [text(id, MAX_ITEM_BYTES), done(id)]);
        check(twice.collect(), 8, None);
    }

    #[test]
    fn each_limit_has_its_own_error() {
        let too_large = |what: &str| Some(format!("the model's response is too large: {what}"));
        let item = too_large("one of its items has more than 8 MiB");
        check(vec![text("a", MAX_ITEM_BYTES), text("b", 1), text("a", 1), text("b", 1)], 2, item.as_deref());
        check(vec![call("a", MAX_ITEM_BYTES + 1)], 0, item.as_deref());
        let whole = too_large("it has more than 32 MiB");
        let many = (0..5).map(|at| text(&at.to_string(), MAX_ITEM_BYTES)).collect();
        check(many, 4, whole.as_deref());
        let items = too_large("it has more than 1024 items");
        let many = (0..=MAX_ITEMS).map(|at| call(&at.to_string(), 1)).collect();
        check(many, MAX_ITEMS, items.as_deref());
    }

    #[test]
    fn gathered_text_has_the_same_limits() {
        let mut gathered = GatheredText::default();
        let mut texts = vec![String::new(); 5];
        let piece = "x".repeat(MAX_ITEM_BYTES);
        assert!(texts.iter_mut().take(4).all(|text| gathered.append(text, &piece).is_ok()));
        assert!(gathered.append(&mut texts[0], "x").is_err(), "one item");
        assert!(gathered.append(&mut texts[4], "x").is_err(), "all of them");
        assert!(gathered.check_items(MAX_ITEMS - 1).is_ok() && gathered.check_items(MAX_ITEMS).is_err());
    }
}
