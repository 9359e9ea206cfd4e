//! The Anthropic Messages dialect.
//!
//! Each section of an item is a content block: text, thinking (both kinds of reasoning) or a tool use.
//! Input tokens exclude cached ones, as this provider counts them.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    dialect::{IdCounter, MODEL, ReplyEncoder, RequestOptions, SseWriter, anthropic_error, wrapped},
    steps::{ReplyEnding, ReplyItem, ReplySection, ReplyUsage},
};

pub(super) struct AnthropicEncoder {
    ids: Arc<IdCounter>,
    id: String,
    model: String,
    /// The id and name of the tool use that the next block encodes.
    call: Option<(String, String)>,
    used_tools: bool,
    /// The completed content blocks.
    blocks: Vec<Value>,
}

#[derive(Serialize)]
struct BlockDelta<'a> {
    r#type: &'static str,
    index: usize,
    delta: AnthropicDelta<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum AnthropicDelta<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: &'a str },
}

impl AnthropicEncoder {
    pub(super) fn new(options: &RequestOptions, ids: Arc<IdCounter>) -> Self {
        Self {
            id: ids.next("msg"),
            model: options.model.clone().unwrap_or_else(|| MODEL.to_owned()),
            call: None,
            used_tools: false,
            blocks: Vec::new(),
            ids,
        }
    }

    fn start_block(&self, block: &Value, out: &mut SseWriter) {
        let fields =
            json!({ "type": "content_block_start", "index": self.blocks.len(), "content_block": block });
        out.event("content_block_start", &fields);
    }

    fn send(&self, delta: AnthropicDelta<'_>, out: &mut SseWriter) {
        let event = BlockDelta { r#type: "content_block_delta", index: self.blocks.len(), delta };
        out.event("content_block_delta", &event);
    }

    fn stop_block(&mut self, block: Value, out: &mut SseWriter) {
        let fields = json!({ "type": "content_block_stop", "index": self.blocks.len() });
        out.event("content_block_stop", &fields);
        self.blocks.push(block);
    }

    /// Writes a web search of the provider: the call, then its result.
    fn search(&mut self, query: &str, out: &mut SseWriter) {
        let id = self.ids.next("srvtoolu");
        let used =
            |input| json!({ "type": "server_tool_use", "id": id, "name": "web_search", "input": input });
        let input = json!({ "query": query });
        self.start_block(&used(json!({})), out);
        self.send(AnthropicDelta::InputJson { partial_json: &input.to_string() }, out);
        self.stop_block(used(input), out);

        let found = json!({ "type": "web_search_tool_result", "tool_use_id": id, "content": [] });
        self.start_block(&found, out);
        self.stop_block(found, out);
    }

    fn tool_use(&self, input: Value) -> Value {
        let (id, name) = self.call.as_ref().map_or(("", ""), |(id, name)| (id, name));
        json!({ "type": "tool_use", "id": id, "name": name, "input": input })
    }

    fn stop_reason<'a>(&self, ending: &'a ReplyEnding) -> &'a str {
        match ending {
            ReplyEnding::Incomplete(reason) => match reason.as_str() {
                "max_output_tokens" => "max_tokens",
                "content_filter" => "refusal",
                other => other,
            },
            _ if self.used_tools => "tool_use",
            _ => "end_turn",
        }
    }

    fn message(&self, stop_reason: Option<&str>, usage: Option<ReplyUsage>) -> Value {
        let mut message = json!({
            "id": self.id, "type": "message", "role": "assistant", "model": self.model,
            "content": self.blocks, "stop_reason": stop_reason, "stop_sequence": null,
        });
        if let (Some(fields), Some(usage)) = (message.as_object_mut(), usage) {
            fields.insert("usage".to_owned(), usage_json(usage));
        }
        message
    }
}

impl ReplyEncoder for AnthropicEncoder {
    fn begin(&mut self, usage: Option<ReplyUsage>, out: &mut SseWriter) {
        // At the start, the input is known and at most one output token.
        let usage = usage.map(|usage| ReplyUsage { output: usage.output.min(1), ..usage });
        let message = self.message(None, usage);
        out.event("message_start", &json!({ "type": "message_start", "message": message }));
        out.event("ping", &json!({ "type": "ping" }));
    }

    fn open_item(&mut self, item: &ReplyItem, out: &mut SseWriter) {
        match item {
            ReplyItem::Call { name, call_id } | ReplyItem::CustomCall { name, call_id } => {
                let id = call_id.clone().unwrap_or_else(|| self.ids.next("call"));
                self.call = Some((id, name.clone()));
                self.used_tools = true;
            }
            ReplyItem::WebSearch { query } => self.search(query, out),
            ReplyItem::Message { .. } | ReplyItem::Reasoning | ReplyItem::Other(_) => {}
        }
    }

    fn open_section(&mut self, section: ReplySection, out: &mut SseWriter) {
        let block = match section {
            ReplySection::Text => json!({ "type": "text", "text": "" }),
            ReplySection::Summary(_) | ReplySection::Raw => {
                json!({ "type": "thinking", "thinking": "", "signature": "" })
            }
            ReplySection::Arguments | ReplySection::Input => self.tool_use(json!({})),
        };
        self.start_block(&block, out);
        if section == ReplySection::Input {
            self.send(AnthropicDelta::InputJson { partial_json: wrapped::BEGIN }, out);
        }
    }

    fn delta(&mut self, section: ReplySection, text: &str, out: &mut SseWriter) {
        match section {
            ReplySection::Text => self.send(AnthropicDelta::Text { text }, out),
            ReplySection::Summary(_) | ReplySection::Raw => {
                self.send(AnthropicDelta::Thinking { thinking: text }, out)
            }
            ReplySection::Arguments => self.send(AnthropicDelta::InputJson { partial_json: text }, out),
            ReplySection::Input => {
                self.send(AnthropicDelta::InputJson { partial_json: &wrapped::middle(text) }, out);
            }
        }
    }

    fn close_section(&mut self, section: ReplySection, text: String, out: &mut SseWriter) {
        let block = match section {
            ReplySection::Text => json!({ "type": "text", "text": text }),
            ReplySection::Summary(_) | ReplySection::Raw => {
                let signature = self.ids.next("sig");
                self.send(AnthropicDelta::Signature { signature: &signature }, out);
                json!({ "type": "thinking", "thinking": text, "signature": signature })
            }
            ReplySection::Arguments => {
                self.tool_use(serde_json::from_str(&text).unwrap_or_else(|_| Map::new().into()))
            }
            ReplySection::Input => {
                self.send(AnthropicDelta::InputJson { partial_json: wrapped::END }, out);
                self.tool_use(json!({ "input": text }))
            }
        };
        self.stop_block(block, out);
    }

    fn close_item(&mut self, _: &mut SseWriter) {
        self.call = None;
    }

    fn end(&mut self, ending: &ReplyEnding, usage: Option<ReplyUsage>, out: &mut SseWriter) {
        if let ReplyEnding::Failed { code, message } = ending {
            return out.event("error", &anthropic_error(code, message));
        }
        let mut event = json!({
            "type": "message_delta",
            "delta": { "stop_reason": self.stop_reason(ending), "stop_sequence": null },
        });
        if let (Some(fields), Some(usage)) = (event.as_object_mut(), usage) {
            fields.insert("usage".to_owned(), usage_json(usage));
        }
        out.event("message_delta", &event);
        out.event("message_stop", &json!({ "type": "message_stop" }));
    }

    fn whole(&self, ending: &ReplyEnding, usage: Option<ReplyUsage>) -> (StatusCode, Value) {
        if let ReplyEnding::Failed { code, message } = ending {
            return (StatusCode::INTERNAL_SERVER_ERROR, anthropic_error(code, message));
        }
        (StatusCode::OK, self.message(Some(self.stop_reason(ending)), usage))
    }
}

fn usage_json(usage: ReplyUsage) -> Value {
    json!({
        "input_tokens": usage.input.saturating_sub(usage.cached),
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": usage.output,
    })
}
