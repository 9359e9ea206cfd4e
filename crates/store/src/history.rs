//! A history that a model accepts: every tool call has exactly one output, after it.
//!
//! A crash, an interrupt, a rollback or a lost line can leave a call without its output or the other way
//! round, and providers refuse the whole request for either.

use std::collections::{HashMap, VecDeque};

use codicil_protocol::{FunctionCallOutputBody, ResponseItem};

/// What stands in for the output of a call that never got one.
pub const ABORTED: &str = "aborted";

/// Gives every call without an output an [`ABORTED`] one right behind it and drops outputs that answer no
/// call. Complete histories come back as they are.
pub fn complete_calls(history: Vec<ResponseItem>) -> Vec<ResponseItem> {
    let verdicts = judge(&history);
    let mut complete = Vec::with_capacity(history.len());
    for (item, verdict) in history.into_iter().zip(verdicts) {
        match verdict {
            ItemVerdict::Keep => complete.push(item),
            ItemVerdict::Drop => {}
            ItemVerdict::Answer => {
                let answer = aborted(&item);
                complete.push(item);
                complete.extend(answer);
            }
        }
    }
    complete
}

#[derive(Clone, Copy)]
enum ItemVerdict {
    Keep,
    Drop,
    /// A call that nothing answers.
    Answer,
}

/// Providers may use a call id again in a later turn, so each output answers the oldest open call.
fn judge(history: &[ResponseItem]) -> Vec<ItemVerdict> {
    let mut verdicts = vec![ItemVerdict::Keep; history.len()];
    let mut open: HashMap<(CallFamily, &str), VecDeque<usize>> = HashMap::new();
    for (at, item) in history.iter().enumerate() {
        match role(item) {
            CallRole::Call(family, id) => open.entry((family, id)).or_default().push_back(at),
            CallRole::Output(family, id) => {
                let answered = open.get_mut(&(family, id)).and_then(VecDeque::pop_front);
                if answered.is_none() {
                    verdicts.iter_mut().skip(at).take(1).for_each(|verdict| *verdict = ItemVerdict::Drop);
                }
            }
            CallRole::Other => {}
        }
    }
    for at in open.into_values().flatten() {
        verdicts.iter_mut().skip(at).take(1).for_each(|verdict| *verdict = ItemVerdict::Answer);
    }
    verdicts
}

/// Calls are answered by outputs of their own family only.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum CallFamily {
    Function,
    Custom,
    ToolSearch,
}

enum CallRole<'a> {
    Call(CallFamily, &'a str),
    Output(CallFamily, &'a str),
    Other,
}

fn role(item: &ResponseItem) -> CallRole<'_> {
    match item {
        ResponseItem::FunctionCall { call_id, .. }
        | ResponseItem::LocalShellCall { call_id: Some(call_id), .. } => {
            CallRole::Call(CallFamily::Function, call_id)
        }
        ResponseItem::CustomToolCall { call_id, .. } => CallRole::Call(CallFamily::Custom, call_id),
        ResponseItem::ToolSearchCall { call_id: Some(call_id), .. } => {
            CallRole::Call(CallFamily::ToolSearch, call_id)
        }
        ResponseItem::FunctionCallOutput { call_id, .. } => CallRole::Output(CallFamily::Function, call_id),
        ResponseItem::CustomToolCallOutput { call_id, .. } => CallRole::Output(CallFamily::Custom, call_id),
        ResponseItem::ToolSearchOutput { call_id: Some(call_id), .. } => {
            CallRole::Output(CallFamily::ToolSearch, call_id)
        }
        // Calls without an id are the provider's own business, from start to end.
        _ => CallRole::Other,
    }
}

fn aborted(call: &ResponseItem) -> Option<ResponseItem> {
    let output = FunctionCallOutputBody::Text(ABORTED.to_owned());
    match call {
        ResponseItem::FunctionCall { call_id, .. }
        | ResponseItem::LocalShellCall { call_id: Some(call_id), .. } => {
            Some(ResponseItem::FunctionCallOutput { call_id: call_id.clone(), output })
        }
        ResponseItem::CustomToolCall { call_id, .. } => {
            Some(ResponseItem::CustomToolCallOutput { call_id: call_id.clone(), name: None, output })
        }
        ResponseItem::ToolSearchCall { call_id, execution, .. } => Some(ResponseItem::ToolSearchOutput {
            call_id: call_id.clone(),
            status: "completed".to_owned(),
            execution: execution.clone(),
            tools: Vec::new(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ResponseItem {
        let (name, arguments) = ("shell".to_owned(), "{}".to_owned());
        ResponseItem::FunctionCall { name, namespace: None, arguments, call_id: id.to_owned(), id: None }
    }

    fn custom(id: &str) -> ResponseItem {
        let (name, input) = ("apply_patch".to_owned(), String::new());
        ResponseItem::CustomToolCall { call_id: id.to_owned(), name, input, status: None, id: None }
    }

    fn output(id: &str, text: &str) -> ResponseItem {
        let output = FunctionCallOutputBody::Text(text.to_owned());
        ResponseItem::FunctionCallOutput { call_id: id.to_owned(), output }
    }

    fn custom_output(id: &str, text: &str) -> ResponseItem {
        let output = FunctionCallOutputBody::Text(text.to_owned());
        ResponseItem::CustomToolCallOutput { call_id: id.to_owned(), name: None, output }
    }

    fn check(history: &[ResponseItem], expected: &[ResponseItem]) {
        assert_eq!(complete_calls(history.to_vec()), expected);
    }

    #[test]
    fn every_call_has_one_output_after_it() {
        check(&[call("a"), output("a", "ok")], &[call("a"), output("a", "ok")]);
        check(&[call("a")], &[call("a"), output("a", ABORTED)]);
        check(
            &[call("a"), call("b"), output("b", "ok")],
            &[call("a"), output("a", ABORTED), call("b"), output("b", "ok")],
        );
        check(&[output("a", "lost its call")], &[]);
        check(&[call("a"), output("a", "ok"), output("a", "twice")], &[call("a"), output("a", "ok")]);
        check(&[output("a", "early"), call("a")], &[call("a"), output("a", ABORTED)]);
    }

    #[test]
    fn ids_may_be_used_again() {
        let again = [call("0"), output("0", "one"), call("0"), output("0", "two")];
        check(&again, &again);
        check(
            &[call("0"), output("0", "one"), call("0")],
            &[call("0"), output("0", "one"), call("0"), output("0", ABORTED)],
        );
    }

    #[test]
    fn families_do_not_answer_each_other() {
        check(&[custom("a"), output("a", "wrong")], &[custom("a"), custom_output("a", ABORTED)]);
        check(&[custom("a"), custom_output("a", "ok")], &[custom("a"), custom_output("a", "ok")]);
    }
}
