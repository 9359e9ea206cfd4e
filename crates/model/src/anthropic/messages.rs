//! The history as Anthropic's messages: lists of content blocks with alternating roles.
//!
//! Thinking is signed and must be sent back unchanged. It is stored as a reasoning item whose `encrypted_content`
//! is the signature with a prefix. The prefix keeps other providers from receiving it; reasoning without the
//! prefix came from another provider and is not sent here.

use bytes::Bytes;
use codicil_protocol::{
    ContentImage, ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem,
    ReasoningItemReasoningSummary, ResponseItem,
};
use serde_json::{Value, json};

use crate::{
    History, HistoryItem, ModelRequest,
    body::BodyBuilder,
    history::RenderDialect,
    http::BodyExtent,
    joined_name,
    pairs::{ABORTED, ExchangeGroup, HistoryExchange, exchange, has_content, lone_output_content},
};

pub(super) const SIGNED: &str = "anthropic:";
pub(super) const REDACTED: &str = "anthropic-redacted:";

/// Text of a message that is inserted where the API requires one of the user: at the start and at the end.
const FILLER: &str = "Continue.";

/// Returns whether reasoning was signed by Anthropic.
pub(crate) fn is_signed_reasoning(encrypted_content: &Option<String>) -> bool {
    encrypted_content.as_ref().is_some_and(|text| text.starts_with(SIGNED) || text.starts_with(REDACTED))
}

/// Groups the history into messages; with [`BodyExtent::Reduced`], without thinking.
pub(super) fn conversation(history: &History, extent: BodyExtent) -> HistoryExchange<'_> {
    exchange(history, move |item| match item {
        ResponseItem::Reasoning { encrypted_content, .. } => {
            extent == BodyExtent::Full && is_signed_reasoning(encrypted_content)
        }
        item => has_content(item),
    })
}

/// Writes the `system` member: the instructions, the developer's first messages and `more`.
pub(super) fn write_system(
    request: &ModelRequest,
    conversation: &HistoryExchange<'_>,
    more: Option<String>,
    body: &mut BodyBuilder,
) {
    let mut blocks = Vec::new();
    if !request.instructions.text().is_empty() {
        let text = request.instructions.json();
        let mut block = Vec::with_capacity(text.len() + 32);
        block.extend_from_slice(b"{\"type\":\"text\",\"text\":");
        block.extend_from_slice(&text);
        block.push(b'}');
        blocks.push(Bytes::from(block));
    }
    blocks.extend(conversation.preamble.iter().map(|item| fragment(item)));
    blocks.extend(more.map(|text| Bytes::from(text_block(&text).to_string())));
    if blocks.is_empty() {
        return;
    }
    body.raw(",\"system\":[");
    write_blocks(&blocks, CacheBreakpoint::AtEnd, body);
    body.raw("]");
}

/// Writes the elements of `messages`.
pub(super) fn write_messages(conversation: HistoryExchange<'_>, body: &mut BodyBuilder) {
    let mut messages = AnthropicMessages::default();
    for group in conversation.groups {
        match group {
            ExchangeGroup::User(items) => {
                messages.add(MessageRole::User, items.iter().map(|item| fragment(item)))
            }
            ExchangeGroup::Assistant { items, results } => {
                messages.add(MessageRole::Assistant, items.iter().map(|item| fragment(item)));
                let results = results.iter().map(|result| match result.output {
                    Some(output) => fragment(output),
                    None => tool_result(result.call_id, &ABORTED.into()).to_string().into(),
                });
                messages.add(MessageRole::User, results);
            }
        }
    }
    messages.write(body);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessageRole {
    User,
    Assistant,
}

/// Whether the provider should cache everything up to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheBreakpoint {
    None,
    AtEnd,
}

#[derive(Default)]
struct AnthropicMessages(Vec<(MessageRole, Vec<Bytes>)>);

impl AnthropicMessages {
    /// Adds blocks to the last message if it has the same role, otherwise a new message.
    fn add(&mut self, role: MessageRole, blocks: impl Iterator<Item = Bytes>) {
        let blocks = blocks.filter(|block| !block.is_empty());
        match self.0.last_mut() {
            Some((last, before)) if *last == role => before.extend(blocks),
            _ => {
                let blocks: Vec<Bytes> = blocks.collect();
                if !blocks.is_empty() {
                    self.0.push((role, blocks));
                }
            }
        }
    }

    fn write(mut self, body: &mut BodyBuilder) {
        let filler = || (MessageRole::User, vec![Bytes::from(text_block(FILLER).to_string())]);
        if self.0.first().is_none_or(|(role, _)| *role == MessageRole::Assistant) {
            self.0.insert(0, filler());
        }
        if self.0.last().is_some_and(|(role, _)| *role == MessageRole::Assistant) {
            self.0.push(filler());
        }
        // Breakpoints at the last two messages of the user: one to hit the cache of the previous request, one
        // for the next request.
        let first_marked = self.0.len().saturating_sub(3);
        for (at, (role, blocks)) in self.0.iter().enumerate() {
            let is_marked = *role == MessageRole::User && at >= first_marked;
            let role = if *role == MessageRole::User { "user" } else { "assistant" };
            body.raw(if at > 0 { "," } else { "" }).raw("{\"role\":\"").raw(role).raw("\",\"content\":[");
            write_blocks(
                blocks,
                if is_marked { CacheBreakpoint::AtEnd } else { CacheBreakpoint::None },
                body,
            );
            body.raw("]}");
        }
    }
}

fn write_blocks(blocks: &[Bytes], breakpoint: CacheBreakpoint, body: &mut BodyBuilder) {
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            body.raw(",");
        }
        if breakpoint == CacheBreakpoint::AtEnd && at + 1 == blocks.len() {
            // Every block is an object: the breakpoint becomes its first member.
            body.raw("{\"cache_control\":{\"type\":\"ephemeral\"},").shared(block.slice(1..));
        } else {
            body.shared(block.clone());
        }
    }
}

fn fragment(item: &HistoryItem) -> Bytes {
    item.fragment(RenderDialect::Anthropic, render)
}

/// Renders an item's content blocks, separated by commas.
fn render(item: &ResponseItem) -> Vec<u8> {
    let blocks: Vec<Value> = match item {
        ResponseItem::Message { content, .. } => content.iter().filter_map(content_block).collect(),
        ResponseItem::Reasoning { summary, encrypted_content, .. } => {
            thinking_block(summary, encrypted_content.as_deref().unwrap_or_default()).into_iter().collect()
        }
        ResponseItem::FunctionCall { name, namespace, arguments, call_id, .. } => {
            let name = joined_name(namespace.as_deref(), name);
            vec![tool_use(call_id, &name, arguments_object(arguments))]
        }
        ResponseItem::CustomToolCall { name, input, call_id, .. } => {
            vec![tool_use(call_id, name, json!({ "input": input }))]
        }
        ResponseItem::FunctionCallOutput { call_id: None, .. } => {
            lone_output_content(item).iter().flatten().filter_map(content_block).collect()
        }
        ResponseItem::FunctionCallOutput { call_id: Some(call_id), output, .. }
        | ResponseItem::CustomToolCallOutput { call_id, output, .. } => {
            vec![tool_result(call_id, &output_content(output))]
        }
        _ => Vec::new(),
    };
    let blocks: Vec<String> = blocks.iter().map(Value::to_string).collect();
    blocks.join(",").into_bytes()
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn content_block(part: &ContentItem) -> Option<Value> {
    match part {
        ContentItem::InputText { text } | ContentItem::OutputText { text } => {
            (!text.is_empty()).then(|| text_block(text))
        }
        ContentItem::InputImage { source, .. } => Some(image_or_note(source)),
        ContentItem::InputAudio { .. } => Some(text_block("(audio that this model cannot hear)")),
        ContentItem::Unrecognized(_) => None,
    }
}

fn image_or_note(source: &ContentImage) -> Value {
    match source.url() {
        Some(url) => image_block(url),
        None => text_block("(an image that only another provider has)"),
    }
}

/// Builds an image block. The content of a data URL is sent; any other URL is fetched by the provider.
fn image_block(url: &str) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let source = match data {
        Some((media_type, data)) => json!({ "type": "base64", "media_type": media_type, "data": data }),
        None => json!({ "type": "url", "url": url }),
    };
    json!({ "type": "image", "source": source })
}

fn thinking_block(summary: &[ReasoningItemReasoningSummary], encrypted: &str) -> Option<Value> {
    if let Some(data) = encrypted.strip_prefix(REDACTED) {
        return Some(json!({ "type": "redacted_thinking", "data": data }));
    }
    let signature = encrypted.strip_prefix(SIGNED)?;
    let text = summary.first().and_then(|part| match part {
        ReasoningItemReasoningSummary::SummaryText { text } => Some(text.as_str()),
        ReasoningItemReasoningSummary::Unrecognized(_) => None,
    });
    Some(json!({ "type": "thinking", "thinking": text.unwrap_or_default(), "signature": signature }))
}

fn tool_use(call_id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": accepted_id(call_id), "name": name, "input": input })
}

fn tool_result(call_id: &str, content: &Value) -> Value {
    json!({ "type": "tool_result", "tool_use_id": accepted_id(call_id), "content": content })
}

/// Replaces characters that the API rejects in ids, which may come from other providers.
fn accepted_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Returns the arguments as an object, whatever the model wrote.
fn arguments_object(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(members)) => members.into(),
        _ if arguments.trim().is_empty() => json!({}),
        _ => json!({ "input": arguments }),
    }
}

fn output_content(output: &FunctionCallOutputBody) -> Value {
    let block = |part: &FunctionCallOutputContentItem| match part {
        FunctionCallOutputContentItem::InputText { text } => (!text.is_empty()).then(|| text_block(text)),
        FunctionCallOutputContentItem::InputImage { source, .. } => Some(image_or_note(source)),
        FunctionCallOutputContentItem::InputAudio { .. } => {
            Some(text_block("(audio that this model cannot hear)"))
        }
        FunctionCallOutputContentItem::EncryptedContent { .. }
        | FunctionCallOutputContentItem::Unrecognized(_) => None,
    };
    match output {
        FunctionCallOutputBody::Text(text) => text.as_str().into(),
        FunctionCallOutputBody::Content(parts) => parts.iter().filter_map(block).collect(),
    }
}
