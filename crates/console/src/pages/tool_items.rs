//! Items of tools, subagents, searches and reviews: what is inside their articles.

use std::collections::BTreeMap;

use codicil_client::protocol::{
    CollabAgentState, CollabAgentStatus, CollabAgentTool, DynamicToolCallOutputContentItem,
    DynamicToolCallStatus, McpToolCallError, McpToolCallResult, McpToolCallStatus, ThreadId, ThreadItem,
    WebSearchAction,
};
use maud::{Markup, html};
use serde_json::Value;

use super::format;
use crate::render::{
    ansi::{self, OutputLines},
    markdown::markdown,
    text::{prefix, visible},
};

/// The longest text of arguments and results on a thread's page.
const MAX_VALUE: usize = 4_000;

/// Images of one result on a thread's page.
const MAX_IMAGES: usize = 8;

/// Queries of one web search on a thread's page.
const MAX_QUERIES: usize = 10;

/// What an item's article contains.
pub struct ItemPartMarkup {
    pub class: &'static str,
    /// The name of the article.
    pub kind: &'static str,
    pub head: Markup,
    pub body: Markup,
}

impl ItemPartMarkup {
    fn new(class: &'static str, kind: &'static str, body: Markup) -> Self {
        Self { class, kind, head: html! {}, body }
    }
}

/// A call of a tool.
struct ShownCall<'a> {
    name: String,
    /// The class and the word of the state.
    state: (&'static str, &'static str),
    arguments: &'a Value,
    outcome: Markup,
    duration_ms: Option<i64>,
}

/// Returns the contents of an item; `None` for kinds of newer servers.
pub fn part(item: &ThreadItem) -> Option<ItemPartMarkup> {
    Some(match item {
        ThreadItem::McpToolCall { server, tool, status, arguments, result, error, duration_ms, .. } => {
            let state = match status {
                McpToolCallStatus::InProgress => ("running", "Running"),
                McpToolCallStatus::Failed => ("failed", "Failed"),
                _ => ("ok", "Done"),
            };
            let name = format!("{server} · {tool}");
            let outcome = mcp_outcome(result.as_ref(), error.as_ref());
            tool_call(ShownCall { name, state, arguments, outcome, duration_ms: *duration_ms })
        }
        ThreadItem::DynamicToolCall {
            tool,
            namespace,
            status,
            arguments,
            content_items,
            duration_ms,
            ..
        } => {
            let state = match status {
                DynamicToolCallStatus::InProgress => ("running", "Running"),
                DynamicToolCallStatus::Failed => ("failed", "Failed"),
                _ => ("ok", "Done"),
            };
            let name = namespace.as_ref().map_or_else(|| tool.clone(), |space| format!("{space} · {tool}"));
            let outcome = dynamic_outcome(content_items.as_deref());
            tool_call(ShownCall { name, state, arguments, outcome, duration_ms: *duration_ms })
        }
        ThreadItem::FunctionCallOutput { name, output, .. } => {
            let text = serde_json::to_value(output).unwrap_or_default();
            let head = html! { code { (visible(name)) } };
            ItemPartMarkup { head, ..ItemPartMarkup::new("tool-call", "Tool call", value("Result", &text)) }
        }
        ThreadItem::CollabAgentToolCall { tool, receiver_thread_ids, prompt, agents_states, .. } => {
            subagents(tool, receiver_thread_ids, prompt.as_deref(), agents_states)
        }
        ThreadItem::SubAgentActivity { agent_thread_id, agent_path, .. } => {
            let body = html! { p { a href={ "/threads/" (agent_thread_id) } { (visible(agent_path)) } } };
            ItemPartMarkup::new("subagents", "Subagents", body)
        }
        ThreadItem::WebSearch { query, action, .. } => {
            let body = html! {
                p { @if query.is_empty() { "Searching…" } @else { (visible(query)) } }
                (web_action(query, action.as_ref()))
            };
            ItemPartMarkup::new("web-search", "Web search", body)
        }
        ThreadItem::EnteredReviewMode { review, .. } => {
            ItemPartMarkup::new("review", "Review", html! { p { "Reviewing " (visible(review)) } })
        }
        ThreadItem::ExitedReviewMode { review, .. } => {
            ItemPartMarkup::new("review", "Review", html! { div.markdown { (markdown(review)) } })
        }
        ThreadItem::ContextCompaction { .. } => {
            let body = html! { p.meta { "The model's history was replaced by a summary." } };
            ItemPartMarkup::new("compaction", "Context compaction", body)
        }
        ThreadItem::HookPrompt { fragments, .. } => {
            let body = html! {
                @for fragment in fragments { pre.plain { (visible(prefix(&fragment.text, MAX_VALUE))) } }
            };
            ItemPartMarkup::new("hook", "Hook", body)
        }
        ThreadItem::Sleep { duration_ms, .. } => {
            let waits = format::duration(i64::try_from(*duration_ms).unwrap_or(i64::MAX));
            ItemPartMarkup::new("sleep", "Wait", html! { p.meta { "The agent waits " (waits) "." } })
        }
        _ => return None,
    })
}

/// Returns what a web search did, beyond its query.
fn web_action(query: &str, action: Option<&WebSearchAction>) -> Markup {
    let other = |text: &Option<String>| text.clone().filter(|text| text != query);
    let (verb, details) = match action {
        Some(WebSearchAction::Search { queries, .. }) => {
            ("Searched for", queries.iter().flatten().filter(|text| *text != query).cloned().collect())
        }
        Some(WebSearchAction::OpenPage { url }) => ("Opened", other(url).into_iter().collect()),
        Some(WebSearchAction::FindInPage { url, pattern }) => {
            ("Looked in the page for", other(pattern).into_iter().chain(other(url)).collect())
        }
        _ => ("", Vec::new()),
    };
    html! {
        @if !details.is_empty() {
            p.meta { (verb) @for detail in details.iter().take(MAX_QUERIES) { " " code { (visible(prefix(detail, 400))) } } }
        }
    }
}

fn tool_call(call: ShownCall<'_>) -> ItemPartMarkup {
    let (class, state) = call.state;
    let head = html! {
        code { (visible(&call.name)) } " " span.chip.(class) { (state) }
        @if let Some(milliseconds) = call.duration_ms { " " span.meta { (format::duration(milliseconds)) } }
    };
    let body = html! { (value("Arguments", call.arguments)) (call.outcome) };
    ItemPartMarkup { head, ..ItemPartMarkup::new("tool-call", "Tool call", body) }
}

fn subagents(
    tool: &CollabAgentTool,
    receivers: &[ThreadId],
    prompt: Option<&str>,
    states: &BTreeMap<String, CollabAgentState>,
) -> ItemPartMarkup {
    let verb = match tool {
        CollabAgentTool::SpawnAgent => "Start",
        CollabAgentTool::ResumeAgent => "Resume",
        CollabAgentTool::Wait => "Wait",
        CollabAgentTool::CloseAgent => "Close",
        CollabAgentTool::SendInput | CollabAgentTool::SendMessage => "Message",
        CollabAgentTool::FollowupTask => "New task",
        CollabAgentTool::InterruptAgent => "Interrupt",
        CollabAgentTool::ListAgents => "List",
        CollabAgentTool::Unrecognized(name) => name,
    };
    let body = html! {
        @if let Some(prompt) = prompt { p { (visible(prefix(prompt, MAX_VALUE))) } }
        ul.tree {
            @for receiver in receivers {
                @let state = states.get(&**receiver);
                li {
                    a href={ "/threads/" (receiver) } { "Subagent " (short_id(receiver)) }
                    @if let Some(state) = state {
                        " " span.chip.(agent_class(&state.status)) { (agent_word(&state.status)) }
                        @if let Some(message) = &state.message { p.meta { (visible(prefix(message, 400))) } }
                    }
                }
            }
        }
    };
    let head = html! { span.chip { (visible(verb)) } };
    ItemPartMarkup { head, ..ItemPartMarkup::new("subagents", "Subagents", body) }
}

fn mcp_outcome(result: Option<&McpToolCallResult>, error: Option<&McpToolCallError>) -> Markup {
    html! {
        @if let Some(error) = error { p.error { (visible(&error.message)) } }
        @if let Some(result) = result {
            @for part in result.content.iter().filter(|part| !is_mcp_image(part)) {
                @match part.get("text").and_then(Value::as_str) {
                    Some(text) => pre.output tabindex="0" aria-label="Result" { (ansi::output(prefix(text, 4 * MAX_VALUE), OutputLines::SUMMARY).html) },
                    None => (value("Result", part)),
                }
            }
            @if result.content.is_empty() && let Some(structured) = &result.structured_content { (value("Result", structured)) }
        }
    }
}

fn dynamic_outcome(content: Option<&[DynamicToolCallOutputContentItem]>) -> Markup {
    html! {
        @for part in content.unwrap_or_default() {
            @match part {
                part if is_dynamic_image(part) => {},
                DynamicToolCallOutputContentItem::InputText { text } => pre.output tabindex="0" aria-label="Result" { (visible(prefix(text, 4 * MAX_VALUE))) },
                other => (value("Result", &serde_json::to_value(other).unwrap_or_default())),
            }
        }
    }
}

/// Returns which parts of a tool's result are images.
pub fn image_numbers(item: &ThreadItem) -> Vec<usize> {
    let is_image: Vec<bool> = match item {
        ThreadItem::McpToolCall { result: Some(result), .. } => {
            result.content.iter().map(is_mcp_image).collect()
        }
        ThreadItem::DynamicToolCall { content_items: Some(parts), .. } => {
            parts.iter().map(is_dynamic_image).collect()
        }
        _ => Vec::new(),
    };
    let numbered = is_image.into_iter().enumerate();
    numbered.filter_map(|(number, is_image)| is_image.then_some(number)).take(MAX_IMAGES).collect()
}

/// Images elsewhere are not loaded.
fn is_dynamic_image(part: &DynamicToolCallOutputContentItem) -> bool {
    matches!(part, DynamicToolCallOutputContentItem::InputImage { image_url } if image_url.starts_with("data:"))
}

fn is_mcp_image(part: &Value) -> bool {
    part.get("type").and_then(Value::as_str) == Some("image")
}

fn value(label: &str, value: &Value) -> Markup {
    let text = match value {
        Value::Null => return html! {},
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    html! {
        details.value {
            summary { (label) }
            pre.plain { (visible(prefix(&text, MAX_VALUE))) @if text.len() > MAX_VALUE { "…" } }
        }
    }
}

fn short_id(id: &ThreadId) -> &str {
    id.get(id.len().saturating_sub(6)..).unwrap_or(id)
}

fn agent_class(status: &CollabAgentStatus) -> &'static str {
    match status {
        CollabAgentStatus::Running | CollabAgentStatus::PendingInit => "running",
        CollabAgentStatus::Errored | CollabAgentStatus::NotFound => "failed",
        _ => "idle",
    }
}

fn agent_word(status: &CollabAgentStatus) -> &str {
    match status {
        CollabAgentStatus::PendingInit => "starting",
        CollabAgentStatus::Running => "running",
        CollabAgentStatus::Interrupted => "interrupted",
        CollabAgentStatus::Completed => "done",
        CollabAgentStatus::Errored => "failed",
        CollabAgentStatus::Shutdown => "closed",
        CollabAgentStatus::NotFound => "unknown",
        CollabAgentStatus::Unrecognized(other) => other,
    }
}
