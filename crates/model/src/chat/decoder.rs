//! The decoder of a Chat Completions stream, which assembles items from chunks.
//!
//! Servers differ: ids may be missing or repeated, arguments may be an object, the usage and the final `[DONE]`
//! may be missing, the content may be a list of parts, every chunk may have a finish reason. A response is finished
//! once a finish reason arrived and no content follows it. Calls are emitted only at the end, because before that
//! their arguments may be truncated.

use std::{borrow::Cow, time::Duration};

use codicil_protocol::{ItemId, ReasoningItemContent, ResponseItem, TokenUsageBreakdown};

use super::{
    chunk::{CallFragment, ChatChunk, ChatContent, ChatDelta, ContentPart, argument_text},
    messages::ReasoningMember,
    think::{ThinkPiece, ThinkSplitter},
};
use crate::{
    ModelError, ModelEvent,
    event::{CalledTool, message, new_item_id},
    response_limits::GatheredText,
    status::{reported, unexpected_document},
    stream::{END_TIME, EventDecoder},
    wire_json::{TextJoiner, WireText, read_event},
};

/// Time that a finished response has to report its usage.
const USAGE_TIME: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct ChatDecoder {
    custom_tools: Vec<String>,
    response_id: Option<String>,
    message: Option<OpenMessage>,
    reasoning: Option<OpenReasoning>,
    text_joiner: TextJoiner,
    splitter: ThinkSplitter,
    calls: Vec<PartialCall>,
    gathered: GatheredText,
    usage: Option<TokenUsageBreakdown>,
    finish_reason: Option<String>,
    /// Whether the last chunk had content.
    is_content_arriving: bool,
    is_complete: bool,
}

/// A message whose text is incomplete.
struct OpenMessage {
    id: ItemId,
    text: String,
}

/// Reasoning whose text is incomplete.
struct OpenReasoning {
    id: ItemId,
    text: String,
    /// Where the provider sent it; `None` for reasoning within the content.
    member: Option<ReasoningMember>,
    joiner: TextJoiner,
}

/// A tool call assembled from fragments.
#[derive(Default)]
struct PartialCall {
    index: Option<i64>,
    id: String,
    name: String,
    arguments: String,
    joiner: TextJoiner,
}

impl ChatDecoder {
    pub fn new(custom_tools: Vec<String>) -> Self {
        Self { custom_tools, ..Self::default() }
    }
}

impl EventDecoder for ChatDecoder {
    fn event(&mut self, _: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if data == b"[DONE]" {
            return self.finish(out);
        }
        let chunk: ChatChunk<'_> = read_event(data)?;
        if chunk.object.as_deref() == Some("error") {
            return Err(reported(read_event(data)?));
        }
        self.chunk(chunk, out)
    }

    fn document(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let chunk: ChatChunk<'_> = read_event(data)?;
        if chunk.choices.is_none() {
            return Err(unexpected_document(data));
        }
        self.chunk(chunk, out)?;
        self.finish(out)
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

    fn end_time(&self) -> Option<Duration> {
        self.finish_reason.as_ref()?;
        Some(match &self.usage {
            // A server that sends a finish reason with its content may send more content.
            _ if self.is_content_arriving => Duration::MAX,
            Some(_) => END_TIME,
            None => USAGE_TIME,
        })
    }
}

impl ChatDecoder {
    fn chunk(&mut self, chunk: ChatChunk<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(error) = chunk.error {
            return Err(reported(error));
        }
        if self.response_id.is_none() {
            self.response_id = chunk.id.map(Cow::into_owned);
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage.into());
        }
        self.is_content_arriving = false;
        for choice in chunk.choices.into_iter().flatten() {
            if let Some(delta) = choice.delta.or(choice.message) {
                self.is_content_arriving |= delta.has_content();
                self.delta(delta, out)?;
            }
            // Some servers send an empty reason with every chunk, or the word "null".
            let reason = choice.finish_reason.filter(|reason| !matches!(reason.as_ref(), "" | "null"));
            if let Some(reason) = reason {
                self.finish_reason = Some(reason.into_owned());
            }
        }
        Ok(())
    }

    fn delta(&mut self, delta: ChatDelta<'_>, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(text) = delta.reasoning_content.filter(|text| !text.is_empty()) {
            self.add_reasoning(Some(ReasoningMember::ReasoningContent), text, out);
        } else if let Some(text) = delta.reasoning.filter(|text| !text.is_empty()) {
            self.add_reasoning(Some(ReasoningMember::Reasoning), text, out);
        }
        match delta.content {
            Some(ChatContent::Text(text)) => self.add_content(text, out),
            Some(ChatContent::Parts(parts)) => parts.into_iter().for_each(|part| self.add_part(part, out)),
            Some(ChatContent::Other) | None => {}
        }
        if let Some(refusal) = delta.refusal {
            self.add_content(refusal, out);
        }
        for fragment in delta.tool_calls.into_iter().flatten() {
            self.add_call_fragment(fragment)?;
        }
        Ok(())
    }

    fn add_part(&mut self, part: ContentPart<'_>, out: &mut Vec<ModelEvent>) {
        match part.thinking {
            Some(ChatContent::Text(text)) => self.add_reasoning(None, text, out),
            Some(ChatContent::Parts(parts)) => {
                let texts = parts.into_iter().filter_map(|part| part.text);
                texts.for_each(|text| self.add_reasoning(None, text, out));
            }
            Some(ChatContent::Other) | None => {}
        }
        for text in [part.text, part.refusal].into_iter().flatten() {
            self.add_content(text, out);
        }
    }

    fn add_reasoning(
        &mut self,
        member: Option<ReasoningMember>,
        delta: WireText<'_>,
        out: &mut Vec<ModelEvent>,
    ) {
        let open = self.reasoning.get_or_insert_with(|| {
            let id = new_item_id("rs");
            let item = Box::new(reasoning_item(String::new(), None));
            out.push(ModelEvent::ItemAdded { id: id.clone(), item });
            OpenReasoning { id, text: String::new(), member, joiner: TextJoiner::default() }
        });
        let delta = open.joiner.join(delta);
        if !delta.is_empty() {
            open.text.push_str(&delta);
            out.push(ModelEvent::ReasoningTextDelta { item_id: open.id.clone(), index: 0, delta });
        }
    }

    /// Adds content of the message, which may hold inline reasoning.
    fn add_content(&mut self, content: WireText<'_>, out: &mut Vec<ModelEvent>) {
        let content = self.text_joiner.join(content);
        if !content.is_empty() {
            let pieces = self.splitter.feed(content);
            self.add_pieces(pieces, out);
        }
    }

    fn add_pieces(&mut self, pieces: impl IntoIterator<Item = ThinkPiece>, out: &mut Vec<ModelEvent>) {
        for piece in pieces {
            match piece {
                ThinkPiece::Reasoning(text) => self.add_reasoning(None, text.into(), out),
                ThinkPiece::Text(text) => self.add_text(text, out),
            }
        }
    }

    fn add_text(&mut self, delta: String, out: &mut Vec<ModelEvent>) {
        if self.message.is_none() {
            self.close_reasoning(out);
        }
        let open = self.message.get_or_insert_with(|| {
            let id = new_item_id("msg");
            out.push(ModelEvent::ItemAdded { id: id.clone(), item: Box::new(message(&id, None)) });
            OpenMessage { id, text: String::new() }
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
                self.calls.push(PartialCall { index: fragment.index, ..PartialCall::default() });
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
            let arguments = call.joiner.join(argument_text(arguments));
            self.gathered.append(&mut call.arguments, &arguments)?;
        }
        Ok(())
    }

    /// Emits the open items, the calls and the completion, or the error of an incomplete response.
    fn finish(&mut self, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if let Some(half) = self.text_joiner.finish() {
            self.add_content(half.into(), out);
        }
        let rest = self.splitter.finish();
        self.add_pieces(rest, out);
        self.close_reasoning(out);
        if let Some(open) = self.message.take() {
            let item = message(&open.id, Some(open.text));
            out.push(ModelEvent::ItemDone { id: open.id, item: Box::new(item) });
        }
        let reason = match self.finish_reason.as_deref() {
            Some("length" | "max_tokens" | "model_length") => Some("max_output_tokens"),
            Some("content_filter") => Some("content_filter"),
            // DeepSeek's word for overload.
            Some("insufficient_system_resource") => {
                return Err(ModelError::Overloaded { message: None, retry_after: None });
            }
            _ => None,
        };
        if let Some(reason) = reason {
            out.extend(self.usage.take().map(ModelEvent::Used));
            return Err(ModelError::Incomplete(reason.to_owned()));
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
        if let Some(mut open) = self.reasoning.take() {
            open.text.extend(open.joiner.finish());
            let item = Box::new(reasoning_item(open.text, open.member));
            out.push(ModelEvent::ItemDone { id: open.id, item });
        }
    }
}

impl PartialCall {
    fn into_called(mut self) -> CalledTool {
        self.arguments.extend(self.joiner.finish());
        let call_id = if self.id.is_empty() { new_item_id("call").to_string() } else { self.id };
        CalledTool { call_id, name: self.name, arguments: self.arguments }
    }
}

fn reasoning_item(text: String, member: Option<ReasoningMember>) -> ResponseItem {
    let content = (!text.is_empty()).then(|| vec![ReasoningItemContent::ReasoningText { text }]);
    ResponseItem::Reasoning {
        summary: Vec::new(),
        content,
        encrypted_content: member.map(|member| member.mark().to_owned()),
    }
}
