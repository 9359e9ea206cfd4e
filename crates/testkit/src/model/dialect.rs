//! The three dialects, and the trait that each one implements.
//!
//! An encoder encodes one reply. It receives items, their sections and their deltas in order, and keeps what
//! it needs for a single JSON answer, which is sent if the client did not ask for a stream.

use std::{collections::HashMap, sync::Arc};

use hyper::StatusCode;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    anthropic::AnthropicEncoder,
    chat::ChatEncoder,
    responses::ResponsesEncoder,
    steps::{ReplyEnding, ReplyItem, ReplySection, ReplyUsage},
};

/// The creation time of every answer, so that output is the same in every run.
pub(super) const CREATED: u64 = 1_700_000_000;
/// The model that answers when the request names none.
pub(super) const MODEL: &str = "scripted";
/// The context window that the list of models reports.
pub(super) const CONTEXT_WINDOW: u32 = 272_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelDialect {
    Responses,
    Chat,
    Anthropic,
}

/// The fields of a request that change the form of its answer. Everything else is only recorded.
#[derive(Default, Deserialize)]
pub(super) struct RequestOptions {
    pub(super) model: Option<String>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) include: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

pub(super) trait ReplyEncoder: Send {
    fn begin(&mut self, usage: Option<ReplyUsage>, out: &mut SseWriter);
    fn open_item(&mut self, item: &ReplyItem, out: &mut SseWriter);
    fn open_section(&mut self, section: ReplySection, out: &mut SseWriter);
    fn delta(&mut self, section: ReplySection, text: &str, out: &mut SseWriter);
    /// `text` is the text of all deltas of the section.
    fn close_section(&mut self, section: ReplySection, text: String, out: &mut SseWriter);
    fn close_item(&mut self, out: &mut SseWriter);
    /// Writes the last events of a stream that ends properly, or with an error.
    fn end(&mut self, ending: &ReplyEnding, usage: Option<ReplyUsage>, out: &mut SseWriter);
    /// Returns the answer to a request without `stream`.
    fn whole(&self, ending: &ReplyEnding, usage: Option<ReplyUsage>) -> (StatusCode, Value);
}

impl ModelDialect {
    /// Returns the dialect of a path, by its end.
    pub(super) fn at(path: &str) -> Option<Self> {
        let dialects = [
            ("/responses", Self::Responses),
            ("/chat/completions", Self::Chat),
            ("/messages", Self::Anthropic),
        ];
        dialects.into_iter().find_map(|(end, dialect)| path.ends_with(end).then_some(dialect))
    }

    pub(super) fn encoder(self, options: &RequestOptions, ids: Arc<IdCounter>) -> Box<dyn ReplyEncoder> {
        match self {
            Self::Responses => Box::new(ResponsesEncoder::new(options, ids)),
            Self::Chat => Box::new(ChatEncoder::new(options, ids)),
            Self::Anthropic => Box::new(AnthropicEncoder::new(options, ids)),
        }
    }

    pub(super) fn error(self, code: &str, message: &str) -> Value {
        match self {
            Self::Responses | Self::Chat => openai_error(code, message),
            Self::Anthropic => anthropic_error(code, message),
        }
    }
}

pub(super) fn openai_error(code: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message, "param": null, "type": code } })
}

pub(super) fn anthropic_error(code: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": code, "message": message } })
}

/// Encodes free text in parts as `{"input":"…"}`, for dialects that have only function calls.
pub(super) mod wrapped {
    pub(in super::super) const BEGIN: &str = r#"{"input":""#;
    pub(in super::super) const END: &str = r#""}"#;

    pub(in super::super) fn middle(text: &str) -> String {
        let quoted = serde_json::Value::from(text).to_string();
        quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or_default().to_owned()
    }
}

/// A buffer of server-sent events.
#[derive(Default)]
pub(super) struct SseWriter(Vec<u8>);

impl SseWriter {
    pub(super) fn event(&mut self, name: &str, data: &impl Serialize) {
        self.0.extend_from_slice(b"event: ");
        self.0.extend_from_slice(name.as_bytes());
        self.0.push(b'\n');
        self.data(data);
    }

    pub(super) fn data(&mut self, data: &impl Serialize) {
        self.0.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut self.0, data).expect("plain data with string keys becomes JSON");
        self.0.extend_from_slice(b"\n\n");
    }

    /// Writes the end of a stream of Chat Completions.
    pub(super) fn done(&mut self) {
        self.0.extend_from_slice(b"data: [DONE]\n\n");
    }

    pub(super) fn raw(&mut self, event: &Value) {
        match event.get("type").and_then(Value::as_str) {
            Some(name) => self.event(name, event),
            None => self.data(event),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn take(&mut self) -> Vec<u8> {
        // The next chunk is likely to be as long as this one.
        let room = Vec::with_capacity(self.0.len());
        std::mem::replace(&mut self.0, room)
    }
}

/// Ids that are the same in every run: a prefix and ten digits, counted per prefix and server.
///
/// Returns `msg_0000000001`, `msg_0000000002`, `call_0000000001` and so on.
#[derive(Default)]
pub(super) struct IdCounter {
    last: Mutex<HashMap<&'static str, u64>>,
}

impl IdCounter {
    pub(super) fn next(&self, prefix: &'static str) -> String {
        let mut last = self.last.lock();
        let number = last.entry(prefix).or_default();
        *number += 1;
        format!("{prefix}_{number:010}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_selects_the_dialect() {
        let check = |path: &str, expected| assert_eq!(ModelDialect::at(path), expected, "{path}");
        check("/v1/responses", Some(ModelDialect::Responses));
        check("/responses", Some(ModelDialect::Responses));
        check("/v1/chat/completions", Some(ModelDialect::Chat));
        check("/anthropic/v1/messages", Some(ModelDialect::Anthropic));
        check("/v1/completions", None);
        check("/v1/responses/compact", None);
    }

    #[test]
    fn wrapped_text_is_a_valid_object() {
        let text = format!(
            "{}{}{}{}",
            wrapped::BEGIN,
            wrapped::middle("a\"\n"),
            wrapped::middle("ñ\\"),
            wrapped::END
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), json!({ "input": "a\"\nñ\\" }));
    }

    #[test]
    fn each_prefix_has_its_own_counter() {
        let ids = IdCounter::default();
        assert_eq!(ids.next("msg"), "msg_0000000001");
        assert_eq!(ids.next("call"), "call_0000000001");
        assert_eq!(ids.next("msg"), "msg_0000000002");
    }
}
