//! Messages to subagents: a text, or parts of several kinds.

use codicil_protocol::UserInput;
use serde::Deserialize;
use serde_json::{Value, json};

use super::AgentError;
use crate::tools::schema::{object, string};

/// The two ways in which a call may hold a message.
#[derive(Deserialize)]
pub(super) struct AgentMessage {
    message: Option<String>,
    items: Option<Vec<MessagePart>>,
}

/// A part as models write it. Without a type, the members decide.
#[derive(Deserialize)]
struct MessagePart {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    image_url: Option<String>,
    path: Option<String>,
    name: Option<String>,
}

impl AgentMessage {
    pub fn into_input(self) -> Result<Vec<UserInput>, AgentError> {
        // Some models fill in arguments that they do not use.
        let items = self.items.filter(|items| !items.is_empty());
        match (self.message, items) {
            (Some(message), Some(_)) if !message.trim().is_empty() => Err(AgentError::TwoMessages),
            (_, Some(items)) => {
                let parts = items.into_iter().enumerate();
                parts.map(|(at, part)| part.into_input().ok_or(AgentError::BadItem(at))).collect()
            }
            (Some(message), None) if message.trim().is_empty() => Err(AgentError::EmptyMessage),
            (Some(text), None) => Ok(vec![UserInput::Text { text, text_elements: Vec::new() }]),
            (None, None) => Err(AgentError::NoMessage),
        }
    }
}

impl MessagePart {
    fn into_input(self) -> Option<UserInput> {
        let kind = self.kind.as_deref().filter(|kind| !kind.is_empty());
        match kind.unwrap_or_else(|| self.likely_kind()) {
            "image" => self.image_url.map(UserInput::image),
            "local_image" | "localImage" => self.path.map(UserInput::local_image),
            "skill" => Some(UserInput::Skill { name: self.name?, path: self.path? }),
            "mention" => Some(UserInput::Mention { name: self.name?, path: self.path? }),
            "text" => self.text.map(|text| UserInput::Text { text, text_elements: Vec::new() }),
            _ => None,
        }
    }

    fn likely_kind(&self) -> &'static str {
        match (&self.text, &self.image_url, &self.name, &self.path) {
            (Some(_), ..) => "text",
            (_, Some(_), ..) => "image",
            (_, _, Some(_), Some(_)) => "mention",
            _ => "local_image",
        }
    }
}

/// Returns a message as text, for clients.
pub(super) fn preview(input: &[UserInput]) -> String {
    let parts = input.iter().map(|part| match part {
        UserInput::Text { text, .. } => text.clone(),
        UserInput::Image { .. } => "[image]".to_owned(),
        UserInput::LocalImage { path, .. } => format!("[image: {path}]"),
        UserInput::Audio { .. } => "[audio]".to_owned(),
        UserInput::LocalAudio { path } => format!("[audio: {path}]"),
        UserInput::Skill { name, .. } => format!("[skill: {name}]"),
        UserInput::Mention { name, .. } => format!("[mention: {name}]"),
        UserInput::Unrecognized(_) => "[unknown]".to_owned(),
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The schema of a message of several parts.
pub(super) fn items_schema() -> Value {
    let part = object(
        json!({
            "type": string("`text`, `image`, `local_image`, `skill` or `mention`."),
            "text": string("For `text`."),
            "image_url": string("For `image`."),
            "path": string("For `local_image`, `skill` and `mention`."),
            "name": string("For `skill` and `mention`."),
        }),
        &[],
    );
    json!({ "type": "array", "items": part, "description": "The message in parts, instead of `message`." })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn check(arguments: Value, expected: Result<&str, &str>) {
        let message: AgentMessage = from_value(arguments.clone()).unwrap();
        let shown = message.into_input().map(|input| preview(&input)).map_err(|error| error.to_string());
        assert_eq!(shown.as_deref().map_err(String::as_str), expected, "{arguments}");
    }

    #[test]
    fn a_message_is_a_text_or_parts() {
        check(json!({ "message": "go" }), Ok("go"));
        check(json!({ "message": "go", "items": [] }), Ok("go"));
        check(json!({ "message": "", "items": [{ "type": "text", "text": "go" }] }), Ok("go"));
        check(
            json!({ "items": [
                { "text": "look" },
                { "image_url": "data:x" },
                { "path": "/a.png" },
                { "type": "skill", "name": "tidy", "path": "/s/SKILL.md" },
                { "name": "drive", "path": "app://drive" },
            ] }),
            Ok("look\n[image]\n[image: /a.png]\n[skill: tidy]\n[mention: drive]"),
        );
    }

    #[test]
    fn a_message_without_content_is_refused() {
        check(json!({}), Err("give message or items"));
        check(json!({ "items": [] }), Err("give message or items"));
        check(json!({ "message": "  " }), Err("the message must not be empty"));
        check(
            json!({ "message": "a", "items": [{ "text": "b" }] }),
            Err("give either message or items, not both"),
        );
        check(
            json!({ "items": [{ "text": "b" }, { "type": "sound" }] }),
            Err("items[1] says nothing that can be sent"),
        );
    }
}
