//! The texts of an item: how large they are, and how deltas extend them.

use codicil_client::protocol::{DynamicToolCallOutputContentItem, ImageSource, ThreadItem, UserInput};
use serde_json::Value;

/// Bytes of a command's output that a view holds while the command runs. The server has all of it.
const MAX_OUTPUT: usize = 64 << 10;

/// The part of an item that text is appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemPart {
    /// The message, plan or output.
    Body,
    /// A section of a summary of reasoning.
    Summary(usize),
    /// A section of raw reasoning.
    Content(usize),
}

/// What has become of appended text.
pub enum AppendedText {
    ToExistingPart,
    /// Pages have no element for the part yet.
    ToNewPart,
    /// The item has no such part.
    Nowhere,
}

/// Appends text to a part of an item.
pub fn append_text(item: &mut ThreadItem, part: ItemPart, text: &str) -> AppendedText {
    match (item, part) {
        (
            ThreadItem::AgentMessage { text: known, .. } | ThreadItem::Plan { text: known, .. },
            ItemPart::Body,
        ) => {
            known.push_str(text);
            AppendedText::ToExistingPart
        }
        (ThreadItem::CommandExecution { aggregated_output, .. }, ItemPart::Body) => {
            let output = aggregated_output.get_or_insert_default();
            output.push_str(text);
            if output.len() > 2 * MAX_OUTPUT {
                let cut = output.ceil_char_boundary(output.len() - MAX_OUTPUT);
                output.drain(..cut);
            }
            AppendedText::ToExistingPart
        }
        (ThreadItem::Reasoning { summary, .. }, ItemPart::Summary(index)) => append_to(summary, index, text),
        (ThreadItem::Reasoning { content, .. }, ItemPart::Content(index)) => append_to(content, index, text),
        _ => AppendedText::Nowhere,
    }
}

fn append_to(sections: &mut Vec<String>, index: usize, text: &str) -> AppendedText {
    if let Some(section) = sections.get_mut(index) {
        section.push_str(text);
        return AppendedText::ToExistingPart;
    }
    sections.resize(index, String::new());
    sections.push(text.to_owned());
    AppendedText::ToNewPart
}

/// Returns the size of the parts of an item that can be large.
pub fn text_bytes(item: &ThreadItem) -> usize {
    match item {
        ThreadItem::AgentMessage { text, .. } | ThreadItem::Plan { text, .. } => text.len(),
        ThreadItem::Reasoning { summary, content, .. } => {
            summary.iter().chain(content).map(String::len).sum()
        }
        ThreadItem::CommandExecution { command, aggregated_output, .. } => {
            command.len() + aggregated_output.as_ref().map_or(0, String::len)
        }
        ThreadItem::FileChange { changes, .. } => changes.iter().map(|change| change.diff.len()).sum(),
        ThreadItem::ImageGeneration { result, .. } => result.len(),
        ThreadItem::UserMessage { content, .. } => content.iter().map(input_bytes).sum(),
        ThreadItem::McpToolCall { arguments, result, .. } => {
            let parts =
                result.iter().flat_map(|result| result.content.iter().chain(&result.structured_content));
            value_bytes(arguments) + parts.map(value_bytes).sum::<usize>()
        }
        ThreadItem::DynamicToolCall { arguments, content_items, .. } => {
            let parts = content_items.iter().flatten().map(|part| match part {
                DynamicToolCallOutputContentItem::InputText { text } => text.len(),
                DynamicToolCallOutputContentItem::InputImage { image_url } => image_url.len(),
                _ => 0,
            });
            value_bytes(arguments) + parts.sum::<usize>()
        }
        _ => 0,
    }
}

/// Returns the size of the strings in a value.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + value_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn input_bytes(part: &UserInput) -> usize {
    match part {
        UserInput::Text { text, .. } => text.len(),
        UserInput::Image { source: ImageSource::Url { url }, .. } => url.len(),
        _ => 0,
    }
}
