//! A recorded request, with accessors for tests.
//!
//! The body is parsed on first use, so that recording costs little under load. The accessors read all three
//! dialects.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use hyper::{HeaderMap, http::request::Parts};
use serde_json::Value;

/// One request; cheap to clone.
#[derive(Clone)]
pub struct RecordedRequest(Arc<RequestContent>);

struct RequestContent {
    number: u64,
    method: String,
    path: String,
    query: Option<String>,
    headers: HeaderMap,
    body: Bytes,
    json: OnceLock<Value>,
}

/// Omits headers and body: they hold keys and prompts, and a failing test prints this.
impl fmt::Debug for RecordedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {} {} ({} bytes)", self.number(), self.method(), self.path(), self.0.body.len())
    }
}

impl RecordedRequest {
    pub(super) fn new(number: u64, parts: &Parts, body: Bytes) -> Self {
        Self(Arc::new(RequestContent {
            number,
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().map(str::to_owned),
            headers: parts.headers.clone(),
            body,
            json: OnceLock::new(),
        }))
    }

    /// Returns the number of the request, counted from 1.
    pub fn number(&self) -> u64 {
        self.0.number
    }

    /// Returns the method, such as `POST`.
    pub fn method(&self) -> &str {
        &self.0.method
    }

    /// Returns the path without its query, such as `/v1/responses`.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns the query, without the `?`.
    pub fn query(&self) -> Option<&str> {
        self.0.query.as_deref()
    }

    /// Returns a header by its name, in any case; `None` also for one that is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.0.headers.get(name)?.to_str().ok()
    }

    /// Returns the body as JSON; null if it was empty or invalid.
    pub fn body(&self) -> &Value {
        self.0.json.get_or_init(|| serde_json::from_slice(&self.0.body).unwrap_or_default())
    }

    /// Returns the body as it was sent.
    pub fn bytes(&self) -> &Bytes {
        &self.0.body
    }

    /// Returns the requested model.
    pub fn model(&self) -> Option<&str> {
        self.body().get("model")?.as_str()
    }

    /// Returns the history: `input` of Responses, `messages` of the other dialects.
    pub fn input(&self) -> &[Value] {
        let body = self.body();
        let list = body.get("input").or_else(|| body.get("messages")).and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// Returns the names of the offered tools. A tool of the provider is named by its type.
    pub fn tools(&self) -> Vec<&str> {
        let list = self.body().get("tools").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(tool_name).collect()
    }

    /// Returns the text of the user's last message that has text, its parts joined with line breaks.
    pub fn last_user_text(&self) -> Option<String> {
        if let Some(text) = self.body().get("input").and_then(Value::as_str) {
            return Some(text.to_owned());
        }
        let messages = self.input().iter().rev();
        messages.filter(|message| message.get("role").is_some_and(|role| role == "user")).find_map(text_of)
    }

    /// Returns the output of a tool call.
    pub fn tool_output(&self, call_id: &str) -> Option<String> {
        let is = |item: &Value, key: &str| item.get(key).is_some_and(|id| id == call_id);
        self.input().iter().rev().find_map(|item| {
            if item.get("output").is_some() && is(item, "call_id") {
                return text(item.get("output")?);
            }
            if is(item, "tool_call_id") {
                return text_of(item);
            }
            let blocks = item.get("content").and_then(Value::as_array)?;
            blocks.iter().find(|block| is(block, "tool_use_id")).and_then(text_of)
        })
    }
}

fn tool_name(tool: &Value) -> Option<&str> {
    let function = tool.get("function").unwrap_or(tool);
    function.get("name").or_else(|| tool.get("type"))?.as_str()
}

fn text_of(message: &Value) -> Option<String> {
    text(message.get("content")?)
}

/// Returns the text of a string, or of a list of parts.
pub(super) fn text(content: &Value) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let parts = content.as_array()?.iter().filter_map(|part| part.get("text")?.as_str());
    let texts: Vec<&str> = parts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recorded(body: Value) -> RecordedRequest {
        let request = hyper::Request::post("/v1/responses?a=b").header("Authorization", "Bearer secret");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        RecordedRequest::new(1, &parts, body.to_string().into())
    }

    #[test]
    fn the_last_text_of_the_user_is_found_in_each_dialect() {
        let check = |body: Value| assert_eq!(recorded(body).last_user_text().as_deref(), Some("a\nb"));
        check(json!({ "input": "a\nb" }));
        check(json!({ "input": [
            { "type": "message", "role": "user", "content": [
                { "type": "input_text", "text": "a" }, { "type": "input_text", "text": "b" } ] },
            { "type": "function_call_output", "call_id": "c", "output": "x" },
        ] }));
        check(json!({ "messages": [
            { "role": "user", "content": "a\nb" }, { "role": "tool", "tool_call_id": "c", "content": "x" },
        ] }));
        check(json!({ "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "a\nb" }] },
            { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": "c", "content": "x" }] },
        ] }));
    }

    #[test]
    fn the_result_of_a_call_is_found_in_each_dialect() {
        let check = |body: Value| {
            let recorded = recorded(body);
            assert_eq!(recorded.tool_output("c").as_deref(), Some("x"));
            assert_eq!(recorded.tool_output("d"), None);
        };
        check(json!({ "input": [
            { "type": "function_call", "call_id": "c", "name": "ls" },
            { "type": "function_call_output", "call_id": "c", "output": "x" },
        ] }));
        check(json!({ "input": [{ "type": "custom_tool_call_output", "call_id": "c", "output": [
            { "type": "input_text", "text": "x" }, { "type": "input_image" } ] }] }));
        check(json!({ "messages": [{ "role": "tool", "tool_call_id": "c", "content": "x" }] }));
        check(json!({ "messages": [{ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "c", "content": [{ "type": "text", "text": "x" }] } ] }] }));
    }

    #[test]
    fn tools_are_named_in_each_dialect() {
        let tools = json!([
            { "type": "function", "name": "a" }, { "type": "web_search" },
            { "type": "function", "function": { "name": "b" } }, { "name": "c", "input_schema": {} },
        ]);
        assert_eq!(recorded(json!({ "tools": tools })).tools(), ["a", "web_search", "b", "c"]);
    }

    #[test]
    fn debug_output_contains_no_keys() {
        let recorded = recorded(json!({ "model": "m" }));
        assert_eq!(recorded.header("authorization"), Some("Bearer secret"));
        assert_eq!(format!("{recorded:?}"), "#1 POST /v1/responses (13 bytes)");
        assert_eq!((recorded.query(), recorded.model()), (Some("a=b"), Some("m")));
    }
}
