//! What a model said, as items of the history: for the dialects whose streams carry no whole items.

use codicil_protocol::{ContentItem, ItemId, ReasoningItemReasoningSummary, ResponseItem};

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
