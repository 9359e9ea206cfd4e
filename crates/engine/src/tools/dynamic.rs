//! Tools that the client runs: checked when the thread starts, called over the protocol.

use std::{collections::BTreeSet, time::Instant};

use codicil_model::{ToolSpec, joined_name};
use codicil_protocol::{
    DynamicToolCall, DynamicToolCallOutputContentItem, DynamicToolCallParams, DynamicToolCallResponse,
    DynamicToolCallStatus, DynamicToolEntry, DynamicToolNamespace, DynamicToolSpec, FunctionCallOutputBody,
    FunctionCallOutputContentItem, ThreadItem,
};
use serde::de::Unexpected;
use serde_json::Value;

use super::{
    TurnTools,
    ask::{AskingCall, QuestionKind, QuestionReply},
    call::{ToolCall, ToolInput, ToolOutput, ToolResult, text_output},
};
use crate::clock::millis;

/// The result of looking for a called tool among those of the client.
pub(super) enum DynamicMatch<'t> {
    Tool(NamedDynamicTool<'t>),
    /// The namespace is the client's, but has no such tool.
    UnknownInNamespace,
    NotDynamic,
}

/// A tool of the client, by its name.
#[derive(Clone, Copy)]
pub(super) struct NamedDynamicTool<'t> {
    namespace: Option<&'t str>,
    name: &'t str,
}

/// Describes a tool to the model, in its namespace if it has one.
pub(super) fn tool_spec(namespace: Option<&DynamicToolNamespace>, tool: &DynamicToolSpec) -> ToolSpec {
    let function = ToolSpec::Function {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.input_schema.clone(),
        strict: false,
    };
    match namespace {
        None => function,
        Some(DynamicToolNamespace { name, description, .. }) => ToolSpec::Namespace {
            name: name.clone(),
            description: description.clone(),
            tools: vec![function],
        },
    }
}

/// Finds the tool that a call names. Providers without namespaces call tools by their joined names.
pub(super) fn find_tool<'t>(tools: &'t [DynamicToolEntry], call: &ToolCall) -> DynamicMatch<'t> {
    let namespaces = tools.iter().filter_map(|entry| match entry {
        DynamicToolEntry::Namespace(namespace) => Some(namespace),
        DynamicToolEntry::Tool(_) => None,
    });
    let mut names_known_namespace = false;
    for namespace in namespaces {
        let is_named = call.namespace.as_ref() == Some(&namespace.name);
        names_known_namespace |= is_named;
        let is_called = |tool: &DynamicToolSpec| {
            if is_named {
                tool.name == call.name
            } else {
                call.namespace.is_none() && joined_name(Some(&namespace.name), &tool.name) == call.name
            }
        };
        if let Some(tool) = namespace.tools.iter().find(|tool| is_called(tool)) {
            return DynamicMatch::Tool(NamedDynamicTool {
                namespace: Some(&namespace.name),
                name: &tool.name,
            });
        }
    }
    if names_known_namespace {
        return DynamicMatch::UnknownInNamespace;
    }
    let tool = tools.iter().find_map(|entry| match entry {
        DynamicToolEntry::Tool(tool) if tool.name == call.name => Some(tool),
        _ => None,
    });
    match tool {
        Some(tool) => DynamicMatch::Tool(NamedDynamicTool { namespace: None, name: &tool.name }),
        None => DynamicMatch::NotDynamic,
    }
}

/// Has the client run a call.
pub(super) async fn call_tool(turn: &TurnTools, call: &ToolCall, tool: NamedDynamicTool<'_>) -> ToolResult {
    let arguments = match &call.input {
        ToolInput::Arguments(_) => call.arguments::<Value>()?,
        ToolInput::Text(text) => Value::String(text.clone()),
    };
    let began = Instant::now();
    let item = |status, response: Option<&DynamicToolCallResponse>| ThreadItem::DynamicToolCall {
        id: call.item_id(),
        namespace: tool.namespace.map(str::to_owned),
        tool: tool.name.to_owned(),
        arguments: arguments.clone(),
        status,
        content_items: response.map(|response| response.content_items.clone()),
        success: response.map(|response| response.success),
        duration_ms: response.map(|_| millis(began.elapsed())),
    };
    turn.emit_started(item(DynamicToolCallStatus::InProgress, None)).await;
    let params = DynamicToolCallParams {
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        call_id: call.id.clone(),
        namespace: tool.namespace.map(str::to_owned),
        tool: tool.name.to_owned(),
        arguments: arguments.clone(),
    };
    let limit = turn.config.settings.codicil.deadlines.tool;
    let asker = AskingCall { call_id: &call.id, item: Some(item(DynamicToolCallStatus::InProgress, None)) };
    let reply = turn.asker().ask_within::<DynamicToolCall>(params, QuestionKind::Call, asker, limit).await?;
    let response = match reply {
        Some(QuestionReply::Answer(response)) if response.content_items.iter().all(is_known) => response,
        Some(QuestionReply::Answer(_) | QuestionReply::Unreadable) => {
            failed_response("dynamic tool response was invalid")
        }
        Some(QuestionReply::Error) => failed_response("dynamic tool request failed"),
        None => failed_response(&format!("dynamic tool call timed out after {} ms", limit.as_millis())),
    };
    let status =
        if response.success { DynamicToolCallStatus::Completed } else { DynamicToolCallStatus::Failed };
    turn.emit_completed(item(status, Some(&response))).await;
    Ok(model_output(response))
}

fn failed_response(text: &str) -> DynamicToolCallResponse {
    let text = DynamicToolCallOutputContentItem::InputText { text: text.to_owned() };
    DynamicToolCallResponse { content_items: vec![text], success: false }
}

fn is_known(part: &DynamicToolCallOutputContentItem) -> bool {
    !matches!(part, DynamicToolCallOutputContentItem::Unrecognized(_))
}

/// A single text becomes plain text for the model; anything else stays a list of parts.
fn model_output(response: DynamicToolCallResponse) -> ToolOutput {
    let parts = response.content_items.into_iter().filter_map(|part| match part {
        DynamicToolCallOutputContentItem::InputText { text } => {
            Some(FunctionCallOutputContentItem::InputText { text })
        }
        DynamicToolCallOutputContentItem::InputImage { image_url } => {
            Some(FunctionCallOutputContentItem::image(image_url))
        }
        DynamicToolCallOutputContentItem::InputAudio { audio_url } => {
            Some(FunctionCallOutputContentItem::InputAudio { audio_url })
        }
        DynamicToolCallOutputContentItem::Unrecognized(_) => None,
    });
    let mut parts: Vec<_> = parts.collect();
    match parts.as_mut_slice() {
        [] => text_output(String::new()),
        [FunctionCallOutputContentItem::InputText { text }] => text_output(std::mem::take(text)),
        _ => FunctionCallOutputBody::Content(parts),
    }
}

/// The limits of the Responses API for namespaces.
const MAX_NAMESPACE_BYTES: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1024;

/// Namespaces that the Responses API reserves for tools of its own.
const RESERVED_NAMESPACES: &[&str] = &[
    "api_tool",
    "browser",
    "computer",
    "container",
    "file_search",
    "functions",
    "image_gen",
    "multi_tool_use",
    "python",
    "python_user_visible",
    "submodel_delegator",
    "terminal",
    "tool_search",
    "web",
];

/// Checks the tools of a client. The error texts are the reference server's.
pub(crate) fn check_dynamic_tools(tools: &[DynamicToolEntry]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for entry in tools {
        if let DynamicToolEntry::Namespace(namespace) = entry {
            check_namespace(namespace)?;
        }
        for (namespace, tool) in entry.tools() {
            let namespace = namespace.map(|namespace| namespace.name.as_str());
            check_tool(tool)?;
            if !names.insert((namespace, tool.name.as_str())) {
                let name = &tool.name;
                return Err(match namespace {
                    None => format!("duplicate dynamic tool name: {name}"),
                    Some(namespace) => {
                        format!("duplicate dynamic tool name in namespace {namespace}: {name}")
                    }
                });
            }
            if namespace.is_some() && !has_plain_letters(&tool.name) {
                return Err(unsupported_letters("name", &tool.name));
            }
        }
    }
    Ok(())
}

fn check_namespace(namespace: &DynamicToolNamespace) -> Result<(), String> {
    let name = namespace.name.as_str();
    check_name("namespace", name)?;
    if !has_plain_letters(name) {
        return Err(unsupported_letters("namespace", name));
    }
    if name.len() > MAX_NAMESPACE_BYTES {
        return Err(format!(
            "dynamic tool namespace must be at most {MAX_NAMESPACE_BYTES} characters to match Responses API: {name}"
        ));
    }
    if RESERVED_NAMESPACES.contains(&name) {
        return Err(format!(
            "dynamic tool namespace collides with a reserved Responses API namespace: {name}"
        ));
    }
    if namespace.description.chars().count() > MAX_DESCRIPTION_CHARS {
        return Err(format!(
            "dynamic tool namespace description must be at most {MAX_DESCRIPTION_CHARS} characters"
        ));
    }
    if namespace.tools.is_empty() {
        return Err(format!("dynamic tool namespace must contain at least one tool: {name}"));
    }
    Ok(())
}

fn check_tool(tool: &DynamicToolSpec) -> Result<(), String> {
    check_name("name", &tool.name)?;
    check_schema(&tool.input_schema)
        .map_err(|reason| format!("dynamic tool input schema is not supported for {}: {reason}", tool.name))
}

fn check_name(field: &str, given: &str) -> Result<(), String> {
    let name = given.trim();
    if name.is_empty() {
        return Err(format!("dynamic tool {field} must not be empty"));
    }
    if name != given {
        return Err(format!("dynamic tool {field} has leading/trailing whitespace: {given}"));
    }
    if name == "mcp" || name.starts_with("mcp__") {
        return Err(format!("dynamic tool {field} is reserved: {name}"));
    }
    Ok(())
}

fn has_plain_letters(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn unsupported_letters(field: &str, name: &str) -> String {
    format!("dynamic tool {field} must match ^[a-zA-Z0-9_-]+$ to match Responses API: {name}")
}

/// Accepts any object: only the client and the model interpret the schema.
fn check_schema(schema: &Value) -> Result<(), String> {
    let actual = match schema {
        Value::Object(_) => return Ok(()),
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
    };
    Err(format!("invalid type: {actual}, expected internally tagged enum JsonSchema"))
}
