//! The Chat Completions dialect.
//!
//! A reply is one message: several texts are joined, reasoning goes to `reasoning_content` (the field that
//! providers of open models use), and a search of the provider is not visible.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    dialect::{
        CREATED, IdCounter, MODEL, ReplyEncoder, RequestOptions, SseWriter, StreamOptions, openai_error,
        wrapped,
    },
    steps::{ReplyEnding, ReplyItem, ReplySection, ReplyUsage},
};

pub(super) struct ChatEncoder {
    ids: Arc<IdCounter>,
    id: String,
    model: String,
    include_usage: bool,
    content: String,
    reasoning: String,
    calls: Vec<EncodedCall>,
}

struct EncodedCall {
    id: String,
    name: String,
    arguments: String,
}

#[derive(Serialize)]
struct EncodedChunk<'a, D> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: [EncodedChoice<'a, D>; 1],
}

#[derive(Serialize)]
struct EncodedChoice<'a, D> {
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

impl ChatEncoder {
    pub(super) fn new(options: &RequestOptions, ids: Arc<IdCounter>) -> Self {
        let stream_options = options.stream_options.as_ref();
        Self {
            id: ids.next("chatcmpl"),
            model: options.model.clone().unwrap_or_else(|| MODEL.to_owned()),
            include_usage: stream_options
                .and_then(|StreamOptions { include_usage }| *include_usage)
                .unwrap_or(false),
            content: String::new(),
            reasoning: String::new(),
            calls: Vec::new(),
            ids,
        }
    }

    fn send(&self, delta: impl Serialize, finish_reason: Option<&str>, out: &mut SseWriter) {
        out.data(&EncodedChunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: CREATED,
            model: &self.model,
            choices: [EncodedChoice { index: 0, delta, finish_reason }],
        });
    }

    /// Sends a fragment of the last call's arguments.
    fn send_arguments(&mut self, fragment: &str, out: &mut SseWriter) {
        let Some(call) = self.calls.last_mut() else { return };
        call.arguments.push_str(fragment);
        let call = json!({ "index": self.calls.len() - 1, "function": { "arguments": fragment } });
        self.send(json!({ "tool_calls": [call] }), None, out);
    }

    fn finish_reason<'a>(&self, ending: &'a ReplyEnding) -> &'a str {
        match ending {
            ReplyEnding::Incomplete(reason) if reason == "max_output_tokens" => "length",
            ReplyEnding::Incomplete(reason) => reason,
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

impl ReplyEncoder for ChatEncoder {
    fn begin(&mut self, _: Option<ReplyUsage>, out: &mut SseWriter) {
        self.send(json!({ "role": "assistant", "content": "" }), None, out);
    }

    fn open_item(&mut self, item: &ReplyItem, out: &mut SseWriter) {
        let (ReplyItem::Call { name, call_id } | ReplyItem::CustomCall { name, call_id }) = item else {
            return;
        };
        let id = call_id.clone().unwrap_or_else(|| self.ids.next("call"));
        let function = json!({ "name": name, "arguments": "" });
        let call = json!({ "index": self.calls.len(), "id": id, "type": "function", "function": function });
        self.send(json!({ "tool_calls": [call] }), None, out);
        self.calls.push(EncodedCall { id, name: name.clone(), arguments: String::new() });
    }

    fn open_section(&mut self, section: ReplySection, out: &mut SseWriter) {
        if section == ReplySection::Input {
            self.send_arguments(wrapped::BEGIN, out);
        }
    }

    fn delta(&mut self, section: ReplySection, text: &str, out: &mut SseWriter) {
        match section {
            ReplySection::Text => {
                self.content.push_str(text);
                self.send(TextDelta { content: text }, None, out);
            }
            ReplySection::Summary(_) | ReplySection::Raw => {
                self.reasoning.push_str(text);
                self.send(ReasoningDelta { reasoning_content: text }, None, out);
            }
            ReplySection::Arguments => self.send_arguments(text, out),
            ReplySection::Input => self.send_arguments(&wrapped::middle(text), out),
        }
    }

    fn close_section(&mut self, section: ReplySection, _: String, out: &mut SseWriter) {
        if section == ReplySection::Input {
            self.send_arguments(wrapped::END, out);
        }
    }

    fn close_item(&mut self, _: &mut SseWriter) {}

    fn end(&mut self, ending: &ReplyEnding, usage: Option<ReplyUsage>, out: &mut SseWriter) {
        if let ReplyEnding::Failed { code, message } = ending {
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

    fn whole(&self, ending: &ReplyEnding, usage: Option<ReplyUsage>) -> (StatusCode, Value) {
        if let ReplyEnding::Failed { code, message } = ending {
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

fn usage_json(usage: ReplyUsage) -> Value {
    json!({
        "prompt_tokens": usage.input,
        "prompt_tokens_details": { "cached_tokens": usage.cached },
        "completion_tokens": usage.output,
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
        "total_tokens": usage.input + usage.output,
    })
}
