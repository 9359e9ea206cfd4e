//! Converts a request of any dialect to a [`ModelRequest`], which script files are matched against.
//!
//! Only the fields that a script can refer to are converted: history, tools, output schema. Unknown entries
//! are skipped.

use std::sync::Arc;

use codicil_model::{History, ModelRequest, ToolSpec};
use codicil_protocol::{ContentItem, FunctionCallOutputBody, ResponseItem};
use serde_json::{Value, json};

use super::recorded::{RecordedRequest, text};

pub(super) fn from_recorded(recorded: &RecordedRequest) -> ModelRequest {
    let body = recorded.body();
    let mut input = History::new();
    match body.get("input") {
        Some(Value::String(text)) => input.push(message_item("user", text)),
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

/// Parses an entry of `input`. Messages may omit their type.
fn item(entry: &Value) -> Option<ResponseItem> {
    let mut entry = entry.clone();
    if let Some(members) = entry.as_object_mut() {
        members.entry("type").or_insert_with(|| json!("message"));
        if let Some(text) = members.get("content").and_then(Value::as_str) {
            let role = members.get("role").and_then(Value::as_str).unwrap_or("user");
            return Some(message_item(role, text));
        }
    }
    serde_json::from_value(entry).ok()
}

/// Returns the items of an entry of `messages`, in both dialects that have them.
fn items_of_message(message: &Value) -> Vec<ResponseItem> {
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    let content = message.get("content").unwrap_or(&Value::Null);
    if role == "tool" {
        return vec![output_item(message.get("tool_call_id"), content)];
    }
    let mut items: Vec<_> = text(content).map(|text| message_item(role, &text)).into_iter().collect();
    for block in content.as_array().into_iter().flatten() {
        match block.get("type").and_then(Value::as_str) {
            Some("tool_use") => items.push(call_item(block.get("id"), block.get("name"), block.get("input"))),
            Some("tool_result") => {
                let content = block.get("content").unwrap_or(&Value::Null);
                items.push(output_item(block.get("tool_use_id"), content));
            }
            _ => {}
        }
    }
    for tool_call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
        let function = tool_call.get("function").unwrap_or(&Value::Null);
        items.push(call_item(tool_call.get("id"), function.get("name"), function.get("arguments")));
    }
    items
}

fn message_item(role: &str, text: &str) -> ResponseItem {
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

fn call_item(id: Option<&Value>, name: Option<&Value>, arguments: Option<&Value>) -> ResponseItem {
    let arguments = arguments.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    ResponseItem::FunctionCall {
        id: None,
        call_id: text_of(id),
        name: text_of(name),
        namespace: None,
        arguments: arguments.unwrap_or_default(),
    }
}

fn output_item(call_id: Option<&Value>, content: &Value) -> ResponseItem {
    let output = FunctionCallOutputBody::Text(text(content).unwrap_or_default());
    ResponseItem::function_call_output(text_of(call_id), output)
}

fn text_of(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns a tool with its name and kind, which is all that a script refers to.
fn tool(tool: &Value) -> Option<ToolSpec> {
    let function = tool.get("function").unwrap_or(tool);
    let name = function.get("name").or_else(|| tool.get("type"))?.as_str()?.to_owned();
    let description = String::new();
    Some(match tool.get("type").and_then(Value::as_str) {
        Some("custom") => ToolSpec::Custom { name, description, grammar: None },
        _ => ToolSpec::Function { name, description, parameters: Value::Null, strict: false },
    })
}

/// Returns the output schema, wherever the dialect has it.
fn output_schema(body: &Value) -> Option<&Value> {
    let pointers =
        ["/text/format/schema", "/response_format/json_schema/schema", "/output_config/format/schema"];
    pointers.iter().find_map(|pointer| body.pointer(pointer))
}
