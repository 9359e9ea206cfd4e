//! The OpenAI Responses dialect.
//!
//! Every event that typed clients wait for is sent, including those that Codicil ignores
//! (`content_part.added`, `output_text.done`, `sequence_number` …). The open item is kept as JSON and grows
//! with its sections, so that `output_item.done` and the final response are equal.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    dialect::{CREATED, IdCounter, MODEL, ReplyEncoder, RequestOptions, SseWriter},
    steps::{ReplyEnding, ReplyItem, ReplySection, ReplyUsage},
};

pub(super) struct ResponsesEncoder {
    ids: Arc<IdCounter>,
    id: String,
    model: String,
    /// Whether the client asked for encrypted reasoning, which it sends back.
    encrypted_reasoning: bool,
    sequence: u64,
    item: Map<String, Value>,
    item_id: String,
    /// The completed items.
    output: Vec<Value>,
}

/// A delta event. Serialized without `Value`, because a stream may have tens of thousands of them.
#[derive(Serialize)]
struct EncodedDelta<'a> {
    r#type: &'static str,
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<usize>,
    delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<[(); 0]>,
    sequence_number: u64,
}

impl ResponsesEncoder {
    pub(super) fn new(options: &RequestOptions, ids: Arc<IdCounter>) -> Self {
        let include = options.include.iter().flatten();
        Self {
            id: ids.next("resp"),
            model: options.model.clone().unwrap_or_else(|| MODEL.to_owned()),
            encrypted_reasoning: include.into_iter().any(|field| field == "reasoning.encrypted_content"),
            sequence: 0,
            item: Map::new(),
            item_id: String::new(),
            output: Vec::new(),
            ids,
        }
    }

    /// Sends an event: `fields` with its type and number added.
    fn send(&mut self, kind: &str, mut fields: Value, out: &mut SseWriter) {
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("type".to_owned(), kind.into());
            fields.insert("sequence_number".to_owned(), self.next_sequence().into());
        }
        out.event(kind, &fields);
    }

    /// Sends an event about the open item.
    fn send_of_item(&mut self, kind: &str, mut fields: Value, out: &mut SseWriter) {
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("item_id".to_owned(), self.item_id.as_str().into());
            fields.insert("output_index".to_owned(), self.output.len().into());
        }
        self.send(kind, fields, out);
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    fn response(&self, status: &str, usage: Option<ReplyUsage>) -> Value {
        json!({
            "id": self.id, "object": "response", "created_at": CREATED, "status": status, "model": self.model,
            "output": self.output, "usage": usage.map(usage_json), "error": null, "incomplete_details": null,
            "instructions": null, "metadata": {}, "parallel_tool_calls": true, "temperature": null,
            "tool_choice": "auto", "tools": [], "top_p": null,
        })
    }

    /// Returns the final response with the name of its event.
    fn final_response(&self, ending: &ReplyEnding, usage: Option<ReplyUsage>) -> (&'static str, Value) {
        match ending {
            ReplyEnding::Completed | ReplyEnding::Cut | ReplyEnding::Hang => {
                ("response.completed", self.response("completed", usage))
            }
            ReplyEnding::Incomplete(reason) => {
                let mut response = self.response("incomplete", usage);
                put(&mut response, "incomplete_details", json!({ "reason": reason }));
                ("response.incomplete", response)
            }
            ReplyEnding::Failed { code, message } => {
                let mut response = self.response("failed", None);
                put(&mut response, "error", json!({ "code": code, "message": message }));
                ("response.failed", response)
            }
        }
    }

    fn new_item(&self, item: &ReplyItem) -> (String, Value) {
        let call_id = |given: &Option<String>| given.clone().unwrap_or_else(|| self.ids.next("call"));
        match item {
            ReplyItem::Message { phase } => {
                let id = self.ids.next("msg");
                let mut json = json!({ "type": "message", "id": id, "role": "assistant", "content": [] });
                if let Some(phase) = phase {
                    put(&mut json, "phase", phase.as_str().into());
                }
                (id, json)
            }
            ReplyItem::Reasoning => {
                let id = self.ids.next("rs");
                let json = json!({ "type": "reasoning", "id": id, "summary": [], "encrypted_content": null });
                (id, json)
            }
            ReplyItem::Call { name, call_id: given } => {
                let id = self.ids.next("fc");
                let call_id = call_id(given);
                let json = json!({
                    "type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": "",
                });
                (id, json)
            }
            ReplyItem::CustomCall { name, call_id: given } => {
                let id = self.ids.next("ctc");
                let call_id = call_id(given);
                let json = json!({
                    "type": "custom_tool_call", "id": id, "call_id": call_id, "name": name, "input": "",
                });
                (id, json)
            }
            ReplyItem::WebSearch { query } => {
                let id = self.ids.next("ws");
                let action = json!({ "type": "search", "query": query });
                let json = json!({ "type": "web_search_call", "id": id, "action": action });
                (id, json)
            }
            ReplyItem::Other(json) => {
                let id = json.get("id").and_then(Value::as_str).unwrap_or_default();
                (id.to_owned(), json.clone())
            }
        }
    }
}

impl ReplyEncoder for ResponsesEncoder {
    fn begin(&mut self, _: Option<ReplyUsage>, out: &mut SseWriter) {
        let response = self.response("in_progress", None);
        self.send("response.created", json!({ "response": response }), out);
    }

    fn open_item(&mut self, item: &ReplyItem, out: &mut SseWriter) {
        let (id, mut json) = self.new_item(item);
        if !matches!(item, ReplyItem::Other(_) | ReplyItem::Reasoning) {
            put(&mut json, "status", "in_progress".into());
        }
        self.item_id = id;
        self.item = json.as_object().cloned().unwrap_or_default();
        self.send(
            "response.output_item.added",
            json!({ "output_index": self.output.len(), "item": json }),
            out,
        );
        if matches!(item, ReplyItem::WebSearch { .. }) {
            self.send_of_item("response.web_search_call.in_progress", json!({}), out);
            self.send_of_item("response.web_search_call.searching", json!({}), out);
        }
    }

    fn open_section(&mut self, section: ReplySection, out: &mut SseWriter) {
        match section {
            ReplySection::Text => {
                let fields = json!({ "content_index": 0, "part": part(section, "") });
                self.send_of_item("response.content_part.added", fields, out);
            }
            ReplySection::Summary(index) => {
                let fields = json!({ "summary_index": index, "part": part(section, "") });
                self.send_of_item("response.reasoning_summary_part.added", fields, out);
            }
            ReplySection::Raw | ReplySection::Arguments | ReplySection::Input => {}
        }
    }

    fn delta(&mut self, section: ReplySection, text: &str, out: &mut SseWriter) {
        let sequence_number = self.next_sequence();
        let (kind, _) = events(section);
        let (content_index, summary_index) = match section {
            ReplySection::Text | ReplySection::Raw => (Some(0), None),
            ReplySection::Summary(index) => (None, Some(index)),
            ReplySection::Arguments | ReplySection::Input => (None, None),
        };
        let delta = EncodedDelta {
            r#type: kind,
            item_id: &self.item_id,
            output_index: self.output.len(),
            content_index,
            summary_index,
            delta: text,
            logprobs: (section == ReplySection::Text).then_some([]),
            sequence_number,
        };
        out.event(kind, &delta);
    }

    fn close_section(&mut self, section: ReplySection, text: String, out: &mut SseWriter) {
        let (_, done) = events(section);
        let part_json = part(section, &text);
        let whole = Value::from(text);
        match section {
            ReplySection::Text => {
                push(&mut self.item, "content", part_json.clone());
                self.send_of_item(done, json!({ "content_index": 0, "text": whole, "logprobs": [] }), out);
                let fields = json!({ "content_index": 0, "part": part_json });
                self.send_of_item("response.content_part.done", fields, out);
            }
            ReplySection::Summary(index) => {
                push(&mut self.item, "summary", part_json.clone());
                self.send_of_item(done, json!({ "summary_index": index, "text": whole }), out);
                let fields = json!({ "summary_index": index, "part": part_json });
                self.send_of_item("response.reasoning_summary_part.done", fields, out);
            }
            ReplySection::Raw => {
                push(&mut self.item, "content", part_json);
                self.send_of_item(done, json!({ "content_index": 0, "text": whole }), out);
            }
            ReplySection::Arguments => {
                self.item.insert("arguments".to_owned(), whole.clone());
                self.send_of_item(done, json!({ "arguments": whole, "name": self.item.get("name") }), out);
            }
            ReplySection::Input => {
                self.item.insert("input".to_owned(), whole.clone());
                self.send_of_item(done, json!({ "input": whole }), out);
            }
        }
    }

    fn close_item(&mut self, out: &mut SseWriter) {
        match self.item.get("type").and_then(Value::as_str) {
            Some("reasoning") if self.encrypted_reasoning => {
                self.item.insert("encrypted_content".to_owned(), self.ids.next("encrypted").into());
            }
            Some("web_search_call") => {
                self.send_of_item("response.web_search_call.completed", json!({}), out)
            }
            _ => {}
        }
        if self.item.get("status").is_some_and(|status| status == "in_progress") {
            self.item.insert("status".to_owned(), "completed".into());
        }
        let item = Value::Object(std::mem::take(&mut self.item));
        self.send(
            "response.output_item.done",
            json!({ "output_index": self.output.len(), "item": item }),
            out,
        );
        self.output.push(item);
    }

    fn end(&mut self, ending: &ReplyEnding, usage: Option<ReplyUsage>, out: &mut SseWriter) {
        let (event, response) = self.final_response(ending, usage);
        self.send(event, json!({ "response": response }), out);
    }

    fn whole(&self, ending: &ReplyEnding, usage: Option<ReplyUsage>) -> (StatusCode, Value) {
        (StatusCode::OK, self.final_response(ending, usage).1)
    }
}

/// Returns the names of a section's events: for each delta, and for its end.
fn events(section: ReplySection) -> (&'static str, &'static str) {
    match section {
        ReplySection::Text => ("response.output_text.delta", "response.output_text.done"),
        ReplySection::Summary(_) => {
            ("response.reasoning_summary_text.delta", "response.reasoning_summary_text.done")
        }
        ReplySection::Raw => ("response.reasoning_text.delta", "response.reasoning_text.done"),
        ReplySection::Arguments => {
            ("response.function_call_arguments.delta", "response.function_call_arguments.done")
        }
        ReplySection::Input => {
            ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done")
        }
    }
}

/// Returns a section as an entry of its item's list.
fn part(section: ReplySection, text: &str) -> Value {
    match section {
        ReplySection::Text => {
            json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
        }
        ReplySection::Summary(_) => json!({ "type": "summary_text", "text": text }),
        ReplySection::Raw => json!({ "type": "reasoning_text", "text": text }),
        ReplySection::Arguments | ReplySection::Input => Value::Null,
    }
}

fn usage_json(usage: ReplyUsage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": { "cached_tokens": usage.cached },
        "output_tokens": usage.output,
        "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.input + usage.output,
    })
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

fn push(item: &mut Map<String, Value>, list: &str, entry: Value) {
    let list = item.entry(list).or_insert_with(|| json!([]));
    if let Some(list) = list.as_array_mut() {
        list.push(entry);
    }
}
