//! Building and reading messages of a model's history.

use codicil_protocol::{ContentItem, ResponseItem};

/// Returns a developer message with one part per text.
pub fn developer_message(parts: impl IntoIterator<Item = String>) -> ResponseItem {
    message("developer", parts.into_iter().map(text_part).collect())
}

/// Returns a user message.
pub fn user_text_message(text: impl Into<String>) -> ResponseItem {
    message("user", vec![text_part(text.into())])
}

/// Returns an assistant message, such as the result of a review.
pub fn assistant_message(text: impl Into<String>) -> ResponseItem {
    message("assistant", vec![ContentItem::OutputText { text: text.into() }])
}

/// Returns the concatenated texts of a message; empty for other items.
pub fn message_text(item: &ResponseItem) -> String {
    let ResponseItem::Message { content, .. } = item else { return String::new() };
    content.iter().filter_map(part_text).collect()
}

/// Returns the JSON object in the answer of a model, which may have put it into a code block or between sentences.
pub fn json_object_text(answer: &str) -> Option<&str> {
    answer.get(answer.find('{')?..=answer.rfind('}')?)
}

pub(crate) fn message(role: &str, content: Vec<ContentItem>) -> ResponseItem {
    ResponseItem::Message { id: None, role: role.to_owned(), content, end_turn: None, phase: None }
}

pub(crate) fn text_part(text: impl Into<String>) -> ContentItem {
    ContentItem::InputText { text: text.into() }
}

pub(crate) fn part_text(part: &ContentItem) -> Option<&str> {
    match part {
        ContentItem::InputText { text } | ContentItem::OutputText { text } => Some(text),
        ContentItem::InputImage { .. } | ContentItem::InputAudio { .. } | ContentItem::Unrecognized(_) => {
            None
        }
    }
}
