//! Converts the events and the model's history of a turn into items.
//!
//! Codex stores the events of tools only on request (`persistExtendedHistory`). Without them, items of
//! commands, patches and tool calls are made from the history, which always holds the calls and their
//! outputs.

use codicil_prompts::ReviewOutput;
use codicil_protocol::{
    CommandExecutionSource, ContentItem, FunctionCallOutputBody, ItemId, LocalShellAction,
    ReasoningItemContent, ReasoningItemReasoningSummary, ResponseItem, ResponsesApiWebSearchAction,
    ThreadItem, UserInput, WebSearchAction,
};
use serde_json::Value;

use super::{
    convert::RolloutConverter,
    rollout::{member, owned, text},
    tool_items::{self, CommandResult},
    whole_items,
};

/// A tool call without an output yet.
pub struct OpenCall {
    pub namespace: Option<String>,
    pub name: String,
    /// The arguments, as the model wrote them.
    pub input: String,
}

/// Returns whether a message is the user's input, in files without events.
pub fn is_input(item: &ResponseItem) -> bool {
    matches!(item, ResponseItem::Message { role, .. } if role == "user")
        && !codicil_prompts::is_context_message(item)
        && !codicil_prompts::message_text(item).trim_start().starts_with('<')
}

pub fn user_message(converter: &mut RolloutConverter<'_>, event: &Value) -> ThreadItem {
    let mut content = vec![UserInput::Text {
        text: owned(event, "message"),
        text_elements: member(event, "text_elements").unwrap_or_default(),
    }];
    let list = |name| member::<Vec<String>>(event, name).unwrap_or_default();
    content.extend(list("images").into_iter().map(UserInput::image));
    content.extend(list("local_images").into_iter().map(UserInput::local_image));
    ThreadItem::UserMessage { id: converter.next_id(), content, client_id: None }
}

/// Returns the item of an event, if it has one.
pub fn from_event(converter: &mut RolloutConverter<'_>, event: &Value) -> Option<ThreadItem> {
    let call_id = || ItemId::from(owned(event, "call_id"));
    let item = match text(event, "type")? {
        "agent_message" => ThreadItem::AgentMessage {
            id: converter.next_id(),
            text: owned(event, "message"),
            phase: member(event, "phase"),
            memory_citation: None,
            delivery: None,
            questions: None,
        },
        "item_completed" => return whole_items::from_item(converter, event.get("item")?),
        "context_compacted" => ThreadItem::ContextCompaction { id: converter.next_id() },
        "entered_review_mode" => {
            let id = converter.next_id();
            let item = ThreadItem::EnteredReviewMode { id, review: owned(event, "user_facing_hint") };
            // Codex emits this event before the turn begins.
            match converter.turn {
                Some(_) => return Some(item),
                None => converter.waiting_items.push(item),
            }
            return None;
        }
        "exited_review_mode" => {
            let output = member::<ReviewOutput>(event, "review_output").unwrap_or_default();
            ThreadItem::ExitedReviewMode { id: converter.next_id(), review: output.text() }
        }
        "exec_command_end" => tool_items::command_event(event),
        "patch_apply_end" => tool_items::patch_event(event),
        "mcp_tool_call_end" => tool_items::mcp_event(event),
        "dynamic_tool_call_response" => tool_items::dynamic_event(event),
        "image_generation_end" => ThreadItem::ImageGeneration {
            id: call_id(),
            status: owned(event, "status"),
            revised_prompt: member(event, "revised_prompt"),
            result: owned(event, "result"),
            saved_path: member(event, "saved_path"),
            failure: None,
            generation_id: None,
            input_images: Vec::new(),
            transparent_background: None,
        },
        "web_search_end" => {
            converter.search_has_event = true;
            let action = member::<ResponsesApiWebSearchAction>(event, "action").map(search_action);
            return Some(ThreadItem::WebSearch {
                id: call_id(),
                query: owned(event, "query"),
                action,
                results: None,
            });
        }
        _ => return None,
    };
    if let Some(call) = text(event, "call_id") {
        converter.calls_with_events.insert(call.to_owned());
    }
    Some(item)
}

/// Returns the item of an entry of the history, unless an event has reported it.
pub fn from_history(converter: &mut RolloutConverter<'_>, item: &ResponseItem) -> Option<ThreadItem> {
    match item {
        ResponseItem::Message { .. }
        | ResponseItem::Reasoning { .. }
        | ResponseItem::WebSearchCall { .. }
            if converter.head.has_whole_items =>
        {
            None
        }
        ResponseItem::Message { role, .. } => from_message(converter, role, item),
        ResponseItem::Reasoning { summary, content, .. } => reasoning(converter, summary, content.as_deref()),
        ResponseItem::FunctionCall { call_id, namespace, name, arguments, .. } => {
            open_call(converter, call_id, namespace.as_deref(), name, arguments)
        }
        ResponseItem::CustomToolCall { call_id, name, input, .. } => {
            open_call(converter, call_id, None, name, input)
        }
        ResponseItem::LocalShellCall { call_id: Some(call_id), action, .. } => {
            let LocalShellAction::Exec { command, working_directory, .. } = action else { return None };
            let input = serde_json::json!({ "command": command, "workdir": working_directory });
            open_call(converter, call_id, None, "shell", &input.to_string())
        }
        ResponseItem::FunctionCallOutput { call_id: Some(call_id), output, .. }
        | ResponseItem::CustomToolCallOutput { call_id, output, .. } => {
            tool_output(converter, call_id, output)
        }
        ResponseItem::WebSearchCall { action, .. } => {
            if std::mem::take(&mut converter.search_has_event) {
                return None;
            }
            let action = action.clone().map(search_action);
            let query = action.as_ref().map(query).unwrap_or_default();
            Some(ThreadItem::WebSearch { id: converter.next_id(), query, action, results: None })
        }
        _ => None,
    }
}

fn from_message(converter: &mut RolloutConverter<'_>, role: &str, item: &ResponseItem) -> Option<ThreadItem> {
    let text = codicil_prompts::message_text(item);
    if role == "user"
        && let Some(result) = tool_items::user_command(&text)
    {
        let id = converter.next_id();
        return Some(result.item(id, converter.cwd.clone(), CommandExecutionSource::UserShell));
    }
    // In files with events, messages come from those.
    if !converter.head.is_bare {
        return None;
    }
    match role {
        "assistant" => Some(ThreadItem::AgentMessage {
            id: converter.next_id(),
            text,
            phase: None,
            memory_citation: None,
            delivery: None,
            questions: None,
        }),
        "user" if is_input(item) => {
            let ResponseItem::Message { content, .. } = item else { return None };
            let content = content.iter().filter_map(input).collect();
            Some(ThreadItem::UserMessage { id: converter.next_id(), content, client_id: None })
        }
        _ => None,
    }
}

fn input(part: &ContentItem) -> Option<UserInput> {
    match part {
        ContentItem::InputText { text } => {
            Some(UserInput::Text { text: text.clone(), text_elements: Vec::new() })
        }
        ContentItem::InputImage { source, .. } => source.url().map(UserInput::image),
        _ => None,
    }
}

fn reasoning(
    converter: &mut RolloutConverter<'_>,
    summary: &[ReasoningItemReasoningSummary],
    content: Option<&[ReasoningItemContent]>,
) -> Option<ThreadItem> {
    let summary: Vec<_> = summary
        .iter()
        .filter_map(|part| match part {
            ReasoningItemReasoningSummary::SummaryText { text } => Some(text.clone()),
            ReasoningItemReasoningSummary::Unrecognized(_) => None,
        })
        .collect();
    let content: Vec<_> = (content.unwrap_or_default().iter())
        .filter_map(|part| match part {
            ReasoningItemContent::ReasoningText { text } | ReasoningItemContent::Text { text } => {
                Some(text.clone())
            }
            ReasoningItemContent::Unrecognized(_) => None,
        })
        .collect();
    (!summary.is_empty() || !content.is_empty()).then(|| ThreadItem::Reasoning {
        id: converter.next_id(),
        summary,
        content,
    })
}

/// Remembers a tool call until its output follows. A call has no item of its own.
fn open_call(
    converter: &mut RolloutConverter<'_>,
    id: &str,
    namespace: Option<&str>,
    name: &str,
    input: &str,
) -> Option<ThreadItem> {
    let (namespace, name) = match namespace {
        // In later files, each MCP server has a namespace.
        Some(server) if server.starts_with("mcp__") => {
            (None, format!("{}__{name}", server.trim_end_matches('_')))
        }
        namespace => (namespace.map(str::to_owned), name.to_owned()),
    };
    let call = OpenCall { namespace, name, input: input.to_owned() };
    converter.calls.insert(id.to_owned(), call);
    None
}

fn tool_output(
    converter: &mut RolloutConverter<'_>,
    id: &str,
    output: &FunctionCallOutputBody,
) -> Option<ThreadItem> {
    let call = converter.calls.remove(id).filter(|_| !converter.calls_with_events.contains(id))?;
    let arguments: Value = serde_json::from_str(&call.input).unwrap_or_default();
    let id = ItemId::from(id);
    let output = output.text();
    match call.name.as_str() {
        "exec_command" | "shell_command" | "shell" | "container.exec" | "local_shell" => {
            let cwd = text(&arguments, "workdir").unwrap_or(&converter.cwd).to_owned();
            let source = match call.name.as_str() {
                "exec_command" => CommandExecutionSource::UnifiedExecStartup,
                _ => CommandExecutionSource::Agent,
            };
            Some(CommandResult::from_call(&arguments, &output)?.item(id, cwd, source))
        }
        "apply_patch" => tool_items::patch(id, &call.input, &arguments, &output, &converter.cwd),
        "view_image" => Some(ThreadItem::ImageView { id, path: owned(&arguments, "path") }),
        name => match name.strip_prefix("mcp__").and_then(|name| name.split_once("__")) {
            Some((server, tool)) => Some(tool_items::mcp(id, server, tool, arguments, &output)),
            None if is_dynamic(converter, &call) => {
                Some(tool_items::dynamic(id, call.namespace.clone(), name, arguments, output))
            }
            None => None,
        },
    }
}

/// Returns whether the call is for a tool of the client.
fn is_dynamic(converter: &RolloutConverter<'_>, call: &OpenCall) -> bool {
    let tools = converter.head.meta.dynamic_tools.iter().flat_map(|entry| entry.tools());
    let mut names = tools.map(|(space, tool)| (space.map(|space| space.name.as_str()), tool.name.as_str()));
    names.any(|name| name == (call.namespace.as_deref(), call.name.as_str()))
}

/// Converts the action of a search from the model's form to the protocol's.
pub fn search_action(action: ResponsesApiWebSearchAction) -> WebSearchAction {
    match action {
        ResponsesApiWebSearchAction::Search { query, queries } => WebSearchAction::Search { query, queries },
        ResponsesApiWebSearchAction::OpenPage { url } => WebSearchAction::OpenPage { url },
        ResponsesApiWebSearchAction::FindInPage { url, pattern } => {
            WebSearchAction::FindInPage { url, pattern }
        }
        _ => WebSearchAction::Other,
    }
}

/// Returns the text that describes a search.
fn query(action: &WebSearchAction) -> String {
    match action {
        WebSearchAction::Search { query: Some(query), .. } => query.clone(),
        WebSearchAction::Search { queries: Some(queries), .. } => match queries.as_slice() {
            [query] => query.clone(),
            [first, ..] => format!("{first} ..."),
            [] => String::new(),
        },
        WebSearchAction::OpenPage { url: Some(url) } => url.clone(),
        WebSearchAction::FindInPage { url: Some(url), pattern: Some(pattern) } => {
            format!("'{pattern}' in {url}")
        }
        _ => String::new(),
    }
}
