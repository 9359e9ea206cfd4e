//! The decoder of a Responses stream. Unknown events are skipped, `error` included: a response succeeds if and only
//! if `response.completed` arrives.

use std::borrow::Cow;

use codicil_protocol::{ItemId, ResponseItem, TokenUsageBreakdown};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    ModelError, ModelEvent,
    event::new_item_id,
    status::failed,
    stream::{EventDecoder, event_name},
};

#[derive(Default)]
pub(super) struct ResponsesDecoder {
    /// Item id of the last delta. Deltas of one item follow each other, so the id is rarely allocated.
    last_id: Option<ItemId>,
    is_complete: bool,
}

impl EventDecoder for ResponsesDecoder {
    fn event(&mut self, name: &[u8], data: &[u8], out: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        match &*event_name(name, data) {
            b"response.output_text.delta" => {
                self.delta(data, out, |item_id, _, delta| ModelEvent::TextDelta { item_id, delta });
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
            b"response.output_item.added" => item(data, out, |id, item| ModelEvent::ItemAdded { id, item }),
            b"response.output_item.done" => item(data, out, |id, item| ModelEvent::ItemDone { id, item }),
            b"response.completed" => {
                let response = read::<EndedEvent>(data).response;
                let usage = response.usage.map(TokenUsageBreakdown::from);
                out.push(ModelEvent::Completed { response_id: response.id, usage });
                self.is_complete = true;
            }
            b"response.failed" => {
                let error = read::<EndedEvent>(data).response.error;
                return Err(failed(error.code.unwrap_or_default(), error.message));
            }
            b"response.incomplete" => {
                let reason = read::<EndedEvent>(data).response.incomplete_details.reason;
                return Err(ModelError::Incomplete(reason.unwrap_or_else(|| "unknown".to_owned())));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<ModelEvent>) -> Result<(), ModelError> {
        Err(ModelError::Disconnected("stream closed before response.completed".to_owned()))
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
    ) {
        let Ok(delta) = serde_json::from_slice::<ResponsesDelta<'_>>(data) else {
            tracing::debug!("skipped an invalid delta");
            return;
        };
        let id = match &self.last_id {
            Some(id) if **id == *delta.item_id => id.clone(),
            _ => self.last_id.insert(ItemId::from(delta.item_id.as_ref())).clone(),
        };
        let index = delta.summary_index.or(delta.content_index).unwrap_or(0);
        out.push(event(id, index, delta.delta.into_owned()));
    }
}

fn item(data: &[u8], out: &mut Vec<ModelEvent>, event: fn(ItemId, Box<ResponseItem>) -> ModelEvent) {
    let read = serde_json::from_slice::<WithItem>(data).and_then(|event| {
        let id = event.item.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let id = id.map_or_else(|| new_item_id("item"), ItemId::from);
        Ok((id, serde_json::from_value(event.item)?))
    });
    match read {
        Ok((id, item)) => out.push(event(id, Box::new(item))),
        Err(error) => tracing::warn!(%error, "skipped an invalid item of the model"),
    }
}

/// Reads an event that ends the stream. Members that cannot be read count as omitted.
fn read<T: for<'de> Deserialize<'de> + Default>(data: &[u8]) -> T {
    serde_json::from_slice(data).unwrap_or_default()
}

#[derive(Deserialize)]
struct ResponsesDelta<'a> {
    #[serde(borrow, default)]
    item_id: Cow<'a, str>,
    #[serde(borrow, default)]
    delta: Cow<'a, str>,
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
    id: String,
    usage: Option<ResponsesUsage>,
    #[serde(deserialize_with = "null_as_default")]
    error: FailedWith,
    #[serde(deserialize_with = "null_as_default")]
    incomplete_details: IncompleteDetails,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FailedWith {
    code: Option<String>,
    message: Option<String>,
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
    input_tokens: i64,
    input_tokens_details: Option<InputDetails>,
    output_tokens: i64,
    output_tokens_details: Option<OutputDetails>,
    total_tokens: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: i64,
}

impl From<ResponsesUsage> for TokenUsageBreakdown {
    fn from(usage: ResponsesUsage) -> Self {
        Self {
            total_tokens: usage.total_tokens,
            input_tokens: usage.input_tokens,
            cached_input_tokens: usage.input_tokens_details.map_or(0, |details| details.cached_tokens),
            output_tokens: usage.output_tokens,
            reasoning_output_tokens: usage
                .output_tokens_details
                .map_or(0, |details| details.reasoning_tokens),
        }
    }
}
