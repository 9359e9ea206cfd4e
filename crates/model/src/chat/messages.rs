//! The history as chat messages.
//!
//! Many chat templates reject two consecutive messages of one role, or a system message that is not the first. So
//! consecutive messages are merged, and developer messages in the middle become messages of the user. Texts are
//! merged as escaped bytes: each item is rendered once and its rendered form is inserted.
//!
//! Reasoning goes back with the tool calls that it led to, until the user writes again: DeepSeek and others refuse a
//! tool result without it, and refuse older reasoning. It goes back in the member in which it came.

use std::collections::HashMap;

use bytes::Bytes;
use codicil_protocol::{
    ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem, ReasoningItemContent, ResponseItem,
};
use serde_json::{Value, json};

use crate::{
    History, HistoryItem, ModelRequest,
    body::BodyBuilder,
    history::RenderDialect,
    joined_name,
    pairs::{ABORTED, ExchangeGroup, ToolResult, exchange, has_content, lone_output_content},
};

/// Separator between texts that were separate messages.
const SEPARATOR: &str = "\\n\\n";

/// The member of a message in which a provider sends reasoning and wants it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReasoningMember {
    ReasoningContent,
    Reasoning,
}

impl ReasoningMember {
    const ALL: [Self; 2] = [Self::ReasoningContent, Self::Reasoning];

    /// Returns the `encrypted_content` of a reasoning item from this member. Other dialects do not send such items.
    pub fn mark(self) -> &'static str {
        match self {
            Self::ReasoningContent => "chat:reasoning_content",
            Self::Reasoning => "chat:reasoning",
        }
    }

    fn name(self) -> &'static str {
        self.mark().trim_start_matches("chat:")
    }

    fn of(encrypted_content: Option<&str>) -> Option<Self> {
        Self::ALL.into_iter().find(|member| encrypted_content == Some(member.mark()))
    }
}

/// Returns whether reasoning came from a chat provider that wants it back.
pub(crate) fn is_chat_reasoning(encrypted_content: &Option<String>) -> bool {
    ReasoningMember::of(encrypted_content.as_deref()).is_some()
}

pub(super) fn write_messages(request: &ModelRequest, body: &mut BodyBuilder) {
    let exchange = exchange(&request.input, has_content);
    let reasoning = reasoning_of_calls(&request.input);
    let mut messages = ChatMessages { body, is_first: true, images: Vec::new(), reasoning };
    messages.write_system(request.instructions.json(), &exchange.preamble);
    for group in &exchange.groups {
        match group {
            ExchangeGroup::User(items) => messages.write_user(items),
            ExchangeGroup::Assistant { items, results } => messages.write_assistant(items, results),
        }
    }
    messages.write_pending_images();
}

struct ChatMessages<'b> {
    body: &'b mut BodyBuilder,
    is_first: bool,
    /// Images of tool results. A tool message holds only text, so its images follow in a message of the user.
    images: Vec<String>,
    /// The reasoning that led to a call, by the call's id.
    reasoning: HashMap<&'b str, &'b HistoryItem>,
}

/// Returns the reasoning before each tool call since the user's last message.
fn reasoning_of_calls(history: &History) -> HashMap<&str, &HistoryItem> {
    let mut reasoning_of = HashMap::new();
    let mut last = None;
    for item in history.iter() {
        match item.item() {
            ResponseItem::Reasoning { encrypted_content, .. } if is_chat_reasoning(encrypted_content) => {
                last = Some(item);
            }
            ResponseItem::FunctionCall { call_id, .. } | ResponseItem::CustomToolCall { call_id, .. } => {
                reasoning_of.extend(last.take().map(|reasoning| (call_id.as_str(), reasoning)));
            }
            ResponseItem::Message { role, .. } if role == "assistant" => {}
            ResponseItem::Message { .. } | ResponseItem::FunctionCallOutput { call_id: None, .. } => {
                reasoning_of.clear();
                last = None;
            }
            _ => {}
        }
    }
    reasoning_of
}

impl ChatMessages<'_> {
    fn begin(&mut self) -> &mut BodyBuilder {
        if !std::mem::take(&mut self.is_first) {
            self.body.raw(",");
        }
        self.body
    }

    fn write_system(&mut self, instructions: Bytes, preamble: &[&HistoryItem]) {
        let inner = instructions.slice(1..instructions.len() - 1);
        let texts: Vec<Bytes> = std::iter::once(inner)
            .chain(preamble.iter().map(|item| fragment(item)))
            .filter(|text| !text.is_empty())
            .collect();
        if !texts.is_empty() {
            self.begin().raw("{\"role\":\"system\",\"content\":\"");
            self.write_texts(texts);
            self.body.raw("\"}");
        }
    }

    fn write_user(&mut self, items: &[&HistoryItem]) {
        let needs_parts = !self.images.is_empty() || items.iter().any(|item| has_media(item.item()));
        self.begin();
        if !needs_parts {
            self.body.raw("{\"role\":\"user\",\"content\":\"");
            self.write_texts(items.iter().map(|item| fragment(item)));
            self.body.raw("\"}");
            return;
        }
        self.body.raw("{\"role\":\"user\",\"content\":[");
        let mut separator = "";
        for image in std::mem::take(&mut self.images) {
            self.body.raw(separator).json(&image_part(&image));
            separator = ",";
        }
        for item in items {
            self.body.raw(separator);
            separator = ",";
            if has_media(item.item()) {
                self.body.shared(fragment(item));
            } else {
                self.body.raw("{\"type\":\"text\",\"text\":\"").shared(fragment(item)).raw("\"}");
            }
        }
        self.body.raw("]}");
    }

    fn write_assistant(&mut self, items: &[&HistoryItem], results: &[ToolResult<'_>]) {
        self.write_pending_images();
        let (calls, texts): (Vec<&HistoryItem>, Vec<&HistoryItem>) =
            items.iter().partition(|item| is_call(item.item()));
        self.begin().raw("{\"role\":\"assistant\",\"content\":\"");
        self.write_texts(texts.into_iter().map(fragment));
        self.body.raw("\"");
        let reasoning = calls.iter().find_map(|call| self.reasoning.get(call_id(call.item())?)).copied();
        if let Some(reasoning) = reasoning {
            self.body.shared(fragment(reasoning));
        }
        for (at, call) in calls.iter().enumerate() {
            self.body.raw(if at == 0 { ",\"tool_calls\":[" } else { "," }).shared(fragment(call));
        }
        self.body.raw(if calls.is_empty() { "}" } else { "]}" });
        for result in results {
            self.write_result(result);
        }
    }

    fn write_result(&mut self, result: &ToolResult<'_>) {
        let Some(output) = result.output else {
            let message = json!({ "role": "tool", "tool_call_id": result.call_id, "content": ABORTED });
            self.begin().json(&message);
            return;
        };
        self.begin().shared(fragment(output));
        self.images.extend(match output.item() {
            ResponseItem::FunctionCallOutput { output, .. }
            | ResponseItem::CustomToolCallOutput { output, .. } => output_images(output),
            _ => Vec::new(),
        });
    }

    fn write_pending_images(&mut self) {
        if !self.images.is_empty() {
            self.write_user(&[]);
        }
    }

    fn write_texts(&mut self, texts: impl IntoIterator<Item = Bytes>) {
        for (at, text) in texts.into_iter().enumerate() {
            if at > 0 {
                self.body.raw(SEPARATOR);
            }
            self.body.shared(text);
        }
    }
}

fn fragment(item: &HistoryItem) -> Bytes {
    item.fragment(RenderDialect::Chat, render)
}

/// Renders an item's part of a message: escaped text without quotes, content parts if it has images or audio, a
/// tool call, the member with the reasoning, or the whole message of a result.
fn render(item: &ResponseItem) -> Vec<u8> {
    match item {
        ResponseItem::Message { content, .. } => render_content(content),
        ResponseItem::Reasoning { content, encrypted_content, .. } => {
            let Some(member) = ReasoningMember::of(encrypted_content.as_deref()) else { return Vec::new() };
            let texts = content.iter().flatten().filter_map(|part| match part {
                ReasoningItemContent::ReasoningText { text } | ReasoningItemContent::Text { text } => {
                    Some(text.as_str())
                }
                ReasoningItemContent::Unrecognized(_) => None,
            });
            format!(",\"{}\":{}", member.name(), Value::from(texts.collect::<String>())).into_bytes()
        }
        ResponseItem::FunctionCall { name, namespace, arguments, call_id, .. } => {
            call(call_id, &joined_name(namespace.as_deref(), name), arguments)
        }
        ResponseItem::CustomToolCall { name, input, call_id, .. } => {
            call(call_id, name, &json!({ "input": input }).to_string())
        }
        ResponseItem::FunctionCallOutput { call_id: None, .. } => {
            render_content(&lone_output_content(item).unwrap_or_default())
        }
        ResponseItem::FunctionCallOutput { call_id: Some(call_id), output, .. }
        | ResponseItem::CustomToolCallOutput { call_id, output, .. } => {
            let content = output_text(output);
            json!({ "role": "tool", "tool_call_id": call_id, "content": content }).to_string().into_bytes()
        }
        _ => Vec::new(),
    }
}

fn render_content(content: &[ContentItem]) -> Vec<u8> {
    if content.iter().any(is_media) {
        let parts: Vec<String> = content.iter().filter_map(part).map(|part| part.to_string()).collect();
        return parts.join(",").into_bytes();
    }
    let texts: Vec<&str> = content.iter().filter_map(text).filter(|text| !text.is_empty()).collect();
    escaped(&texts.join("\n\n"))
}

fn call(id: &str, name: &str, arguments: &str) -> Vec<u8> {
    // Chat templates parse the arguments. Invalid JSON would break every later request.
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(arguments).is_ok();
    let arguments = if is_json { arguments.to_owned() } else { json!({ "input": arguments }).to_string() };
    let function = json!({ "name": name, "arguments": arguments });
    json!({ "id": id, "type": "function", "function": function }).to_string().into_bytes()
}

fn escaped(text: &str) -> Vec<u8> {
    let mut json = serde_json::to_vec(text).unwrap_or_default();
    json.pop();
    if !json.is_empty() {
        json.remove(0);
    }
    json
}

fn text(part: &ContentItem) -> Option<&str> {
    match part {
        ContentItem::InputText { text } | ContentItem::OutputText { text } => Some(text),
        ContentItem::InputImage { .. } | ContentItem::InputAudio { .. } | ContentItem::Unrecognized(_) => {
            None
        }
    }
}

fn part(part: &ContentItem) -> Option<Value> {
    match part {
        ContentItem::InputImage { source, .. } => Some(match source.url() {
            Some(url) => image_part(url),
            None => text_part("(an image that only another provider has)"),
        }),
        ContentItem::InputAudio { audio_url } => Some(audio_part(audio_url)),
        other => {
            text(other).filter(|text| !text.is_empty()).map(|text| json!({"type": "text", "text": text}))
        }
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Builds an audio part. The API takes the content of WAV and MP3 files, and no URLs.
fn audio_part(url: &str) -> Value {
    let data = url.strip_prefix("data:audio/").and_then(|rest| rest.split_once(";base64,"));
    let format = match data.map(|(kind, _)| kind) {
        Some("wav" | "x-wav" | "wave") => "wav",
        Some("mpeg" | "mp3") => "mp3",
        _ => return text_part("(audio that this model cannot hear)"),
    };
    let data = data.map_or("", |(_, data)| data);
    json!({ "type": "input_audio", "input_audio": { "data": data, "format": format } })
}

fn image_part(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

/// Returns whether [`render`] returns content parts for an item of the user.
fn has_media(item: &ResponseItem) -> bool {
    match item {
        ResponseItem::Message { content, .. } => content.iter().any(is_media),
        _ => lone_output_content(item).iter().flatten().any(is_media),
    }
}

fn is_media(part: &ContentItem) -> bool {
    matches!(part, ContentItem::InputImage { .. } | ContentItem::InputAudio { .. })
}

fn is_call(item: &ResponseItem) -> bool {
    call_id(item).is_some()
}

fn call_id(item: &ResponseItem) -> Option<&str> {
    match item {
        ResponseItem::FunctionCall { call_id, .. } | ResponseItem::CustomToolCall { call_id, .. } => {
            Some(call_id)
        }
        _ => None,
    }
}

/// Returns the text of a tool message. Some providers reject an empty one.
fn output_text(output: &FunctionCallOutputBody) -> String {
    let text = output.text();
    if !text.is_empty() || matches!(output, FunctionCallOutputBody::Text(_)) {
        return text;
    }
    if output_images(output).is_empty() {
        return "(the result has no text)".to_owned();
    }
    "(the result is an image, which follows)".to_owned()
}

fn output_images(output: &FunctionCallOutputBody) -> Vec<String> {
    let FunctionCallOutputBody::Content(parts) = output else { return Vec::new() };
    parts
        .iter()
        .filter_map(|part| match part {
            FunctionCallOutputContentItem::InputImage { source, .. } => source.url().map(str::to_owned),
            _ => None,
        })
        .collect()
}
