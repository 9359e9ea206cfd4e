//! Tool calls and their outputs in a model's history: which belong together, and what is missing.
//!
//! Providers reject a request in which a call has no output or an output has no call. A crash, an interrupt, a
//! rollback or a lost record leaves such histories behind. Loading a thread, shortening a history and rendering it
//! for a provider all need the same pairs; they are determined here, without regard to what the items say.

use std::collections::{HashMap, VecDeque};

use crate::{FunctionCallOutputBody, ResponseItem};

/// The output inserted for a call that never got one.
pub const ABORTED_OUTPUT: &str = "aborted";

/// The pairs of calls and outputs in a history.
///
/// Providers may use a call id again in a later turn, so an output belongs to the oldest call before it that has the
/// same id and family and no output yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallPairs {
    /// For each item the index of the other half of its pair.
    partners: Vec<Option<usize>>,
}

impl ToolCallPairs {
    pub fn of<'a>(history: impl IntoIterator<Item = &'a ResponseItem>) -> Self {
        let mut partners = Vec::new();
        let mut pairs = Vec::new();
        let mut open_calls: HashMap<ToolCallKey<'_>, VecDeque<usize>> = HashMap::new();
        for (index, item) in history.into_iter().enumerate() {
            partners.push(None);
            match ToolCallRole::of(item) {
                ToolCallRole::Call(key) => open_calls.entry(key).or_default().push_back(index),
                ToolCallRole::Output(key) => {
                    let call = open_calls.get_mut(&key).and_then(VecDeque::pop_front);
                    pairs.extend(call.map(|call| (call, index)));
                }
                ToolCallRole::Neither => {}
            }
        }
        for (call, output) in pairs {
            for (item, partner) in [(call, output), (output, call)] {
                if let Some(slot) = partners.get_mut(item) {
                    *slot = Some(partner);
                }
            }
        }
        Self { partners }
    }

    /// Returns the index of a call's output, or of an output's call. `None` if the other half is missing or the item
    /// is neither.
    pub fn partner_of(&self, index: usize) -> Option<usize> {
        self.partners.get(index).copied().flatten()
    }
}

/// Completes a history so that every call has exactly one output, somewhere after it.
///
/// A call without an output gets [`ABORTED_OUTPUT`] right behind it, and outputs without a call are dropped. Complete
/// histories are returned as they are.
pub fn complete_tool_calls(history: Vec<ResponseItem>) -> Vec<ResponseItem> {
    let pairs = ToolCallPairs::of(&history);
    let mut complete = Vec::with_capacity(history.len());
    for (index, item) in history.into_iter().enumerate() {
        let is_alone = pairs.partner_of(index).is_none();
        if is_alone && matches!(ToolCallRole::of(&item), ToolCallRole::Output(_)) {
            continue;
        }
        let missing_output = is_alone.then(|| aborted_output(&item)).flatten();
        complete.push(item);
        complete.extend(missing_output);
    }
    complete
}

/// The part of an item in a tool call.
enum ToolCallRole<'a> {
    Call(ToolCallKey<'a>),
    Output(ToolCallKey<'a>),
    Neither,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ToolCallKey<'a> {
    family: ToolCallFamily,
    call_id: &'a str,
}

/// The kinds of calls. An output belongs only to a call of its own kind, also if another has the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ToolCallFamily {
    Function,
    Custom,
    ToolSearch,
}

impl<'a> ToolCallRole<'a> {
    fn of(item: &'a ResponseItem) -> Self {
        let key = |family, call_id| ToolCallKey { family, call_id };
        match item {
            ResponseItem::FunctionCall { call_id, .. }
            | ResponseItem::LocalShellCall { call_id: Some(call_id), .. } => {
                Self::Call(key(ToolCallFamily::Function, call_id))
            }
            ResponseItem::CustomToolCall { call_id, .. } => Self::Call(key(ToolCallFamily::Custom, call_id)),
            ResponseItem::ToolSearchCall { call_id: Some(call_id), .. } => {
                Self::Call(key(ToolCallFamily::ToolSearch, call_id))
            }
            ResponseItem::FunctionCallOutput { call_id: Some(call_id), .. } => {
                Self::Output(key(ToolCallFamily::Function, call_id))
            }
            ResponseItem::CustomToolCallOutput { call_id, .. } => {
                Self::Output(key(ToolCallFamily::Custom, call_id))
            }
            ResponseItem::ToolSearchOutput { call_id: Some(call_id), .. } => {
                Self::Output(key(ToolCallFamily::ToolSearch, call_id))
            }
            // The provider runs calls without an id itself and expects no output. An output without an id has no call.
            _ => Self::Neither,
        }
    }
}

/// Returns the output for a call that never got one; `None` for other items.
fn aborted_output(call: &ResponseItem) -> Option<ResponseItem> {
    let output = FunctionCallOutputBody::Text(ABORTED_OUTPUT.to_owned());
    match call {
        ResponseItem::FunctionCall { call_id, .. }
        | ResponseItem::LocalShellCall { call_id: Some(call_id), .. } => {
            Some(ResponseItem::function_call_output(call_id.clone(), output))
        }
        ResponseItem::CustomToolCall { call_id, .. } => {
            Some(ResponseItem::CustomToolCallOutput { call_id: call_id.clone(), name: None, output })
        }
        ResponseItem::ToolSearchCall { call_id: Some(call_id), execution, .. } => {
            Some(ResponseItem::ToolSearchOutput {
                call_id: Some(call_id.clone()),
                status: "completed".to_owned(),
                execution: execution.clone(),
                tools: Vec::new(),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// Builds a history from words: `+x` is a function call, `-x` its output, `*x` and `/x` the same of a custom tool,
    /// `?x` and `=x` of a tool search. Everything else is an item without a role.
    fn history(sketch: &str) -> Vec<ResponseItem> {
        sketch.split_whitespace().map(item).collect()
    }

    fn item(word: &str) -> ResponseItem {
        let text = |text: &str| FunctionCallOutputBody::Text(text.to_owned());
        let (sign, call_id) = word.split_at(1);
        let call_id = call_id.trim_end_matches('!').to_owned();
        let output = text(if word.ends_with('!') { ABORTED_OUTPUT } else { "ok" });
        match sign {
            "+" => ResponseItem::FunctionCall {
                id: None,
                call_id,
                name: "shell".to_owned(),
                namespace: None,
                arguments: "{}".to_owned(),
            },
            "-" if call_id.is_empty() => ResponseItem::FunctionCallOutput {
                call_id: None,
                name: Some("clock".to_owned()),
                namespace: None,
                output,
            },
            "-" => ResponseItem::function_call_output(call_id, output),
            "*" => ResponseItem::CustomToolCall {
                id: None,
                call_id,
                status: None,
                name: "apply_patch".to_owned(),
                input: String::new(),
            },
            "/" => ResponseItem::CustomToolCallOutput { call_id, name: None, output },
            "?" => ResponseItem::ToolSearchCall {
                id: None,
                call_id: (!call_id.is_empty()).then_some(call_id),
                status: None,
                execution: "client".to_owned(),
                arguments: Value::Null,
            },
            "=" => ResponseItem::ToolSearchOutput {
                call_id: Some(call_id),
                status: "completed".to_owned(),
                execution: "client".to_owned(),
                tools: Vec::new(),
            },
            _ => ResponseItem::Other,
        }
    }

    /// `!` marks the outputs that are expected to be inserted.
    fn check(sketch: &str, expected: &str) {
        assert_eq!(complete_tool_calls(history(sketch)), history(expected), "{sketch}");
    }

    #[test]
    fn every_call_gets_one_output_after_it() {
        check("+a -a", "+a -a");
        check("+a o", "+a -a! o");
        check("+a +b -b", "+a -a! +b -b");
        check("-a", "");
        check("+a -a -a", "+a -a");
        check("-a +a", "+a -a!");
    }

    #[test]
    fn an_id_may_be_used_again() {
        check("+0 -0 +0 -0", "+0 -0 +0 -0");
        check("+0 -0 +0", "+0 -0 +0 -0!");
        let pairs = ToolCallPairs::of(&history("+0 +0 -0 o -0"));
        let partners: Vec<_> = (0..6).map(|index| pairs.partner_of(index)).collect();
        assert_eq!(partners, [Some(2), Some(4), Some(0), None, Some(1), None]);
    }

    #[test]
    fn an_output_of_another_family_does_not_count() {
        check("*a -a", "*a /a!");
        check("*a /a", "*a /a");
        check("?a /a", "?a =a");
        check("+a *a -a /a", "+a *a -a /a");
    }

    #[test]
    fn calls_without_an_id_need_no_output() {
        check("?", "?");
    }

    #[test]
    fn an_output_without_an_id_needs_no_call() {
        check("-", "-");
        check("+a - -a", "+a - -a");
    }

    proptest! {
        #[test]
        fn completing_is_idempotent_and_keeps_pairs(
            words in prop::collection::vec("(o|-|[-+*/?=][xyz])", 0..40),
        ) {
            let history = history(&words.join(" "));
            let complete = complete_tool_calls(history.clone());
            let pairs = ToolCallPairs::of(&complete);
            for (index, item) in complete.iter().enumerate() {
                match ToolCallRole::of(item) {
                    ToolCallRole::Call(_) => prop_assert!(pairs.partner_of(index) > Some(index)),
                    ToolCallRole::Output(_) => {
                        let call = pairs.partner_of(index);
                        prop_assert!(call.is_some_and(|call| call < index));
                    }
                    ToolCallRole::Neither => prop_assert_eq!(pairs.partner_of(index), None),
                }
            }
            let calls = |items: &[ResponseItem]| {
                items.iter().filter(|item| matches!(ToolCallRole::of(item), ToolCallRole::Call(_))).count()
            };
            prop_assert_eq!(calls(&complete), calls(&history));
            prop_assert_eq!(complete_tool_calls(complete.clone()), complete);
        }
    }
}
