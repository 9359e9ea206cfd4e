//! What people see of a turn: from the events of a rollout, and where those are missing from the history.
//!
//! Codex stores the events of tools only on request. What the model asked for and was answered is always there,
//! so commands, patches and calls are shown from that, as far as it tells.

use codicil_prompts::ReviewOutput;
use codicil_protocol::{
    CommandExecutionSource, ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem, ItemId,
    LocalShellAction, ReasoningItemContent, ReasoningItemReasoningSummary, ResponseItem,
    ResponsesApiWebSearchAction, ThreadItem, UserInput, WebSearchAction,
};
use serde_json::Value;

use super::{
    convert::RolloutConverter,
    outputs::{self, CommandResult},
    rollout::{member, owned, text},
    typed,
};

/// A tool that was called and has not answered.
pub struct OpenCall {
    pub namespace: Option<String>,
    pub name: String,
    /// As the model wrote it.
    pub input: String,
}

/// Whether a message is what a person said, in files that have no events.
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
    content.extend(list("images").into_iter().map(|url| UserInput::Image { url }));
    content.extend(list("local_images").into_iter().map(|path| UserInput::LocalImage { path }));
    ThreadItem::UserMessage { id: converter.next_id(), content }
}

/// The item that an event tells of, if it does.
pub fn of_event(converter: &mut RolloutConverter<'_>, event: &Value) -> Option<ThreadItem> {
    let call = || ItemId::from(owned(event, "call_id"));
    let item = match text(event, "type")? {
        "agent_message" => ThreadItem::AgentMessage {
            id: converter.next_id(),
            text: owned(event, "message"),
            phase: member(event, "phase"),
            memory_citation: None,
        },
        "item_completed" => return typed::of_item(converter, event.get("item")?),
        "context_compacted" => ThreadItem::ContextCompaction { id: converter.next_id() },
        "entered_review_mode" => {
            let id = converter.next_id();
            let item = ThreadItem::EnteredReviewMode { id, review: owned(event, "user_facing_hint") };
            // It is told before the turn begins.
            match converter.turn {
                Some(_) => return Some(item),
                None => converter.waiting.push(item),
            }
            return None;
        }
        "exited_review_mode" => {
            let output = member::<ReviewOutput>(event, "review_output").unwrap_or_default();
            ThreadItem::ExitedReviewMode { id: converter.next_id(), review: output.text() }
        }
        "exec_command_end" => outputs::command_event(event),
        "patch_apply_end" => outputs::patch_event(event),
        "mcp_tool_call_end" => outputs::mcp_event(event),
        "dynamic_tool_call_response" => outputs::dynamic_event(event),
        "image_generation_end" => ThreadItem::ImageGeneration {
            id: call(),
            status: owned(event, "status"),
            revised_prompt: member(event, "revised_prompt"),
            result: owned(event, "result"),
            saved_path: member(event, "saved_path"),
        },
        "web_search_end" => {
            converter.search_told = true;
            let action = member::<ResponsesApiWebSearchAction>(event, "action").map(searched);
            return Some(ThreadItem::WebSearch { id: call(), query: owned(event, "query"), action });
        }
        _ => return None,
    };
    if let Some(call) = text(event, "call_id") {
        converter.told.insert(call.to_owned());
    }
    Some(item)
}

/// The item that an entry of the history stands for, unless an event told of it.
pub fn of_history(converter: &mut RolloutConverter<'_>, item: &ResponseItem) -> Option<ThreadItem> {
    match item {
        ResponseItem::Message { .. }
        | ResponseItem::Reasoning { .. }
        | ResponseItem::WebSearchCall { .. }
            if converter.head.is_typed =>
        {
            None
        }
        ResponseItem::Message { role, .. } => of_message(converter, role, item),
        ResponseItem::Reasoning { summary, content, .. } => reasoning(converter, summary, content.as_deref()),
        ResponseItem::FunctionCall { call_id, namespace, name, arguments, .. } => {
            call(converter, call_id, namespace.as_deref(), name, arguments)
        }
        ResponseItem::CustomToolCall { call_id, name, input, .. } => {
            call(converter, call_id, None, name, input)
        }
        ResponseItem::LocalShellCall { call_id: Some(call_id), action, .. } => {
            let LocalShellAction::Exec { command, working_directory, .. } = action else { return None };
            let input = serde_json::json!({ "command": command, "workdir": working_directory });
            call(converter, call_id, None, "shell", &input.to_string())
        }
        ResponseItem::FunctionCallOutput { call_id, output }
        | ResponseItem::CustomToolCallOutput { call_id, output, .. } => answered(converter, call_id, output),
        ResponseItem::WebSearchCall { action, .. } => {
            if std::mem::take(&mut converter.search_told) {
                return None;
            }
            let action = action.clone().map(searched);
            let query = action.as_ref().map(query).unwrap_or_default();
            Some(ThreadItem::WebSearch { id: converter.next_id(), query, action })
        }
        _ => None,
    }
}

fn of_message(converter: &mut RolloutConverter<'_>, role: &str, item: &ResponseItem) -> Option<ThreadItem> {
    let text = codicil_prompts::message_text(item);
    if role == "user"
        && let Some(ran) = outputs::user_command(&text)
    {
        let id = converter.next_id();
        return Some(ran.item(id, converter.cwd.clone(), CommandExecutionSource::UserShell));
    }
    // Where there are events they tell of messages.
    if !converter.head.is_bare {
        return None;
    }
    match role {
        "assistant" => Some(ThreadItem::AgentMessage {
            id: converter.next_id(),
            text,
            phase: None,
            memory_citation: None,
        }),
        "user" if is_input(item) => {
            let ResponseItem::Message { content, .. } = item else { return None };
            let content = content.iter().filter_map(input).collect();
            Some(ThreadItem::UserMessage { id: converter.next_id(), content })
        }
        _ => None,
    }
}

fn input(part: &ContentItem) -> Option<UserInput> {
    match part {
        ContentItem::InputText { text } => {
            Some(UserInput::Text { text: text.clone(), text_elements: Vec::new() })
        }
        ContentItem::InputImage { image_url } => Some(UserInput::Image { url: image_url.clone() }),
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

fn call(
    converter: &mut RolloutConverter<'_>,
    id: &str,
    namespace: Option<&str>,
    name: &str,
    input: &str,
) -> Option<ThreadItem> {
    let (namespace, name) = match namespace {
        // Servers have namespaces of their own in later files.
        Some(server) if server.starts_with("mcp__") => {
            (None, format!("{}__{name}", server.trim_end_matches('_')))
        }
        namespace => (namespace.map(str::to_owned), name.to_owned()),
    };
    let call = OpenCall { namespace, name, input: input.to_owned() };
    converter.calls.insert(id.to_owned(), call);
    None
}

fn answered(
    converter: &mut RolloutConverter<'_>,
    id: &str,
    output: &FunctionCallOutputBody,
) -> Option<ThreadItem> {
    let call = converter.calls.remove(id).filter(|_| !converter.told.contains(id))?;
    let arguments: Value = serde_json::from_str(&call.input).unwrap_or_default();
    let (id, output) = (ItemId::from(id), output_text(output));
    match call.name.as_str() {
        "exec_command" | "shell_command" | "shell" | "container.exec" | "local_shell" => {
            let cwd = text(&arguments, "workdir").unwrap_or(&converter.cwd).to_owned();
            let source = match call.name.as_str() {
                "exec_command" => CommandExecutionSource::UnifiedExecStartup,
                _ => CommandExecutionSource::Agent,
            };
            Some(CommandResult::of(&arguments, &output)?.item(id, cwd, source))
        }
        "apply_patch" => outputs::patch(id, &call.input, &arguments, &output, &converter.cwd),
        "view_image" => Some(ThreadItem::ImageView { id, path: owned(&arguments, "path") }),
        name => match name.strip_prefix("mcp__").and_then(|name| name.split_once("__")) {
            Some((server, tool)) => Some(outputs::mcp(id, server, tool, arguments, &output)),
            None if is_dynamic(converter, &call) => {
                Some(outputs::dynamic(id, call.namespace.clone(), name, arguments, output))
            }
            None => None,
        },
    }
}

/// Whether the call is one of the client's tools.
fn is_dynamic(converter: &RolloutConverter<'_>, call: &OpenCall) -> bool {
    let tools = converter.head.meta.dynamic_tools.iter().flat_map(|entry| entry.tools());
    let mut names = tools.map(|(space, tool)| (space.map(|space| space.name.as_str()), tool.name.as_str()));
    names.any(|name| name == (call.namespace.as_deref(), call.name.as_str()))
}

fn output_text(output: &FunctionCallOutputBody) -> String {
    match output {
        FunctionCallOutputBody::Text(text) => text.clone(),
        FunctionCallOutputBody::Content(parts) => {
            let texts = parts.iter().filter_map(|part| match part {
                FunctionCallOutputContentItem::InputText { text } => Some(text.as_str()),
                _ => None,
            });
            texts.collect()
        }
    }
}

pub fn searched(action: ResponsesApiWebSearchAction) -> WebSearchAction {
    match action {
        ResponsesApiWebSearchAction::Search { query, queries } => WebSearchAction::Search { query, queries },
        ResponsesApiWebSearchAction::OpenPage { url } => WebSearchAction::OpenPage { url },
        ResponsesApiWebSearchAction::FindInPage { url, pattern } => {
            WebSearchAction::FindInPage { url, pattern }
        }
        _ => WebSearchAction::Other,
    }
}

/// What people are shown of a search.
fn query(action: &WebSearchAction) -> String {
    match action {
        WebSearchAction::Search { query: Some(query), .. } => query.clone(),
        WebSearchAction::Search { queries: Some(queries), .. } => match queries.as_slice() {
            [one] => one.clone(),
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
