//! Items of the history as input of the Responses API.
//!
//! They are sent without the ids that the API assigned: requests are not stored there, so an id would refer to
//! nothing. Generated images are the exception; their id is required.

use codicil_protocol::{
    ContentItem, FunctionCallOutputBody, LocalShellAction, LocalShellStatus, MessagePhase,
    ReasoningItemContent, ReasoningItemReasoningSummary, ResponseItem, ResponsesApiWebSearchAction,
};
use serde::Serialize;
use serde_json::Value;

use crate::{anthropic::is_signed_reasoning, chat::is_chat_reasoning};

/// Writes `item` to the end of `json`. Returns false for items that are not sent to the model.
pub(crate) fn write_item(item: &ResponseItem, json: &mut Vec<u8>) -> bool {
    match sent(item) {
        Some(item) => serde_json::to_writer(json, &item).is_ok(),
        None => false,
    }
}

/// An item as it is sent, borrowed from the stored item.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum SentItem<'a> {
    Message {
        role: &'a str,
        content: &'a [ContentItem],
        #[serde(skip_serializing_if = "Option::is_none")]
        end_turn: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a MessagePhase>,
    },
    Reasoning {
        summary: &'a [ReasoningItemReasoningSummary],
        content: Option<&'a [ReasoningItemContent]>,
        encrypted_content: Option<&'a str>,
    },
    LocalShellCall {
        call_id: Option<&'a str>,
        status: &'a LocalShellStatus,
        action: &'a LocalShellAction,
    },
    FunctionCall {
        name: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        arguments: &'a str,
        call_id: &'a str,
    },
    FunctionCallOutput {
        #[serde(skip_serializing_if = "Option::is_none")]
        call_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        output: &'a FunctionCallOutputBody,
    },
    CustomToolCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'a str>,
        call_id: &'a str,
        name: &'a str,
        input: &'a str,
    },
    CustomToolCallOutput {
        call_id: &'a str,
        output: &'a FunctionCallOutputBody,
    },
    ToolSearchCall {
        call_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'a str>,
        execution: &'a str,
        arguments: &'a Value,
    },
    ToolSearchOutput {
        call_id: Option<&'a str>,
        status: &'a str,
        execution: &'a str,
        tools: &'a [Value],
    },
    WebSearchCall {
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        action: Option<&'a ResponsesApiWebSearchAction>,
    },
    ImageGenerationCall {
        id: &'a str,
        status: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        revised_prompt: Option<&'a str>,
        result: &'a str,
    },
    Compaction {
        encrypted_content: &'a str,
    },
}

fn sent(item: &ResponseItem) -> Option<SentItem<'_>> {
    Some(match item {
        ResponseItem::Message { role, content, end_turn, phase, .. } => {
            SentItem::Message { role, content, end_turn: *end_turn, phase: phase.as_ref() }
        }
        // The API would reject what another provider needs back.
        ResponseItem::Reasoning { encrypted_content, .. }
            if is_signed_reasoning(encrypted_content) || is_chat_reasoning(encrypted_content) =>
        {
            return None;
        }
        ResponseItem::Reasoning { summary, content, encrypted_content } => SentItem::Reasoning {
            summary,
            content: content.as_deref(),
            encrypted_content: encrypted_content.as_deref(),
        },
        ResponseItem::LocalShellCall { status, action, call_id, .. } => {
            SentItem::LocalShellCall { call_id: call_id.as_deref(), status, action }
        }
        ResponseItem::FunctionCall { name, namespace, arguments, call_id, .. } => {
            SentItem::FunctionCall { name, namespace: namespace.as_deref(), arguments, call_id }
        }
        ResponseItem::FunctionCallOutput { call_id, name, namespace, output } => {
            SentItem::FunctionCallOutput {
                call_id: call_id.as_deref(),
                name: name.as_deref(),
                namespace: namespace.as_deref(),
                output,
            }
        }
        ResponseItem::CustomToolCall { call_id, name, input, status, .. } => {
            SentItem::CustomToolCall { status: status.as_deref(), call_id, name, input }
        }
        ResponseItem::CustomToolCallOutput { call_id, output, .. } => {
            SentItem::CustomToolCallOutput { call_id, output }
        }
        ResponseItem::ToolSearchCall { call_id, execution, arguments, status, .. } => {
            SentItem::ToolSearchCall {
                call_id: call_id.as_deref(),
                status: status.as_deref(),
                execution,
                arguments,
            }
        }
        ResponseItem::ToolSearchOutput { call_id, status, execution, tools } => {
            SentItem::ToolSearchOutput { call_id: call_id.as_deref(), status, execution, tools }
        }
        ResponseItem::WebSearchCall { action, status, .. } => {
            SentItem::WebSearchCall { status: status.as_deref(), action: action.as_ref() }
        }
        ResponseItem::ImageGenerationCall { id, status, revised_prompt, result } => {
            SentItem::ImageGenerationCall { id, status, revised_prompt: revised_prompt.as_deref(), result }
        }
        ResponseItem::Compaction { encrypted_content } => SentItem::Compaction { encrypted_content },
        ResponseItem::GhostSnapshot { .. } | ResponseItem::Other | ResponseItem::Unrecognized(_) => {
            return None;
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(received: Value, expected: Value) {
        let item: ResponseItem = serde_json::from_value(received).unwrap();
        let mut bytes = Vec::new();
        let is_sent = write_item(&item, &mut bytes);
        let sent = if is_sent { serde_json::from_slice(&bytes).unwrap() } else { Value::Null };
        assert_eq!(sent, expected);
    }

    #[test]
    fn items_are_sent_without_their_ids() {
        let text = json!([{"type": "output_text", "text": "ok"}]);
        check(
            json!({"type": "message", "role": "assistant", "id": "msg_1", "content": text}),
            json!({"type": "message", "role": "assistant", "content": text}),
        );
        check(
            json!({"type": "message", "role": "assistant", "id": "m", "phase": "commentary", "content": []}),
            json!({"type": "message", "role": "assistant", "phase": "commentary", "content": []}),
        );
        check(
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}),
            json!({"type": "reasoning", "summary": [], "content": null, "encrypted_content": "gAAA"}),
        );
        check(
            json!({"type": "function_call", "id": "fc_1", "name": "f", "arguments": "{}", "call_id": "c"}),
            json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}),
        );
        check(
            json!({"type": "custom_tool_call", "id": "ct", "name": "p", "input": "x", "call_id": "c", "status": "completed"}),
            json!({"type": "custom_tool_call", "name": "p", "input": "x", "call_id": "c", "status": "completed"}),
        );
        check(
            json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q", "queries": null}}),
            json!({"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q", "queries": null}}),
        );
    }

    #[test]
    fn tool_results_are_texts_or_parts() {
        let image = json!([{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]);
        for output in [json!("done"), image] {
            let item = json!({"type": "function_call_output", "call_id": "c", "output": output});
            check(item.clone(), item);
            let item = json!({"type": "function_call_output", "name": "clock", "namespace": "app", "output": output});
            check(item.clone(), item);
            let item = json!({"type": "custom_tool_call_output", "call_id": "c", "output": output});
            check(item.clone(), item);
        }
    }

    #[test]
    fn unknown_items_and_foreign_reasoning_are_not_sent() {
        check(json!({"type": "from_the_future", "id": "x"}), Value::Null);
        check(json!({"type": "reasoning", "summary": [], "encrypted_content": "anthropic:abc"}), Value::Null);
        check(
            json!({"type": "reasoning", "summary": [], "encrypted_content": "chat:reasoning_content"}),
            Value::Null,
        );
    }
}
