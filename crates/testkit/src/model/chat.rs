//! The Chat Completions dialect.
//!
//! A reply is one message here: several texts join, reasoning goes to `reasoning_content` (the field that
//! providers of open models use), and a search of the provider leaves no trace.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    dialect::{CREATED, Encoder, MODEL, Sse, StreamOptions, Wishes, openai_error, wrapped},
    ids::Ids,
    steps::{Ending, Item, Section, Usage},
};

pub(super) struct Chat {
    ids: Arc<Ids>,
    id: String,
    model: String,
    include_usage: bool,
    content: String,
    reasoning: String,
    calls: Vec<Call>,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct Chunk<'a, D> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [Choice<'a, D>; 1],
}

#[derive(Serialize)]
struct Choice<'a, D> {
    index: u8,
    delta: D,
    finish_reason: Option<&'a str>,
}

#[derive(Serialize)]
struct TextDelta<'a> {
    content: &'a str,
}

#[derive(Serialize)]
struct ReasoningDelta<'a> {
    reasoning_content: &'a str,
}

impl Chat {
    pub(super) fn new(wishes: &Wishes, ids: Arc<Ids>) -> Self {
        let options = wishes.stream_options.as_ref();
        Self {
            id: ids.next("chatcmpl"),
            model: wishes.model.clone().unwrap_or_else(|| MODEL.to_owned()),
            include_usage: options
                .and_then(|StreamOptions { include_usage }| *include_usage)
                .unwrap_or(false),
            content: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            ids,
        }
    }

    fn send(&self, delta: impl Serialize, finish_reason: Option<&str>, out: &mut Sse) {
        out.data(&Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: CREATED,
            model: &self.model,
            choices: [Choice { index: 0, delta, finish_reason }],
        });
    }

    /// Sends a fragment of the last call's arguments.
    fn send_arguments(&mut self, fragment: &str, out: &mut Sse) {
        let Some(call) = self.calls.last_mut() else { return };
        call.arguments.push_str(fragment);
        let call = json!({ "index": self.calls.len() - 1, "function": { "arguments": fragment } });
        self.send(json!({ "tool_calls": [call] }), None, out);
    }

    fn finish_reason<'a>(&self, ending: &'a Ending) -> &'a str {
        match ending {
            Ending::Incomplete(reason) if reason == "max_output_tokens" => "length",
            Ending::Incomplete(reason) => reason,
            _ if self.calls.is_empty() => "stop",
            _ => "tool_calls",
        }
    }

    fn message(&self) -> Value {
        let calls = self.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        let mut message = json!({ "role": "assistant", "content": text_or_null(&self.content) });
        if let Some(fields) = message.as_object_mut() {
            if !self.reasoning.is_empty() {
                fields.insert("reasoning_content".to_owned(), self.reasoning.as_str().into());
            }
            if !self.calls.is_empty() {
                fields.insert("tool_calls".to_owned(), calls.collect());
            }
        }
        message
    }
}

impl Encoder for Chat {
    fn begin(&mut self, _: Option<Usage>, out: &mut Sse) {
        self.send(json!({ "role": "assistant", "content": "" }), None, out);
    }

    fn open_item(&mut self, item: &Item, out: &mut Sse) {
        let (Item::Call { name, call_id } | Item::CustomCall { name, call_id }) = item else { return };
        let id = call_id.clone().unwrap_or_else(|| self.ids.next("call"));
        let function = json!({ "name": name, "arguments": "" });
        let call = json!({ "index": self.calls.len(), "id": id, "type": "function", "function": function });
        self.send(json!({ "tool_calls": [call] }), None, out);
        self.calls.push(Call { id, name: name.clone(), arguments: String::new() });
    }

    fn open_section(&mut self, section: Section, out: &mut Sse) {
        if section == Section::Input {
            self.send_arguments(wrapped::BEGIN, out);
        }
    }

    fn delta(&mut self, section: Section, text: &str, out: &mut Sse) {
        match section {
            Section::Text => {
                self.content.push_str(text);
                self.send(TextDelta { content: text }, None, out);
            }
            Section::Summary(_) | Section::Raw => {
                self.reasoning.push_str(text);
                self.send(ReasoningDelta { reasoning_content: text }, None, out);
            }
            Section::Arguments => self.send_arguments(text, out),
            Section::Input => self.send_arguments(&wrapped::middle(text), out),
        }
    }

    fn close_section(&mut self, section: Section, _: String, out: &mut Sse) {
        if section == Section::Input {
            self.send_arguments(wrapped::END, out);
        }
    }

    fn close_item(&mut self, _: &mut Sse) {}

    fn end(&mut self, ending: &Ending, usage: Option<Usage>, out: &mut Sse) {
        if let Ending::Failed { code, message } = ending {
            // A stream that fails stops at the error: no finish reason, no `[DONE]`.
            return out.data(&openai_error(code, message));
        }
        self.send(json!({}), Some(self.finish_reason(ending)), out);
        if let Some(usage) = usage.filter(|_| self.include_usage) {
            out.data(&json!({
                "id": self.id, "object": "chat.completion.chunk", "created": CREATED, "model": self.model,
                "choices": [], "usage": usage_json(usage),
            }));
        }
        out.done();
    }

    fn whole(&self, ending: &Ending, usage: Option<Usage>) -> (StatusCode, Value) {
        if let Ending::Failed { code, message } = ending {
            return (StatusCode::INTERNAL_SERVER_ERROR, openai_error(code, message));
        }
        let choice = json!({
            "index": 0, "message": self.message(), "logprobs": null,
            "finish_reason": self.finish_reason(ending),
        });
        let completion = json!({
            "id": self.id, "object": "chat.completion", "created": CREATED, "model": self.model,
            "choices": [choice], "usage": usage.map(usage_json),
        });
        (StatusCode::OK, completion)
    }
}

fn text_or_null(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn usage_json(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens": usage.output,
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.input + usage.output,
    })
}
