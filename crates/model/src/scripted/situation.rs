//! The properties of a request that a script refers to.

use codicil_protocol::{ContentItem, FunctionCallOutputBody, ResponseItem};

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

/// Returns the text of a message of the user, without the context that the server adds.
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
        .map(without_context)
        .filter(|text| !text.is_empty())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Removes the context before a text: blocks in tags, and the rules of a project. Some dialects join them with the
/// text into one message.
fn without_context(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        if let Some(rules) = rest.strip_prefix("# AGENTS.md") {
            rest = rules.find('<').and_then(|at| rules.get(at..)).unwrap_or_default();
        }
        let Some(tag) = rest.strip_prefix('<').and_then(|tag| tag.split(['>', ' ']).next()) else {
            return rest;
        };
        let Some((_, after)) = rest.split_once(&format!("</{tag}>")) else { return "" };
        rest = after.trim_start();
    }
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
    let text = output.text();
    // Shell tools put lines about the call before the output of the command.
    let written = text.split_once("Output:\n").map_or(text.as_str(), |(_, written)| written);
    written.trim().chars().take(OUTPUT_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_before_a_text_is_removed() {
        let check = |text: &str, expected: &str| assert_eq!(without_context(text), expected, "{text:?}");
        check("say something", "say something");
        check("<environment_context>\n  <cwd>/w</cwd>\n</environment_context>", "");
        check("<environment_context>\n</environment_context>\n\nsay something", "say something");
        check(
            "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nRules.\n</INSTRUCTIONS>\n\n<env>x</env>\nhi",
            "hi",
        );
        check("# AGENTS.md instructions without an end", "");
        check("<b", "");
    }
}
