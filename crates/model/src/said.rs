//! What a model said, as items of the history: for the dialects whose streams carry no whole items.

use codicil_protocol::{ContentItem, ItemId, ReasoningItemReasoningSummary, ResponseItem};

use crate::{event::new_item_id, tools::free_text_input};

/// A message of the model; without text it is one that has only begun.
pub fn message(id: &ItemId, text: Option<String>) -> ResponseItem {
    ResponseItem::Message {
        role: "assistant".to_owned(),
        content: text.map(|text| ContentItem::OutputText { text }).into_iter().collect(),
        end_turn: None,
        phase: None,
        id: Some(id.to_string()),
    }
}

/// What the model thought; the encrypted form is what its provider wants back.
pub fn reasoning(text: Option<String>, encrypted_content: Option<String>) -> ResponseItem {
    let summary = text.map(|text| ReasoningItemReasoningSummary::SummaryText { text });
    ResponseItem::Reasoning { summary: summary.into_iter().collect(), content: None, encrypted_content }
}

/// A tool that the model called, with the arguments as it wrote them.
pub struct CalledTool {
    pub call_id: String,
    pub name: String,
    pub arguments: String,
}

impl CalledTool {
    /// The call as an item of its own. A tool of free text was offered as a function, and is not one here.
    pub fn into_item(self, custom_tools: &[String]) -> (ItemId, ResponseItem) {
        let Self { call_id, name, arguments } = self;
        let id = new_item_id("fc");
        let own = Some(id.to_string());
        let item = if custom_tools.contains(&name) {
            let input = free_text_input(&arguments);
            ResponseItem::CustomToolCall { call_id, name, input, status: None, id: own }
        } else {
            let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
            ResponseItem::FunctionCall { name, namespace: None, arguments, call_id, id: own }
        };
        (id, item)
    }
}
