//! Building messages of a model's history, and looking into them.

use codicil_protocol::{ContentItem, ResponseItem};

/// A message of the server to the model, one part for each text.
pub fn developer_message(parts: impl IntoIterator<Item = String>) -> ResponseItem {
    message("developer", parts.into_iter().map(text_part).collect())
}

/// A text in the role of the person.
pub fn user_text_message(text: impl Into<String>) -> ResponseItem {
    message("user", vec![text_part(text.into())])
}

/// A text in the role of the model, such as the result of a review.
pub fn assistant_message(text: impl Into<String>) -> ResponseItem {
    message("assistant", vec![ContentItem::OutputText { text: text.into() }])
}

/// The texts of a message, one after the other; empty for items that are no messages.
pub fn message_text(item: &ResponseItem) -> String {
    let ResponseItem::Message { content, .. } = item else { return String::new() };
    content.iter().filter_map(part_text).collect()
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
        ContentItem::InputImage { .. } | ContentItem::Unrecognized(_) => None,
    }
}
