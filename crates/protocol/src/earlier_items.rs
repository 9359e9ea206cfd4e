//! Items as clients of the 0.118 generation know them.

use std::borrow::Cow;

use crate::{
    CollabAgentTool, CollabAgentToolCallStatus, DynamicToolCallOutputContentItem, ImageSource, MessagePhase,
    ThreadItem, UserInput,
};

impl ThreadItem {
    /// Returns the item in the form of the 0.118 generation; `None` for a kind that it does not have. Values that it does not
    /// have become the nearest ones that it has.
    pub fn earlier_form(&self) -> Option<Cow<'_, Self>> {
        let is_later_kind = matches!(
            self,
            Self::FunctionCallOutput { .. } | Self::SubAgentActivity { .. } | Self::Sleep { .. }
        );
        if is_later_kind {
            return None;
        }
        let mut item = Cow::Borrowed(self);
        match self {
            Self::UserMessage { content, .. } if content.iter().any(is_later_input) => {
                if let Self::UserMessage { content, .. } = item.to_mut() {
                    content.iter_mut().for_each(make_earlier_input);
                }
            }
            Self::AgentMessage { phase: Some(MessagePhase::PartialAnswer), .. } => {
                if let Self::AgentMessage { phase, .. } = item.to_mut() {
                    *phase = Some(MessagePhase::Commentary);
                }
            }
            Self::DynamicToolCall { content_items: Some(parts), .. } if parts.iter().any(is_audio) => {
                if let Self::DynamicToolCall { content_items: Some(parts), .. } = item.to_mut() {
                    parts.iter_mut().filter(|part| is_audio(part)).for_each(|part| *part = audio_text());
                }
            }
            Self::CollabAgentToolCall { tool, status, .. } => {
                let (earlier_tool, earlier_status) = (earlier_tool(tool), earlier_status(status));
                if (tool, status) != (&earlier_tool, &earlier_status)
                    && let Self::CollabAgentToolCall { tool, status, .. } = item.to_mut()
                {
                    (*tool, *status) = (earlier_tool, earlier_status);
                }
            }
            _ => {}
        }
        Some(item)
    }
}

fn is_later_input(part: &UserInput) -> bool {
    matches!(
        part,
        UserInput::Audio { .. }
            | UserInput::LocalAudio { .. }
            | UserInput::Image { source: ImageSource::File { .. }, .. }
    )
}

/// Names a part of the input that 0.118 does not have.
fn make_earlier_input(part: &mut UserInput) {
    let text = match part {
        UserInput::Audio { .. } => "[audio]".to_owned(),
        UserInput::LocalAudio { path } => format!("[audio: {path}]"),
        UserInput::Image { source: ImageSource::File { file_id }, .. } => format!("[image: {file_id}]"),
        _ => return,
    };
    *part = UserInput::Text { text, text_elements: Vec::new() };
}

fn is_audio(part: &DynamicToolCallOutputContentItem) -> bool {
    matches!(part, DynamicToolCallOutputContentItem::InputAudio { .. })
}

fn audio_text() -> DynamicToolCallOutputContentItem {
    DynamicToolCallOutputContentItem::InputText { text: "[audio]".to_owned() }
}

fn earlier_tool(tool: &CollabAgentTool) -> CollabAgentTool {
    match tool {
        CollabAgentTool::SendMessage | CollabAgentTool::FollowupTask => CollabAgentTool::SendInput,
        CollabAgentTool::InterruptAgent => CollabAgentTool::CloseAgent,
        CollabAgentTool::ListAgents => CollabAgentTool::Wait,
        tool => tool.clone(),
    }
}

fn earlier_status(status: &CollabAgentToolCallStatus) -> CollabAgentToolCallStatus {
    match status {
        CollabAgentToolCallStatus::Interrupted => CollabAgentToolCallStatus::Failed,
        status => status.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_that_0_118_does_not_have_become_the_nearest_ones() {
        let check = |item: Value, expected: Value| {
            let read: ThreadItem = serde_json::from_value(item.clone()).unwrap();
            let earlier = read.earlier_form().map(|item| serde_json::to_value(&*item).unwrap());
            let Some(earlier) = earlier else { return assert_eq!(expected, Value::Null, "{item}") };
            for (member, value) in expected.as_object().unwrap() {
                assert_eq!(&earlier[member], value, "{item}");
            }
        };
        check(json!({ "type": "functionCallOutput", "id": "i", "name": "n", "output": "o" }), Value::Null);
        check(json!({ "type": "sleep", "id": "i", "durationMs": 1 }), Value::Null);
        let text = |text: &str| json!([{ "type": "text", "text": text, "text_elements": [] }]);
        let message = |part: Value| json!({ "type": "userMessage", "id": "i", "content": [part] });
        check(message(json!({ "type": "audio", "url": "data:x" })), json!({ "content": text("[audio]") }));
        check(
            message(json!({ "type": "localAudio", "path": "/a.wav" })),
            json!({ "content": text("[audio: /a.wav]") }),
        );
        check(message(json!({ "type": "image", "fileId": "f1" })), json!({ "content": text("[image: f1]") }));
        check(
            json!({ "type": "agentMessage", "id": "i", "text": "t", "phase": "partial_answer" }),
            json!({ "phase": "commentary", "text": "t" }),
        );
        let tool_call = json!({ "type": "dynamicToolCall", "id": "i", "tool": "t", "arguments": {}, "status": "completed",
            "contentItems": [{ "type": "inputAudio", "audioUrl": "data:x" }] });
        check(tool_call, json!({ "contentItems": [{ "type": "inputText", "text": "[audio]" }] }));
        let agent_call = |tool: &str, status: &str| {
            json!({ "type": "collabAgentToolCall", "id": "i", "tool": tool, "status": status,
                "senderThreadId": "t", "receiverThreadIds": [], "agentsStates": {} })
        };
        check(agent_call("sendMessage", "interrupted"), json!({ "tool": "sendInput", "status": "failed" }));
        check(agent_call("interruptAgent", "completed"), json!({ "tool": "closeAgent" }));
        check(agent_call("spawnAgent", "completed"), json!({ "tool": "spawnAgent", "status": "completed" }));
    }
}
