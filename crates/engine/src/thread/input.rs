//! What a person puts into a turn: checked, stored, and kept until the model is asked about it.

use codicil_protocol::{ResponseItem, ThreadItem, TurnId, UserInput};
use codicil_store::Record;

use crate::{error::ThreadError, ids::new_item_id};

/// The longest input of a turn, over all its texts.
const MAX_INPUT_CHARS: usize = 1 << 20;

/// The input of a new turn.
pub(super) struct FirstInput {
    pub item: ThreadItem,
    /// What the model is told besides.
    pub surroundings: Vec<ResponseItem>,
    /// The input as the model sees it.
    pub content: Vec<ResponseItem>,
    /// What of it is written only when it is said.
    pub unstored: Vec<Record>,
    /// Whether hooks have to let it pass before the model may see it.
    pub waits_for_hooks: bool,
}

impl FirstInput {
    /// Takes back what was asked, of which nobody has been told.
    pub fn withdrawal(&self, turn: &TurnId) -> Option<Record> {
        self.item.id().map(|item| Record::withdrawn(turn, item))
    }

    /// What the model is to know of input that it was never asked about, because the turn was cut off or
    /// failed before: all of it, unless hooks had still to decide.
    pub fn left_behind(self) -> (Vec<Record>, Vec<ResponseItem>) {
        match self.waits_for_hooks {
            true => Default::default(),
            false => (self.unstored, self.content),
        }
    }

    /// What the person wrote.
    pub fn text(&self) -> String {
        let ThreadItem::UserMessage { content, .. } = &self.item else { return String::new() };
        let texts = content.iter().filter_map(|input| match input {
            UserInput::Text { text, .. } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

pub(super) fn check_input(input: &[UserInput]) -> Result<(), ThreadError> {
    if input.is_empty() {
        return Err(ThreadError::EmptyInput);
    }
    let lengths = input.iter().map(|input| match input {
        UserInput::Text { text, .. } => text.chars().count(),
        _ => 0,
    });
    let actual = lengths.sum();
    if actual > MAX_INPUT_CHARS {
        return Err(ThreadError::InputTooLong { max: MAX_INPUT_CHARS, actual });
    }
    Ok(())
}

pub(super) fn user_message(content: Vec<UserInput>) -> ThreadItem {
    ThreadItem::UserMessage { id: new_item_id(), content }
}

/// A user message as it is kept: its texts are one, and come before everything else.
pub(super) fn stored_form(item: &ThreadItem) -> ThreadItem {
    let ThreadItem::UserMessage { id, content } = item else { return item.clone() };
    let mut joined = String::new();
    let mut elements = Vec::new();
    let mut others = Vec::new();
    for input in content {
        match input {
            UserInput::Text { text, text_elements } => {
                let shift = joined.len() as u64;
                elements.extend(text_elements.iter().cloned().map(|mut element| {
                    let range = &mut element.byte_range;
                    let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
                    let shown = bounds.and_then(|(start, end)| text.get(start..end));
                    element.placeholder = element.placeholder.or_else(|| shown.map(str::to_owned));
                    range.start = range.start.saturating_add(shift);
                    range.end = range.end.saturating_add(shift);
                    element
                }));
                joined.push_str(text);
            }
            other => others.push(other.clone()),
        }
    }
    let text = (!joined.is_empty()).then_some(UserInput::Text { text: joined, text_elements: elements });
    ThreadItem::UserMessage { id: id.clone(), content: text.into_iter().chain(others).collect() }
}

pub(super) fn context_record(turn: &TurnId, item: &ResponseItem) -> Record {
    Record::Context { turn_id: Some(turn.clone()), item: item.clone() }
}
