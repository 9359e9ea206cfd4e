//! The decoder of a Responses stream. Unknown events are skipped: a response succeeds if and only if
//! `response.completed` arrives. An `error` event alone fails nothing; it is the reason of a stream that then ends.

use std::borrow::Cow;

use codicil_protocol::{ItemId, ResponseItem, TokenUsageBreakdown};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    ModelError, ModelEvent,
    event::new_item_id,
    status::{reported, unexpected_document},
    stream::{EventDecoder, event_name},
    wire_json::{TextJoiner, WireText, read_event, token_count},
};

#[derive(Default)]
pub(crate) struct ResponsesDecoder {
    /// Item id of the last delta. Deltas of one item follow each other, so the id is rarely allocated.
    last_id: Option<ItemId>,
    /// Joins the deltas of the last item. The text of a completed item does not depend on it.
    joiner: TextJoiner,
    /// The error of an `error` event.
    reported: Option<ModelError>,
    is_complete: bool,
}

impl EventDecoder for ResponsesDecoder {
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match &*event_name(name, data)? {
            b"response.output_text.delta" | b"response.refusal.delta" => {
                self.delta(data, out, |item_id, _, delta| ModelEvent::TextDelta { item_id, delta })
            }
            b"response.custom_tool_call_input.delta" => {
                self.delta(data, out, |item_id, _, delta| ModelEvent::ToolInputDelta { item_id, delta })
            }
            b"response.reasoning_summary_text.delta" => self.delta(data, out, |item_id, index, delta| {
                ModelEvent::ReasoningSummaryDelta { item_id, index, delta }
            }),
            b"response.reasoning_text.delta" => self.delta(data, out, |item_id, index, delta| {
                ModelEvent::ReasoningTextDelta { item_id, index, delta }
            }),
            b"response.reasoning_summary_part.added" => self.delta(data, out, |item_id, index, _| {
                ModelEvent::ReasoningSummaryPartAdded { item_id, index }
            }),
            b"response.output_item.added" => {
                let event: WithItem = read_event(data)?;
                item(event.item, out, |id, item| ModelEvent::ItemAdded { id, item })
            }
            b"response.output_item.done" => {
                let event: WithItem = read_event(data)?;
                item(event.item, out, |id, item| ModelEvent::ItemDone { id, item })
            }
            b"response.completed" => self.finish(read_event::<EndedEvent>(data)?.response, out),
            b"response.failed" => Err(reported(read_event::<EndedEvent>(data)?.response.error)),
            b"response.incomplete" => Err(incomplete(read_event::<EndedEvent>(data)?.response, out)),
            b"error" => {
                let mut event: Value = read_event(data)?;
                let nested = event.get_mut("error").map(Value::take).filter(|error| !error.is_null());
                self.reported = Some(reported(nested.unwrap_or_else(|| without_type(event))));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn document(&mut self, data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let response: ResponseBody = read_event(data)?;
        let Some(output) = read_event::<ResponseOutput>(data)?.output else {
            return Err(unexpected_document(data));
        };
        for output in output {
            item(output, out, |id, item| ModelEvent::ItemDone { id, item })?;
        }
        self.finish(response, out)
    }

    fn end(&mut self, _: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        let closed = || ModelError::Disconnected("stream closed before response.completed".to_owned());
        Err(self.reported.take().unwrap_or_else(closed))
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}

impl ResponsesDecoder {
    /// Decodes a delta. This is the hot path: one parse that borrows, one allocation for the text.
    fn delta(
        &mut self,
        data: &[u8],
        out: &mut Vec<ModelEvent>,
        event: fn(ItemId, i64, String) -> ModelEvent,
    ) -> Result<(), ModelError> {
        let delta: ResponsesDelta<'_> = read_event(data)?;
        let id = match &self.last_id {
            Some(id) if **id == *delta.item_id => id.clone(),
            _ => {
                self.joiner = TextJoiner::default();
                self.last_id.insert(ItemId::from(delta.item_id.as_ref())).clone()
            }
        };
        let index = delta.summary_index.or(delta.content_index).unwrap_or(0);
        out.push(event(id, index, self.joiner.join(delta.delta)));
        Ok(())
    }

    /// Ends a response as its status says. Some servers send `response.completed` for every status.
    fn finish(&mut self, response: ResponseBody, out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        if !response.error.is_null() {
            return Err(reported(response.error));
        }
        if response.status == "incomplete" {
            return Err(incomplete(response, out));
        }
        let usage = response.usage.map(TokenUsageBreakdown::from);
        out.push(ModelEvent::Completed { response_id: response.id, usage });
        self.is_complete = true;
        Ok(())
    }
}

/// Emits the usage of a response that the provider ended early, and returns its error.
fn incomplete(response: ResponseBody, out: &mut Vec<ModelEvent>) -> ModelError {
    out.extend(response.usage.map(|usage| ModelEvent::Used(usage.into())));
    let reason = response.incomplete_details.reason;
    ModelError::Incomplete(reason.unwrap_or_else(|| "unknown".to_owned()))
}

/// Removes the name of an `error` event, which is not the type of its error.
fn without_type(mut event: Value) -> Value {
    if let Some(members) = event.as_object_mut() {
        members.remove("type");
    }
    event
}

fn item(
    mut item: Value,
    out: &mut Vec<ModelEvent>,
    event: fn(ItemId, Box<ResponseItem>) -> ModelEvent,
) -> Result<(), ModelError> {
    // The arguments of a call that was cut off are incomplete, so it must not run.
    let member = |name: &str| item.get(name).and_then(Value::as_str);
    let is_call = matches!(member("type"), Some("function_call" | "custom_tool_call" | "local_shell_call"));
    if is_call && member("status") == Some("incomplete") {
        return Ok(());
    }
    refusals_as_text(&mut item);
    let id = item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.map_or_else(|| new_item_id("item"), ItemId::from);
    let item = serde_json::from_value(item).map_err(|error| ModelError::Unreadable(error.to_string()))?;
    out.push(event(id, Box::new(item)));
    Ok(())
}

/// Replaces the refusals of a message by text. Clients show them like any other message.
fn refusals_as_text(item: &mut Value) {
    let parts = item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
    for part in parts.filter(|part| part["type"] == "refusal") {
        *part = json!({ "type": "output_text", "text": part["refusal"] });
    }
}

#[derive(Deserialize)]
struct ResponsesDelta<'a> {
    #[serde(borrow, default)]
    item_id: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: WireText<'a>,
    summary_index: Option<i64>,
    content_index: Option<i64>,
}

#[derive(Deserialize)]
struct WithItem {
    item: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndedEvent {
    response: ResponseBody,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponseBody {
    #[serde(deserialize_with = "null_as_default")]
    id: String,
    #[serde(deserialize_with = "null_as_default")]
    status: String,
    usage: Option<ResponsesUsage>,
    error: Value,
    #[serde(deserialize_with = "null_as_default")]
    incomplete_details: IncompleteDetails,
}

/// The items of a whole response. Events repeat them, so they are read only where they are needed.
#[derive(Deserialize)]
struct ResponseOutput {
    output: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct IncompleteDetails {
    reason: Option<String>,
}

fn null_as_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ResponsesUsage {
    #[serde(deserialize_with = "token_count")]
    input_tokens: Option<i64>,
    input_tokens_details: Option<InputDetails>,
    #[serde(deserialize_with = "token_count")]
    output_tokens: Option<i64>,
    output_tokens_details: Option<OutputDetails>,
    #[serde(deserialize_with = "token_count")]
    total_tokens: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "token_count")]
    cached_tokens: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    #[serde(deserialize_with = "token_count")]
    reasoning_tokens: Option<i64>,
}

impl From<ResponsesUsage> for TokenUsageBreakdown {
    fn from(usage: ResponsesUsage) -> Self {
        let cached = usage.input_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = usage.output_tokens_details.and_then(|details| details.reasoning_tokens);
        let input_tokens = usage.input_tokens.unwrap_or(0);
        let output_tokens = usage.output_tokens.unwrap_or(0);
        Self {
            total_tokens: usage.total_tokens.unwrap_or_else(|| input_tokens.saturating_add(output_tokens)),
            input_tokens,
            cached_input_tokens: cached.unwrap_or(0),
            cache_write_input_tokens: 0,
            output_tokens,
            reasoning_output_tokens: reasoning.unwrap_or(0),
        }
    }
}
