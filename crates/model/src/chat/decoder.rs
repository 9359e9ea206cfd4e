//! The decoder of a Chat Completions stream, which assembles items from chunks.
//!
//! Servers differ: ids may be missing or repeated, arguments may be an object, the usage and the final `[DONE]`
//! may be missing. A response is complete once a finish reason arrived. Calls are emitted only then, because
//! before that their arguments may be truncated.

use std::borrow::Cow;

use codicil_protocol::{ItemId, ReasoningItemContent, ResponseItem, TokenUsageBreakdown};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::{
    ModelError, ModelEvent,
    event::{CalledTool, message, new_item_id},
    response_limits::GatheredText,
    status::delay_in_message,
    stream::EventDecoder,
};

pub(super) struct ChatDecoder {
    custom_tools: Vec<String>,
    response_id: Option<String>,
    message: Option<OpenText>,
    reasoning: Option<OpenText>,
    calls: Vec<PartialCall>,
    gathered: GatheredText,
    usage: Option<TokenUsageBreakdown>,
    finish_reason: Option<String>,
    is_complete: bool,
}

/// An item whose text is incomplete.
struct OpenText {
    id: ItemId,
    text: String,
}

/// A tool call assembled from fragments.
struct PartialCall {
    index: Option<i64>,
    id: String,
    name: String,
    arguments: String,
}

impl ChatDecoder {
    pub fn new(custom_tools: Vec<String>) -> Self {
        Self {
            custom_tools,
            response_id: None,
            message: None,
            reasoning: None,
            calls: Vec::new(),
            gathered: GatheredText::default(),
            usage: None,
            finish_reason: None,
            is_complete: false,
        }
    }
}

impl EventDecoder for ChatDecoder {
    fn event(&mut self, _: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if data == b"[DONE]" {
            return self.finish(out);
        }
        let chunk: ChatChunk<'_> = match serde_json::from_slice(data) {
            Ok(chunk) => chunk,
            Err(error) => {
                tracing::debug!(%error, "skipped an invalid chunk");
                return Ok(());
            }
        };
        if let Some(error) = chunk.error {
            return Err(failure(&error));
        }
        if self.response_id.is_none() {
            self.response_id = chunk.id.map(Cow::into_owned);
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage.into());
        }
        for choice in chunk.choices.into_iter().flatten() {
            if let Some(delta) = choice.delta {
                self.delta(delta, out)?;
            }
            if let Some(reason) = choice.finish_reason {
                self.finish_reason = Some(reason.into_owned());
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if self.finish_reason.is_some() {
            return self.finish(out);
        }
        Err(ModelError::Disconnected("stream closed before the answer was finished".to_owned()))
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }

    fn is_finishing(&self) -> bool {
        self.finish_reason.is_some()
    }
}

impl ChatDecoder {
    fn delta(&mut self, delta: ChatDelta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let reasoning = delta.reasoning_content.or(delta.reasoning).filter(|text| !text.is_empty());
        if let Some(text) = reasoning {
            self.add_reasoning(text.into_owned(), out);
        }
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            self.add_text(text.into_owned(), out);
        }
        for fragment in delta.tool_calls.into_iter().flatten() {
            self.add_call_fragment(fragment)?;
        }
        Ok(())
    }

    fn add_reasoning(&mut self, delta: String, out: &mut Vec<ModelEvent>) {
        let open = self.reasoning.get_or_insert_with(|| {
            let id = new_item_id("rs");
            out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(reasoning_item(String::new())) });
            OpenText { id, text: String::new() }
        });
        open.text.push_str(&delta);
        out.push(ModelEvent::ReasoningTextDelta { item_id: open.id.clone(), index: 0, delta });
    }

    fn add_text(&mut self, delta: String, out: &mut Vec<ModelEvent>) {
        if self.message.is_none() {
            self.close_reasoning(out);
        }
        let open = self.message.get_or_insert_with(|| {
            let id = new_item_id("msg");
            out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(message(&id, None)) });
            OpenText { id, text: String::new() }
        });
        open.text.push_str(&delta);
        out.push(ModelEvent::TextDelta { item_id: open.id.clone(), delta });
    }

    /// Adds a fragment to its call. The call is found by index; where a server gives every call the same index,
    /// by id; otherwise it is the last one.
    fn add_call_fragment(&mut self, fragment: CallFragment<'_>) -> Result<(), ModelError> {
        let id = fragment.id.filter(|id| !id.is_empty());
        let function = fragment.function.unwrap_or_default();
        let known = match fragment.index {
            Some(_) => self.calls.iter_mut().rev().find(|call| call.index == fragment.index),
            None => self.calls.last_mut(),
        };
        let known = known.filter(|call| id.as_ref().is_none_or(|id| call.id.is_empty() || call.id == *id));
        let call = match known {
            Some(call) => call,
            None => {
                self.gathered.check_items(self.calls.len())?;
                self.calls.push(PartialCall {
                    index: fragment.index,
                    id: String::new(),
                    name: String::new(),
                    arguments: String::new(),
                });
                let Some(call) = self.calls.last_mut() else { return Ok(()) };
                call
            }
        };
        if let Some(id) = id {
            call.id = id.into_owned();
        }
        if let Some(name) = function.name {
            // Some servers repeat the whole name in each fragment.
            if call.name != name {
                self.gathered.append(&mut call.name, &name)?;
            }
        }
        if let Some(arguments) = function.arguments {
            self.gathered.append(&mut call.arguments, &argument_text(arguments))?;
        }
        Ok(())
    }

    /// Emits the open items, the calls and the completion, or the error of an incomplete response.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        self.close_reasoning(out);
        if let Some(open) = self.message.take() {
            let item = message(&open.id, Some(open.text));
            out.push(ModelEvent::ItemDone { id: open.id, item: Box::new(item) });
        }
        match self.finish_reason.as_deref() {
            Some("length") => return Err(ModelError::Incomplete("max_output_tokens".to_owned())),
            Some("content_filter") => return Err(ModelError::Incomplete("content_filter".to_owned())),
            _ => {}
        }
        for call in std::mem::take(&mut self.calls).into_iter().filter(|call| !call.name.is_empty()) {
            let (id, item) = call.into_called().into_item(&self.custom_tools);
            out.push(ModelEvent::ItemDone { id, item: Box::new(item) });
        }
        let response_id = self.response_id.take().unwrap_or_else(|| new_item_id("resp").to_string());
        out.push(ModelEvent::Completed { response_id, usage: self.usage.take() });
        self.is_complete = true;
        Ok(())
    }

    fn close_reasoning(&mut self, out: &mut Vec<ModelEvent>) {
        if let Some(open) = self.reasoning.take() {
            out.push(ModelEvent::ItemDone { id: open.id, item: Box::new(reasoning_item(open.text)) });
        }
    }
}

impl PartialCall {
    fn into_called(self) -> CalledTool {
        let call_id = if self.id.is_empty() { new_item_id("call").to_string() } else { self.id };
        CalledTool { call_id, name: self.name, arguments: self.arguments }
    }
}

fn reasoning_item(text: String) -> ResponseItem {
    let content = (!text.is_empty()).then(|| vec![ReasoningItemContent::ReasoningText { text }]);
    ResponseItem::Reasoning { summary: Vec::new(), content, encrypted_content: None }
}

/// Returns the arguments as text. Most servers send a string that holds JSON, some the JSON itself.
fn argument_text(arguments: &RawValue) -> Cow<'_, str> {
    let raw = arguments.get();
    match serde_json::from_str::<Option<Text<'_>>>(raw) {
        Ok(text) => text.map_or(Cow::Borrowed(""), |text| text.0),
        Err(_) => Cow::Borrowed(raw),
    }
}

fn failure(error: &Value) -> ModelError {
    let text_of = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text_of("message").or_else(|| error.as_str().map(str::to_owned));
    let message = message.unwrap_or_else(|| error.to_string());
    let code = text_of("code").or_else(|| text_of("type")).unwrap_or_default();
    if code == "context_length_exceeded" || message.contains("maximum context length") {
        return ModelError::ContextWindowExceeded;
    }
    ModelError::Failed { retry_after: delay_in_message(&message), code, message }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct ChatChunk<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    choices: Option<Vec<ChatChoice<'a>>>,
    usage: Option<ChatUsage>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct ChatChoice<'a> {
    #[serde(borrow)]
    delta: Option<ChatDelta<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct ChatDelta<'a> {
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallFragment<'a>>>,
}

#[derive(Deserialize)]
struct CallFragment<'a> {
    index: Option<i64>,
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    function: Option<FunctionFragment<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionFragment<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChatUsage {
    prompt_tokens: i64,
    completion_tokens: i64,
    total_tokens: i64,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<i64>,
}

impl From<ChatUsage> for TokenUsageBreakdown {
    fn from(usage: ChatUsage) -> Self {
        let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = usage.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        Self {
            total_tokens: usage.total_tokens.max(usage.prompt_tokens.saturating_add(usage.completion_tokens)),
            input_tokens: usage.prompt_tokens,
            cached_input_tokens: cached.unwrap_or(0),
            output_tokens: usage.completion_tokens,
            reasoning_output_tokens: reasoning.unwrap_or(0),
        }
    }
}
