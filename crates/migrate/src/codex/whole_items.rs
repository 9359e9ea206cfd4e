//! Converts the items of later files, which store each completed item whole and no other events about it.

use codicil_protocol::{
    ItemId, McpToolCallError, McpToolCallResult, McpToolCallStatus, ResponsesApiWebSearchAction, ThreadItem,
    UserInput,
};
use serde_json::Value;

use super::{
    convert::RolloutConverter,
    items::search_action,
    rollout::{member, owned, text},
    tool_items,
};

/// Returns the item. Older files also have some of these events, next to others about the same items: only
/// plans have no other event.
pub fn from_item(converter: &mut RolloutConverter<'_>, item: &Value) -> Option<ThreadItem> {
    let id = ItemId::from(text(item, "id")?);
    let shown = match text(item, "type")? {
        "Plan" => ThreadItem::Plan { id, text: owned(item, "text") },
        _ if !converter.head.has_whole_items => return None,
        "UserMessage" => {
            ThreadItem::UserMessage { id, content: input(item), client_id: member(item, "client_id") }
        }
        "AgentMessage" => {
            let text = message_text(item);
            ThreadItem::AgentMessage {
                id,
                text,
                phase: member(item, "phase"),
                memory_citation: None,
                delivery: None,
                questions: None,
            }
        }
        "Reasoning" => {
            let list = |name| member::<Vec<String>>(item, name).unwrap_or_default();
            ThreadItem::Reasoning { id, summary: list("summary_text"), content: list("raw_content") }
        }
        "CommandExecution" => tool_items::command_event(&as_event(item)),
        "FileChange" => tool_items::patch_event(&as_event(item)),
        "DynamicToolCall" => tool_items::dynamic_event(&as_event(item)),
        "McpToolCall" => mcp(id, item),
        "WebSearch" => {
            let action = member::<ResponsesApiWebSearchAction>(item, "action").map(search_action);
            ThreadItem::WebSearch { id, query: owned(item, "query"), action, results: None }
        }
        "ImageView" => ThreadItem::ImageView { id, path: local_path(text(item, "path")?) },
        "ImageGeneration" => ThreadItem::ImageGeneration {
            id,
            status: owned(item, "status"),
            revised_prompt: member(item, "revised_prompt"),
            result: owned(item, "result"),
            saved_path: member::<String>(item, "saved_path").map(|path| local_path(&path)),
            failure: None,
            generation_id: None,
            input_images: Vec::new(),
            transparent_background: None,
        },
        "ContextCompaction" => ThreadItem::ContextCompaction { id },
        _ => return None,
    };
    // An item and its call share an id.
    converter.calls_with_events.insert(owned(item, "id"));
    Some(shown)
}

/// Returns the item in the form of an event of older files.
fn as_event(item: &Value) -> Value {
    let mut event = item.clone();
    if let Some(members) = event.as_object_mut() {
        members.insert("call_id".to_owned(), owned(item, "id").into());
        if let Some(cwd) = text(item, "cwd") {
            members.insert("cwd".to_owned(), local_path(cwd).into());
        }
    }
    event
}

fn input(item: &Value) -> Vec<UserInput> {
    let parts = item.get("content").and_then(Value::as_array);
    parts.into_iter().flatten().filter_map(part).collect()
}

fn part(part: &Value) -> Option<UserInput> {
    let name = || owned(part, "name");
    let path = || owned(part, "path");
    Some(match text(part, "type")? {
        "text" => UserInput::Text {
            text: owned(part, "text"),
            text_elements: member(part, "text_elements").unwrap_or_default(),
        },
        "image" => UserInput::image(owned(part, "image_url")),
        "local_image" => UserInput::local_image(local_path(&path())),
        "skill" => UserInput::Skill { name: name(), path: local_path(&path()) },
        "mention" => UserInput::Mention { name: name(), path: path() },
        _ => return None,
    })
}

fn message_text(item: &Value) -> String {
    let parts = item.get("content").and_then(Value::as_array);
    parts.into_iter().flatten().filter_map(|part| text(part, "text")).collect()
}

fn mcp(id: ItemId, item: &Value) -> ThreadItem {
    let result = item.get("result").filter(|result| !result.is_null());
    let error = item.get("error").filter(|error| !error.is_null());
    let message = |error: &Value| error.as_str().or(text(error, "message")).unwrap_or_default().to_owned();
    ThreadItem::McpToolCall {
        id,
        server: owned(item, "server"),
        tool: owned(item, "tool"),
        status: match text(item, "status") {
            Some("completed") => McpToolCallStatus::Completed,
            _ => McpToolCallStatus::Failed,
        },
        arguments: item.get("arguments").cloned().unwrap_or_default(),
        app_context: None,
        mcp_app_resource_uri: None,
        mcp_app_ui: None,
        plugin_id: None,
        read_only_hint: None,
        result: result.map(|result| McpToolCallResult {
            content: member(result, "content").unwrap_or_default(),
            structured_content: member(result, "structuredContent")
                .or_else(|| member(result, "structured_content")),
            meta: member(result, "_meta"),
        }),
        error: error.map(|error| McpToolCallError { message: message(error) }),
        duration_ms: tool_items::duration(item),
    }
}

/// Returns a local path, which these files write as a `file://` URL.
fn local_path(url: &str) -> String {
    let Some(path) = url.strip_prefix("file://") else { return url.to_owned() };
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok()).filter(|_| *first == b'%');
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_urls_become_paths() {
        let check = |url: &str, path: &str| assert_eq!(local_path(url), path);
        check("file:///a/b%20c/%C3%A9", "/a/b c/é");
        check("file:///100%", "/100%");
        check("/plain%20path", "/plain%20path");
    }
}
