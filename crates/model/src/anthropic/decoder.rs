//! The decoder of a Messages stream. Content blocks arrive one after the other and become items. Tool calls are
//! emitted once the stop reason is known, because a truncated response may end within one.

use std::borrow::Cow;

use codicil_protocol::{ItemId, ResponseItem, TokenUsageBreakdown};
use serde::Deserialize;
use serde_json::Value;

use super::messages::{REDACTED, SIGNED};
use crate::{
    ModelError, ModelEvent,
    event::{CalledTool, message, new_item_id, reasoning},
    response_limits::GatheredText,
    stream::{EventDecoder, event_name},
};

pub(super) struct AnthropicDecoder {
    custom_tools: Vec<String>,
    response_id: String,
    usage: AnthropicUsage,
    block: OpenBlock,
    calls: Vec<(ItemId, ResponseItem)>,
    gathered: GatheredText,
    is_complete: bool,
}

/// The content block that is being received.
enum OpenBlock {
    None,
    Text { id: ItemId, text: String },
    Thinking { id: ItemId, text: String, signature: String },
    Redacted { id: ItemId, data: String },
    Tool(CalledTool),
}

impl AnthropicDecoder {
    pub fn new(custom_tools: Vec<String>) -> Self {
        Self {
            custom_tools,
            response_id: String::new(),
            usage: AnthropicUsage::default(),
            block: OpenBlock::None,
            calls: Vec::new(),
            gathered: GatheredText::default(),
            is_complete: false,
        }
    }
}

impl EventDecoder for AnthropicDecoder {
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match &*event_name(name, data) {
            b"content_block_delta" => {
                if let Some(event) = read::<BlockDelta<'_>>(data) {
                    self.delta(event.delta, out)?;
                }
            }
            b"content_block_start" => {
                if let Some(event) = read::<BlockStart>(data) {
                    self.start_block(event.content_block, out)?;
                }
            }
            b"content_block_stop" => self.finish_block(out)?,
            b"message_start" => {
                if let Some(event) = read::<MessageStart>(data) {
                    self.response_id = event.message.id;
                    self.usage.merge(event.message.usage);
                }
            }
            b"message_delta" => {
                if let Some(event) = read::<MessageDelta>(data) {
                    self.usage.merge(event.usage);
                    return self.on_stop_reason(event.delta.stop_reason.as_deref(), out);
                }
            }
            b"message_stop" => {
                self.emit_calls(out);
                let response_id = std::mem::take(&mut self.response_id);
                out.push(ModelEvent::Completed { response_id, usage: Some(self.usage.breakdown()) });
                self.is_complete = true;
            }
            b"error" => return Err(failure(read::<FailedEvent>(data).unwrap_or_default().error)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        Err(ModelError::Disconnected("stream closed before message_stop".to_owned()))
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl AnthropicDecoder {
    fn start_block(&mut self, block: StartedBlock, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.block = match block.kind.as_str() {
            "text" => {
                let id = new_item_id("msg");
                out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(message(&id, None)) });
                OpenBlock::Text { id, text: String::new() }
            }
            "thinking" => {
                let id = new_item_id("rs");
                out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(reasoning(None, None)) });
                OpenBlock::Thinking { id, text: String::new(), signature: String::new() }
            }
            "redacted_thinking" => {
                let id = new_item_id("rs");
                out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(reasoning(None, None)) });
                OpenBlock::Redacted { id, data: block.data.unwrap_or_default() }
            }
            "tool_use" => {
                // The input usually follows in fragments; some gateways send it here.
                let input = block.input.filter(|input| input.as_object().is_some_and(|o| !o.is_empty()));
                OpenBlock::Tool(CalledTool {
                    call_id: block.id.unwrap_or_else(|| new_item_id("toolu").to_string()),
                    name: block.name.unwrap_or_default(),
                    arguments: input.map(|input| input.to_string()).unwrap_or_default(),
                })
            }
            _ => OpenBlock::None,
        };
        if let Some(text) = block.text.filter(|text| !text.is_empty()) {
            self.delta(ContentDelta { text: Some(text.into()), ..ContentDelta::default() }, out)?;
        }
        Ok(())
    }

    fn delta(&mut self, delta: ContentDelta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match &mut self.block {
            OpenBlock::Text { id, text } => {
                if let Some(delta) = delta.text {
                    text.push_str(&delta);
                    out.push(ModelEvent::TextDelta { item_id: id.clone(), delta: delta.into_owned() });
                }
            }
            OpenBlock::Thinking { id, text, signature } => {
                if let Some(delta) = delta.thinking.filter(|delta| !delta.is_empty()) {
                    if text.is_empty() {
                        out.push(ModelEvent::ReasoningSummaryPartAdded { item_id: id.clone(), index: 0 });
                    }
                    text.push_str(&delta);
                    out.push(ModelEvent::ReasoningSummaryDelta {
                        item_id: id.clone(),
                        index: 0,
                        delta: delta.into_owned(),
                    });
                }
                self.gathered.append(signature, &delta.signature.unwrap_or_default())?;
            }
            OpenBlock::Tool(call) => {
                self.gathered.append(&mut call.arguments, &delta.partial_json.unwrap_or_default())?;
            }
            OpenBlock::Redacted { .. } | OpenBlock::None => {}
        }
        Ok(())
    }

    fn finish_block(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match std::mem::replace(&mut self.block, OpenBlock::None) {
            OpenBlock::Text { id, text } => {
                let item = Box::new(message(&id, Some(text)));
                out.push(ModelEvent::ItemDone { id, item });
            }
            OpenBlock::Thinking { id, text, signature } => {
                let encrypted = (!signature.is_empty()).then(|| format!("{SIGNED}{signature}"));
                let item = Box::new(reasoning(Some(text).filter(|text| !text.is_empty()), encrypted));
                out.push(ModelEvent::ItemDone { id, item });
            }
            OpenBlock::Redacted { id, data } => {
                let item = Box::new(reasoning(None, Some(format!("{REDACTED}{data}"))));
                out.push(ModelEvent::ItemDone { id, item });
            }
            OpenBlock::Tool(call) => {
                self.gathered.check_items(self.calls.len())?;
                self.calls.push(call.into_item(&self.custom_tools));
            }
            OpenBlock::None => {}
        }
        Ok(())
    }

    fn emit_calls(&mut self, out: &mut Vec<ModelEvent>) {
        let calls = self.calls.drain(..);
        out.extend(calls.map(|(id, item)| ModelEvent::ItemDone { id, item: Box::new(item) }));
    }

    fn on_stop_reason(&mut self, reason: Option<&str>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match reason {
            Some("max_tokens") => Err(ModelError::Incomplete("max_output_tokens".to_owned())),
            Some("refusal") => Err(ModelError::Incomplete("refusal".to_owned())),
            Some("model_context_window_exceeded") => Err(ModelError::ContextWindowExceeded),
            Some(_) => {
                self.emit_calls(out);
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn failure(error: ErrorBody) -> ModelError {
    match error.kind.as_str() {
        "overloaded_error" => ModelError::Overloaded { retry_after: None },
        "rate_limit_error" => ModelError::RateLimited { retry_after: None, request_id: None },
        "invalid_request_error" => ModelError::InvalidPrompt(error.message),
        "billing_error" => ModelError::QuotaExceeded,
        _ => ModelError::Failed { code: error.kind, message: error.message, retry_after: None },
    }
}

fn read<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Option<T> {
    serde_json::from_slice(data).inspect_err(|error| tracing::debug!(%error, "skipped an invalid event")).ok()
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    #[serde(borrow)]
    delta: ContentDelta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContentDelta<'a> {
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    thinking: Option<Cow<'a, str>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct BlockStart {
    content_block: StartedBlock,
}

#[derive(Deserialize)]
struct StartedBlock {
    #[serde(rename = "type")]
    kind: String,
    id: Option<String>,
    name: Option<String>,
    input: Option<Value>,
    data: Option<String>,
    text: Option<String>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: MessageHead,
}

#[derive(Deserialize)]
struct MessageHead {
    #[serde(default)]
    id: String,
    #[serde(default)]
    usage: AnthropicUsage,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: StopDetails,
    #[serde(default)]
    usage: AnthropicUsage,
}

#[derive(Deserialize)]
struct StopDetails {
    stop_reason: Option<String>,
}

#[derive(Default, Deserialize)]
struct FailedEvent {
    error: ErrorBody,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

/// The token counts so far. Later events repeat some of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicUsage {
    input_tokens: Option<i64>,
    cache_read_input_tokens: Option<i64>,
    cache_creation_input_tokens: Option<i64>,
    output_tokens: Option<i64>,
}

impl AnthropicUsage {
    fn merge(&mut self, later: Self) {
        self.input_tokens = later.input_tokens.or(self.input_tokens);
        self.cache_read_input_tokens = later.cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens =
            later.cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
    }

    /// Converts the counts. The API counts cached tokens separately; the protocol includes them in the input.
    fn breakdown(&self) -> TokenUsageBreakdown {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let cache_written = self.cache_creation_input_tokens.unwrap_or(0);
        let input = self.input_tokens.unwrap_or(0).saturating_add(cached).saturating_add(cache_written);
        let output = self.output_tokens.unwrap_or(0);
        TokenUsageBreakdown {
            total_tokens: input.saturating_add(output),
            input_tokens: input,
            cached_input_tokens: cached,
            output_tokens: output,
            reasoning_output_tokens: 0,
        }
    }
}
