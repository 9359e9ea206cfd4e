//! The properties of a request that a script refers to.

use codicil_protocol::{ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem, ResponseItem};

use crate::ModelRequest;

/// Maximum length of a tool output that is considered.
const OUTPUT_LIMIT: usize = 4000;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ScriptSituation {
    /// The user's last message.
    pub user: String,
    /// The last tool output since then.
    pub output: Option<String>,
    /// Number of replies since then, each of which called tools.
    pub replies_in_turn: usize,
    pub replies_in_thread: usize,
    pub has_tools: bool,
}

impl ScriptSituation {
    pub fn from_request(request: &ModelRequest) -> Self {
        let mut situation = Self { has_tools: !request.tools.specs().is_empty(), ..Self::default() };
        let mut was_from_model = false;
        for item in request.input.iter().map(|item| item.item()) {
            if let Some(text) = user_text(item) {
                situation.user = text;
                situation.output = None;
                situation.replies_in_turn = 0;
            }
            if let ResponseItem::FunctionCallOutput { output, .. }
            | ResponseItem::CustomToolCallOutput { output, .. } = item
            {
                situation.output = Some(output_text(output));
            }
            let is_model = is_from_model(item);
            if is_model && !was_from_model {
                situation.replies_in_turn += 1;
                situation.replies_in_thread += 1;
            }
            was_from_model = is_model;
        }
        situation
    }
}

/// Returns the text of a message of the user. Context that the server adds begins with a tag.
fn user_text(item: &ResponseItem) -> Option<String> {
    let ResponseItem::Message { role, content, .. } = item else { return None };
    if role != "user" {
        return None;
    }
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|part| match part {
            ContentItem::InputText { text } => Some(text.as_str()),
            _ => None,
        })
        .filter(|text| !text.trim_start().starts_with('<') && !text.starts_with("# AGENTS.md"))
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn is_from_model(item: &ResponseItem) -> bool {
    match item {
        ResponseItem::Message { role, .. } => role == "assistant",
        ResponseItem::Reasoning { .. }
        | ResponseItem::FunctionCall { .. }
        | ResponseItem::CustomToolCall { .. } => true,
        _ => false,
    }
}

fn output_text(output: &FunctionCallOutputBody) -> String {
    let text = match output {
        FunctionCallOutputBody::Text(text) => text.clone(),
        FunctionCallOutputBody::Content(parts) => parts
            .iter()
            .filter_map(|part| match part {
                FunctionCallOutputContentItem::InputText { text } => Some(text.as_str()),
                _ => None,
            })
            .collect::<Vec<_>>()
            .join("\n"),
    };
    // Shell tools put lines about the call before the output of the command.
    let written = text.split_once("Output:\n").map_or(text.as_str(), |(_, written)| written);
    written.trim().chars().take(OUTPUT_LIMIT).collect()
}
