//! The decoder of a Messages stream. Content blocks become items; each is found by its index, since blocks may
//! overlap. Tool calls are emitted once the stop reason is known, because a truncated response may end within one.

use std::{borrow::Cow, collections::BTreeMap, time::Duration};

use codicil_protocol::{ItemId, ResponseItem, TokenUsageBreakdown};
use serde::Deserialize;
use serde_json::Value;

use super::messages::{REDACTED, SIGNED};
use crate::{
    ModelError, ModelEvent,
    event::{CalledTool, message, new_item_id, reasoning},
    response_limits::GatheredText,
    status::unexpected_document,
    stream::{END_TIME, EventDecoder, event_name},
    wire_json::{TextJoiner, WireText, read_event, token_count},
};

pub(crate) struct AnthropicDecoder {
    custom_tools: Vec<String>,
    response_id: String,
    usage: AnthropicUsage,
    blocks: BTreeMap<i64, OpenBlock>,
    /// Index of the block that started last, for gateways that omit indices.
    last_index: i64,
    calls: Vec<(ItemId, ResponseItem)>,
    gathered: GatheredText,
    stop_reason: Option<String>,
    is_complete: bool,
}

/// A content block that is being received.
struct OpenBlock {
    joiner: TextJoiner,
    content: BlockContent,
}

enum BlockContent {
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
            blocks: BTreeMap::new(),
            last_index: 0,
            calls: Vec::new(),
            gathered: GatheredText::default(),
            stop_reason: None,
            is_complete: false,
        }
    }
}

impl EventDecoder for AnthropicDecoder {
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match &*event_name(name, data)? {
            b"content_block_delta" => {
                let event: BlockDelta<'_> = read_event(data)?;
                self.delta(event.index.unwrap_or(self.last_index), event.delta, out)
            }
            b"content_block_start" => {
                let event: BlockStart = read_event(data)?;
                let index = event.index.unwrap_or_else(|| self.last_index.saturating_add(1));
                self.start_block(index, event.content_block, out)
            }
            b"content_block_stop" => {
                let event: BlockStop = read_event(data)?;
                self.finish_block(event.index.unwrap_or(self.last_index), out)
            }
            b"message_start" => {
                let event: MessageStart = read_event(data)?;
                self.response_id = event.message.id;
                self.usage.merge(event.message.usage.unwrap_or_default());
                Ok(())
            }
            b"message_delta" => {
                let event: MessageDelta = read_event(data)?;
                self.usage.merge(event.usage.unwrap_or_default());
                self.stop_reason = event.delta.stop_reason.or(self.stop_reason.take());
                Ok(())
            }
            b"message_stop" => self.finish(out),
            b"error" => Err(unexpected_document(data)),
            _ => Ok(()),
        }
    }

    fn document(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let message: WholeMessage = read_event(data)?;
        let Some(blocks) = message.content else { return Err(unexpected_document(data)) };
        self.response_id = message.id;
        self.usage.merge(message.usage.unwrap_or_default());
        self.stop_reason = message.stop_reason;
        for (index, block) in (0..).zip(blocks) {
            self.start_block(index, block, out)?;
            self.finish_block(index, out)?;
        }
        self.finish(out)
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.stop_reason.is_some() {
            return self.finish(out);
        }
        Err(ModelError::Disconnected("stream closed before message_stop".to_owned()))
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn end_time(&self) -> Option<Duration> {
        self.stop_reason.is_some().then_some(END_TIME)
    }
}

impl AnthropicDecoder {
    fn start_block(
        &mut self,
        index: i64,
        block: StartedBlock,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        self.last_index = index;
        // Gateways that omit the end of a block end it with the start of the next one of its index.
        self.finish_block(index, out)?;
        self.gathered.check_items(self.blocks.len())?;
        let content = match block.kind.as_str() {
            "text" => {
                let id = new_item_id("msg");
                out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(message(&id, None)) });
                BlockContent::Text { id, text: String::new() }
            }
            "thinking" => {
                let id = new_item_id("rs");
                out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(reasoning(None, None)) });
                BlockContent::Thinking { id, text: String::new(), signature: String::new() }
            }
            "redacted_thinking" => {
                let id = new_item_id("rs");
                out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(reasoning(None, None)) });
                BlockContent::Redacted { id, data: block.data.unwrap_or_default() }
            }
            "tool_use" => {
                // The input usually follows in fragments; some gateways send it here.
                let input = block.input.filter(|input| input.as_object().is_some_and(|o| !o.is_empty()));
                BlockContent::Tool(CalledTool {
                    call_id: block.id.unwrap_or_else(|| new_item_id("toolu").to_string()),
                    name: block.name.unwrap_or_default(),
                    arguments: input.map(|input| input.to_string()).unwrap_or_default(),
                })
            }
            _ => return Ok(()),
        };
        self.blocks.insert(index, OpenBlock { joiner: TextJoiner::default(), content });
        // A block may start with its content.
        let first = ContentDelta {
            text: block.text.map(WireText::from),
            thinking: block.thinking.map(WireText::from),
            signature: block.signature.map(Cow::Owned),
            partial_json: None,
        };
        self.delta(index, first, out)
    }

    fn delta(
        &mut self,
        index: i64,
        delta: ContentDelta<'_>,
        out: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let Some(OpenBlock { joiner, content }) = self.blocks.get_mut(&index) else { return Ok(()) };
        match content {
            BlockContent::Text { id, text } => {
                let delta = delta.text.map(|delta| joiner.join(delta)).filter(|delta| !delta.is_empty());
                if let Some(delta) = delta {
                    text.push_str(&delta);
                    out.push(ModelEvent::TextDelta { item_id: id.clone(), delta });
                }
            }
            BlockContent::Thinking { id, text, signature } => {
                let thinking = delta.thinking.map(|delta| joiner.join(delta));
                if let Some(delta) = thinking.filter(|delta| !delta.is_empty()) {
                    if text.is_empty() {
                        out.push(ModelEvent::ReasoningSummaryPartAdded { item_id: id.clone(), index: 0 });
                    }
                    text.push_str(&delta);
                    out.push(ModelEvent::ReasoningSummaryDelta { item_id: id.clone(), index: 0, delta });
                }
                self.gathered.append(signature, &delta.signature.unwrap_or_default())?;
            }
            BlockContent::Tool(call) => {
                let fragment = delta.partial_json.map(|delta| joiner.join(delta)).unwrap_or_default();
                self.gathered.append(&mut call.arguments, &fragment)?;
            }
            BlockContent::Redacted { .. } => {}
        }
        Ok(())
    }

    fn finish_block(&mut self, index: i64, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let Some(OpenBlock { mut joiner, content }) = self.blocks.remove(&index) else { return Ok(()) };
        let half = joiner.finish().unwrap_or_default();
        match content {
            BlockContent::Text { id, text } => {
                let item = Box::new(message(&id, Some(text + &half)));
                out.push(ModelEvent::ItemDone { id, item });
            }
            BlockContent::Thinking { id, text, signature } => {
                let encrypted = (!signature.is_empty()).then(|| format!("{SIGNED}{signature}"));
                let text = Some(text + &half).filter(|text| !text.is_empty());
                out.push(ModelEvent::ItemDone { id, item: Box::new(reasoning(text, encrypted)) });
            }
            BlockContent::Redacted { id, data } => {
                let item = Box::new(reasoning(None, Some(format!("{REDACTED}{data}"))));
                out.push(ModelEvent::ItemDone { id, item });
            }
            BlockContent::Tool(mut call) => {
                self.gathered.check_items(self.calls.len())?;
                call.arguments.push_str(&half);
                self.calls.push(call.into_item(&self.custom_tools));
            }
        }
        Ok(())
    }

    /// Emits what is left and the completion, or the error of an incomplete response.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        while let Some(index) = self.blocks.keys().next().copied() {
            self.finish_block(index, out)?;
        }
        let error = match self.stop_reason.as_deref() {
            Some("max_tokens") => Some(ModelError::Incomplete("max_output_tokens".to_owned())),
            Some("refusal") => Some(ModelError::Incomplete("refusal".to_owned())),
            Some("model_context_window_exceeded") => {
                Some(ModelError::ContextWindowExceeded { details: None })
            }
            _ => None,
        };
        if let Some(error) = error {
            out.push(ModelEvent::Used(self.usage.breakdown()));
            return Err(error);
        }
        let calls = self.calls.drain(..);
        out.extend(calls.map(|(id, item)| ModelEvent::ItemDone { id, item: Box::new(item) }));
        let response_id = std::mem::take(&mut self.response_id);
        out.push(ModelEvent::Completed { response_id, usage: Some(self.usage.breakdown()) });
        self.is_complete = true;
        Ok(())
    }
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    index: Option<i64>,
    #[serde(borrow)]
    delta: ContentDelta<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContentDelta<'a> {
    #[serde(borrow)]
    text: Option<WireText<'a>>,
    #[serde(borrow)]
    thinking: Option<WireText<'a>>,
    #[serde(borrow)]
    signature: Option<Cow<'a, str>>,
    #[serde(borrow)]
    partial_json: Option<WireText<'a>>,
}

#[derive(Deserialize)]
struct BlockStart {
    index: Option<i64>,
    content_block: StartedBlock,
}

#[derive(Deserialize)]
struct BlockStop {
    index: Option<i64>,
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
    thinking: Option<String>,
    signature: Option<String>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: MessageHead,
}

#[derive(Deserialize)]
struct MessageHead {
    #[serde(default)]
    id: String,
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: StopDetails,
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
struct StopDetails {
    stop_reason: Option<String>,
}

/// A response that is not streamed.
#[derive(Deserialize)]
struct WholeMessage {
    #[serde(default)]
    id: String,
    content: Option<Vec<StartedBlock>>,
    stop_reason: Option<String>,
    usage: Option<AnthropicUsage>,
}

/// The token counts so far. Later events repeat some of them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicUsage {
    #[serde(deserialize_with = "token_count")]
    input_tokens: Option<i64>,
    #[serde(deserialize_with = "token_count")]
    cache_read_input_tokens: Option<i64>,
    #[serde(deserialize_with = "token_count")]
    cache_creation_input_tokens: Option<i64>,
    #[serde(deserialize_with = "token_count")]
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
            cache_write_input_tokens: cache_written,
            output_tokens: output,
            reasoning_output_tokens: 0,
        }
    }
}
