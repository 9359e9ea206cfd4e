//! Trimming a history that is too long, such that providers still accept the rest.
//!
//! The unit is a part of a turn: a message, or a tool call with its output and the reasoning before it. The oldest parts are
//! dropped first. Never dropped are the current context, a summary of earlier history, the last message of the user, and the
//! newest part. The history must be complete: every call has its output.

use codicil_protocol::{ResponseItem, ToolCallPairs};

use crate::{
    compaction::is_summary_message,
    context_tags::{is_context_message, is_setting_message},
    tokens::approx_tokens,
};

/// Returns for each item whether it is kept when the oldest parts are dropped until the rest takes at most `max_tokens` or
/// nothing more can be dropped.
pub fn kept_within<'a>(history: impl IntoIterator<Item = &'a ResponseItem>, max_tokens: u64) -> Vec<bool> {
    let items: Vec<_> = history.into_iter().collect();
    let parts = HistoryParts::of(&items);
    let mut total: u64 = parts.list.iter().map(|part| part.tokens).sum();
    let mut is_kept = vec![true; parts.list.len()];
    for (part, is_kept) in parts.list.iter().zip(&mut is_kept) {
        if total <= max_tokens {
            break;
        }
        if !part.is_protected {
            *is_kept = false;
            total -= part.tokens;
        }
    }
    parts.of_item.iter().map(|part| is_kept.get(*part).copied().unwrap_or(true)).collect()
}

#[derive(Debug, Default)]
struct HistoryPart {
    tokens: u64,
    is_protected: bool,
}

/// The parts of a history, in the order of their first items.
#[derive(Debug, Default)]
struct HistoryParts {
    list: Vec<HistoryPart>,
    /// The part that each item belongs to.
    of_item: Vec<usize>,
}

impl HistoryParts {
    fn of(items: &[&ResponseItem]) -> Self {
        let mut parts = Self::default();
        // Reasoning belongs to the next action of the model; providers reject it alone.
        let mut reasoning: Option<usize> = None;
        let calls = ToolCallPairs::of(items.iter().copied());
        for (index, item) in items.iter().enumerate() {
            let part = match kind(item) {
                PartKind::Reasoning => {
                    let part = reasoning.unwrap_or(parts.list.len());
                    reasoning = Some(part);
                    part
                }
                PartKind::Output => {
                    let call = calls.partner_of(index).and_then(|call| parts.of_item.get(call));
                    call.copied().unwrap_or(parts.list.len())
                }
                PartKind::Model => reasoning.take().unwrap_or(parts.list.len()),
                PartKind::Input => {
                    reasoning = None;
                    parts.list.len()
                }
            };
            parts.add(item, part);
        }
        parts.protect_newest(items);
        parts
    }

    fn add(&mut self, item: &ResponseItem, part: usize) {
        if part == self.list.len() {
            self.list.push(HistoryPart::default());
        }
        self.of_item.push(part);
        if let Some(part) = self.list.get_mut(part) {
            part.tokens += approx_tokens(item);
            part.is_protected |= is_setting_message(item)
                || is_summary_message(item)
                || matches!(item, ResponseItem::Compaction { .. });
        }
    }

    fn protect_newest(&mut self, items: &[&ResponseItem]) {
        let is_input =
            |item: &&ResponseItem| matches!(kind(item), PartKind::Input) && !is_context_message(item);
        let last_input = items.iter().rposition(is_input);
        let newest = [last_input, items.len().checked_sub(1)];
        for part in newest.into_iter().flatten().filter_map(|at| self.of_item.get(at)) {
            if let Some(part) = self.list.get_mut(*part) {
                part.is_protected = true;
            }
        }
    }
}

enum PartKind {
    Reasoning,
    /// The output of a tool call.
    Output,
    /// A message or a call by the model.
    Model,
    /// A message that is not by the model, or an output without a call.
    Input,
}

fn kind(item: &ResponseItem) -> PartKind {
    match item {
        ResponseItem::Reasoning { .. } => PartKind::Reasoning,
        ResponseItem::FunctionCallOutput { call_id: Some(_), .. }
        | ResponseItem::CustomToolCallOutput { .. }
        | ResponseItem::ToolSearchOutput { call_id: Some(_), .. } => PartKind::Output,
        ResponseItem::FunctionCallOutput { call_id: None, .. } => PartKind::Input,
        ResponseItem::Message { role, .. } if role != "assistant" => PartKind::Input,
        _ => PartKind::Model,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use codicil_protocol::{FunctionCallOutputBody, ReasoningItemReasoningSummary};
    use proptest::prelude::*;

    use super::*;
    use crate::message::{assistant_message, developer_message, user_text_message};

    /// `u`, `d`, `a` are messages, `e` the environment, `r` reasoning, `+x` calls, `-x` outputs; about ten
    /// tokens each.
    fn item(word: &str) -> ResponseItem {
        let text = format!("{word:<40}");
        match word.split_at(1) {
            ("+", id) => ResponseItem::CustomToolCall {
                id: None,
                call_id: id.to_owned(),
                status: None,
                name: String::new(),
                input: text,
            },
            ("-", id) => ResponseItem::CustomToolCallOutput {
                call_id: id.to_owned(),
                name: None,
                output: FunctionCallOutputBody::Text(text),
            },
            ("r", _) => ResponseItem::Reasoning {
                summary: vec![ReasoningItemReasoningSummary::SummaryText { text }],
                content: None,
                encrypted_content: None,
            },
            ("d", _) => developer_message([text]),
            ("e", _) => user_text_message("<environment_context></environment_context>"),
            ("a", _) => assistant_message(text),
            _ => user_text_message(text),
        }
    }

    fn kept(sketch: &str, max_tokens: u64) -> String {
        let words: Vec<_> = sketch.split_whitespace().collect();
        let items: Vec<_> = words.iter().map(|word| item(word)).collect();
        let kept = kept_within(&items, max_tokens);
        words
            .into_iter()
            .zip(kept)
            .filter_map(|(word, kept)| kept.then_some(word))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_oldest_parts_go_first() {
        let check =
            |sketch, max_tokens, expected: &str| assert_eq!(kept(sketch, max_tokens), expected, "{sketch}");
        check("u1 a1 u2 a2", 40, "u1 a1 u2 a2");
        check("u1 a1 u2 a2", 39, "a1 u2 a2");
        check("u1 a1 u2 a2", 0, "u2 a2");
        check("d1 u1 a1 u2", 20, "d1 u2");
        check("e u1 a1 u2", 0, "e u2");
        check("", 0, "");
    }

    #[test]
    fn calls_go_with_their_outputs_and_reasoning() {
        let check =
            |sketch, max_tokens, expected: &str| assert_eq!(kept(sketch, max_tokens), expected, "{sketch}");
        check("u1 +x -x a1 u2", 45, "+x -x a1 u2");
        check("u1 +x -x a1 u2", 35, "a1 u2");
        check("u1 r +x +y -x -y a1 u2", 60, "+y -y a1 u2");
        check("u1 r r +x -x r a1 u2", 45, "r a1 u2");
        check("u1 +x u2 -x", 0, "+x u2 -x");
        // A repeated id is another call.
        check("u1 +x -x +x -x", 30, "u1 +x -x");
        check("u1 +x -x +y -y", 0, "u1 +y -y");
    }

    proptest! {
        #[test]
        fn pairs_stay_whole_and_the_rest_fits(
            words in prop::collection::vec("(u|d|a|r|e|[xyz])", 0..40),
            max_tokens in 0_u64..400,
        ) {
            // Outputs follow later, in the order of the calls.
            let mut sketch = Vec::new();
            let mut open = VecDeque::new();
            for word in words {
                match word.as_str() {
                    "x" | "y" | "z" => {
                        sketch.push(format!("+{word}"));
                        open.push_back(format!("-{word}"));
                    }
                    "a" | "u" => {
                        sketch.extend(open.drain(..));
                        sketch.push(word);
                    }
                    _ => sketch.push(word),
                }
            }
            sketch.extend(open);
            let sketch = sketch.join(" ");
            let rest = kept(&sketch, max_tokens);
            let count = |sketch: &str, word: &str| sketch.split(' ').filter(|other| *other == word).count();
            for id in ["x", "y", "z"] {
                prop_assert_eq!(count(&rest, &format!("+{id}")), count(&rest, &format!("-{id}")));
            }
            prop_assert_eq!(count(&rest, "d"), count(&sketch, "d"), "context is kept");
            let tokens: u64 = rest.split_whitespace().map(|word| approx_tokens(&item(word))).sum();
            if tokens > max_tokens {
                prop_assert_eq!(kept(&rest, 0), rest, "only protected parts exceed the limit");
            }
        }
    }
}
