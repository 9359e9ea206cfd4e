//! A request of any dialect as the scripted model sees it: the conversation, the tools, the schema.
//!
//! Only what a script can look at is read. What is not understood is left out: a test server has no say in
//! what its clients send.

use std::sync::Arc;

use codicil_model::{History, ModelRequest, ToolSpec};
use codicil_protocol::{ContentItem, FunctionCallOutputBody, ResponseItem};
use serde_json::{Value, json};

use super::recorded::{RecordedRequest, text};

pub(super) fn request(recorded: &RecordedRequest) -> ModelRequest {
    let body = recorded.body();
    let mut input = History::new();
    match body.get("input") {
        Some(Value::String(text)) => input.push(said("user", text)),
        Some(_) => recorded.input().iter().filter_map(item).for_each(|item| input.push(item)),
        None => recorded.input().iter().flat_map(items_of_message).for_each(|item| input.push(item)),
    }
    ModelRequest {
        model: recorded.model().unwrap_or_default().to_owned(),
        instructions: body.get("instructions").and_then(Value::as_str).unwrap_or_default().into(),
        input,
        tools: body.get("tools").and_then(Value::as_array).into_iter().flatten().filter_map(tool).collect(),
        output_schema: output_schema(body).cloned().map(Arc::new),
        ..ModelRequest::default()
    }
}

/// An entry of `input`. Messages may leave out their type.
fn item(entry: &Value) -> Option<ResponseItem> {
    let mut entry = entry.clone();
    if let Some(members) = entry.as_object_mut() {
        members.entry("type").or_insert_with(|| json!("message"));
        if let Some(text) = members.get("content").and_then(Value::as_str) {
            let role = members.get("role").and_then(Value::as_str).unwrap_or("user");
            return Some(said(role, text));
        }
    }
    serde_json::from_value(entry).ok()
}

/// What one of `messages` holds, in both of the dialects that have them.
fn items_of_message(message: &Value) -> Vec<ResponseItem> {
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    let content = message.get("content").unwrap_or(&Value::Null);
    if role == "tool" {
        return vec![output(message.get("tool_call_id"), content)];
    }
    let mut items: Vec<_> = text(content).map(|text| said(role, &text)).into_iter().collect();
    for block in content.as_array().into_iter().flatten() {
        match block.get("type").and_then(Value::as_str) {
            Some("tool_use") => items.push(call(block.get("id"), block.get("name"), block.get("input"))),
            Some("tool_result") => {
                let content = block.get("content").unwrap_or(&Value::Null);
                items.push(output(block.get("tool_use_id"), content));
            }
            _ => {}
        }
    }
    for made in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = made.get("function").unwrap_or(&Value::Null);
        items.push(call(made.get("id"), function.get("name"), function.get("arguments")));
    }
    items
}

fn said(role: &str, text: &str) -> ResponseItem {
    let text = text.to_owned();
    let content = match role {
        "assistant" => ContentItem::OutputText { text },
        _ => ContentItem::InputText { text },
    };
    ResponseItem::Message {
        id: None,
        role: role.to_owned(),
        content: vec![content],
        end_turn: None,
        phase: None,
    }
}

fn call(id: Option<&Value>, name: Option<&Value>, arguments: Option<&Value>) -> ResponseItem {
    let arguments = arguments.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    ResponseItem::FunctionCall {
        id: None,
        call_id: word(id),
        name: word(name),
        namespace: None,
        arguments: arguments.unwrap_or_default(),
    }
}

fn output(call_id: Option<&Value>, content: &Value) -> ResponseItem {
    let output = FunctionCallOutputBody::Text(text(content).unwrap_or_default());
    ResponseItem::FunctionCallOutput { call_id: word(call_id), output }
}

fn word(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Only its name and kind matter.
fn tool(tool: &Value) -> Option<ToolSpec> {
    let function = tool.get("function").unwrap_or(tool);
    let name = function.get("name").or_else(|| tool.get("type"))?.as_str()?.to_owned();
    let description = String::new();
    Some(match tool.get("type").and_then(Value::as_str) {
        Some("custom") => ToolSpec::Custom { name, description, grammar: None },
        _ => ToolSpec::Function { name, description, parameters: Value::Null, strict: false },
    })
}

/// The schema of the answer, where each dialect has it.
fn output_schema(body: &Value) -> Option<&Value> {
    let places =
        ["/text/format/schema", "/response_format/json_schema/schema", "/output_config/format/schema"];
    places.iter().find_map(|place| body.pointer(place))
}
