//! The model's input so far, kept in the form in which it is sent.
//!
//! Each request carries the whole history, so a history keeps its rendered form. Items are grouped into segments.
//! A segment is rendered once and is then one chunk of every later request, shared and not copied. New segments
//! are small (the items added since the last request), and neighbours of similar size are joined as in a binary
//! counter: a long history stays a short list of chunks, and each item is copied only a few times.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use codicil_protocol::{ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem, ResponseItem};

/// Approximate upper bound of a segment, in bytes.
const MAX_SEGMENT: usize = 64 * 1024;

/// The model's input. Clones share the items and their rendered form.
#[derive(Clone, Debug, Default)]
pub struct History {
    segments: Vec<Arc<HistorySegment>>,
    /// Items added since the last snapshot.
    fresh: Vec<HistoryItem>,
}

impl History {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, item: impl Into<HistoryItem>) {
        self.fresh.push(item.into());
    }

    /// Returns the history for a request. The items added since the last snapshot become part of the shared
    /// rendered form, so this must be called on the history itself and not on a clone.
    pub fn snapshot(&mut self) -> Self {
        if !self.fresh.is_empty() {
            self.segments.push(Arc::new(HistorySegment::new(std::mem::take(&mut self.fresh))));
            self.join_neighbours();
        }
        self.clone()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &HistoryItem> {
        self.segments.iter().flat_map(|segment| segment.items.iter()).chain(&self.fresh)
    }

    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.items.len()).sum::<usize>() + self.fresh.len()
    }

    pub fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.fresh.is_empty()
    }

    /// Returns the items as JSON of the Responses API, separated by commas within each chunk.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Bytes> {
        let fresh = (!self.fresh.is_empty()).then(|| render(&self.fresh));
        let rendered = self.segments.iter().map(|segment| segment.json().clone()).chain(fresh);
        rendered.filter(|chunk| !chunk.is_empty())
    }

    fn join_neighbours(&mut self) {
        while let [.., before, last] = self.segments.as_slice() {
            if before.weight > 2 * last.weight || before.weight + last.weight > MAX_SEGMENT {
                return;
            }
            let joined = Arc::new(before.join(last));
            self.segments.truncate(self.segments.len() - 2);
            self.segments.push(joined);
        }
    }
}

impl<T: Into<HistoryItem>> FromIterator<T> for History {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut history = Self::new();
        let mut weight = 0;
        for item in items.into_iter().map(Into::into) {
            weight += item.weight();
            history.push(item);
            // A history that is loaded as a whole starts with segments of their final size.
            if weight > MAX_SEGMENT / 2 {
                history.segments.push(Arc::new(HistorySegment::new(std::mem::take(&mut history.fresh))));
                weight = 0;
            }
        }
        history
    }
}

impl<T: Into<HistoryItem>> Extend<T> for History {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        self.fresh.extend(items.into_iter().map(Into::into));
    }
}

/// An item of a history. Clones share the item and its rendered form.
#[derive(Clone, Debug)]
pub struct HistoryItem(Arc<HistoryItemInner>);

#[derive(Debug)]
struct HistoryItemInner {
    item: ResponseItem,
    /// The item rendered in the first dialect that requested it. Few threads use two.
    fragment: OnceLock<(RenderDialect, Bytes)>,
}

/// The dialects that render items one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenderDialect {
    Chat,
    Anthropic,
}

impl HistoryItem {
    pub fn new(item: ResponseItem) -> Self {
        Self(Arc::new(HistoryItemInner { item, fragment: OnceLock::new() }))
    }

    pub fn item(&self) -> &ResponseItem {
        &self.0.item
    }

    /// Returns the item rendered in `dialect`, from the cache if it holds this dialect.
    pub(crate) fn fragment(&self, dialect: RenderDialect, render: fn(&ResponseItem) -> Vec<u8>) -> Bytes {
        let (of, bytes) = self.0.fragment.get_or_init(|| (dialect, render(self.item()).into()));
        if *of == dialect { bytes.clone() } else { render(self.item()).into() }
    }

    /// Returns about how many bytes the item takes, without rendering it.
    pub(crate) fn weight(&self) -> usize {
        weight(self.item()) + 64
    }
}

impl From<ResponseItem> for HistoryItem {
    fn from(item: ResponseItem) -> Self {
        Self::new(item)
    }
}

#[derive(Debug)]
struct HistorySegment {
    items: Box<[HistoryItem]>,
    weight: usize,
    json: OnceLock<Bytes>,
}

impl HistorySegment {
    fn new(items: Vec<HistoryItem>) -> Self {
        let weight = items.iter().map(|item| item.weight()).sum();
        Self { items: items.into(), weight, json: OnceLock::new() }
    }

    fn json(&self) -> &Bytes {
        self.json.get_or_init(|| render(&self.items))
    }

    /// Joins two segments. JSON that is already rendered is concatenated.
    fn join(&self, next: &Self) -> Self {
        let json = OnceLock::new();
        if let Some(rendered) = self.json.get() {
            let _ = json.set(concatenate(rendered, next.json()));
        }
        let items = self.items.iter().chain(&next.items).cloned().collect();
        Self { items, weight: self.weight + next.weight, json }
    }
}

fn concatenate(first: &Bytes, second: &Bytes) -> Bytes {
    if first.is_empty() || second.is_empty() {
        return if first.is_empty() { second.clone() } else { first.clone() };
    }
    let mut joined = BytesMut::with_capacity(first.len() + 1 + second.len());
    joined.put_slice(first);
    joined.put_u8(b',');
    joined.put_slice(second);
    joined.freeze()
}

fn render(items: &[HistoryItem]) -> Bytes {
    let mut json = Vec::with_capacity(items.iter().map(|item| item.weight()).sum());
    for item in items {
        let before = json.len();
        if before > 0 {
            json.push(b',');
        }
        if !crate::responses::write_item(item.item(), &mut json) {
            json.truncate(before);
        }
    }
    json.shrink_to_fit();
    json.into()
}

fn weight(item: &ResponseItem) -> usize {
    match item {
        ResponseItem::Message { content, .. } => content.iter().map(content_weight).sum(),
        ResponseItem::FunctionCall { arguments, .. } => arguments.len(),
        ResponseItem::CustomToolCall { input, .. } => input.len(),
        ResponseItem::FunctionCallOutput { output, .. }
        | ResponseItem::CustomToolCallOutput { output, .. } => match output {
            FunctionCallOutputBody::Text(text) => text.len(),
            FunctionCallOutputBody::Content(parts) => parts.iter().map(output_weight).sum(),
        },
        ResponseItem::Reasoning { encrypted_content, .. } => {
            encrypted_content.as_ref().map_or(0, String::len) + 256
        }
        ResponseItem::ImageGenerationCall { result, .. } => result.len(),
        ResponseItem::Compaction { encrypted_content } => encrypted_content.len(),
        _ => 256,
    }
}

fn content_weight(part: &ContentItem) -> usize {
    match part {
        ContentItem::InputText { text } | ContentItem::OutputText { text } => text.len(),
        ContentItem::InputImage { source, .. } => source.url().map_or(256, str::len),
        ContentItem::InputAudio { audio_url } => audio_url.len(),
        ContentItem::Unrecognized(_) => 256,
    }
}

fn output_weight(part: &FunctionCallOutputContentItem) -> usize {
    match part {
        FunctionCallOutputContentItem::InputText { text } => text.len(),
        FunctionCallOutputContentItem::InputImage { source, .. } => source.url().map_or(256, str::len),
        FunctionCallOutputContentItem::InputAudio { audio_url } => audio_url.len(),
        FunctionCallOutputContentItem::EncryptedContent { encrypted_content } => encrypted_content.len(),
        FunctionCallOutputContentItem::Unrecognized(_) => 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> ResponseItem {
        ResponseItem::Message {
            role: "user".into(),
            content: vec![ContentItem::InputText { text: text.into() }],
            end_turn: None,
            phase: None,
            id: None,
        }
    }

    fn json(history: &History) -> String {
        let chunks: Vec<_> = history.chunks().collect();
        format!("[{}]", String::from_utf8(chunks.join(&b","[..])).unwrap())
    }

    fn texts(history: &History) -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(&json(history)).unwrap();
        let items = value.as_array().unwrap().iter();
        items.map(|item| item["content"][0]["text"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_long_history_stays_a_short_list_of_shared_chunks() {
        let mut history = History::new();
        for at in 0..5000 {
            history.push(message(&format!("message {at}")));
            history.snapshot().chunks().count();
        }
        let first: Vec<_> = history.snapshot().chunks().collect();
        assert!(first.len() < 40, "{} chunks", first.len());

        history.push(message("one more"));
        let second: Vec<_> = history.snapshot().chunks().collect();
        let shared = first.iter().zip(&second).filter(|(a, b)| a.as_ptr() == b.as_ptr()).count();
        assert!(shared + 8 >= first.len(), "{shared} of {} chunks are shared", first.len());
        assert_eq!(texts(&history).len(), 5001);
    }

    #[test]
    fn joining_keeps_order_and_bytes() {
        let mut grown = History::new();
        for at in 0..300 {
            grown.push(message(&at.to_string()));
            if at % 3 == 0 {
                grown.snapshot().chunks().count();
            }
        }
        let loaded: History = (0..300).map(|at| message(&at.to_string())).collect();
        assert_eq!(json(&grown), json(&loaded));
        assert_eq!(grown.len(), 300);
    }

    #[test]
    fn items_that_are_not_sent_leave_no_commas() {
        let items =
            [ResponseItem::Other, message("a"), ResponseItem::Other, message("b"), ResponseItem::Other];
        let mut history = History::new();
        for item in items {
            history.push(item);
            history.snapshot().chunks().count();
        }
        assert_eq!(texts(&history), ["a", "b"]);
    }
}
