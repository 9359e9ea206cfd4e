//! The history as alternating user and assistant messages, for dialects that require it.
//!
//! Chat Completions and Anthropic's Messages require the result of every tool call right after the message with
//! the call, and reject a call without a result or a result without a call. A history does not always satisfy
//! this: a turn may have been interrupted, or the user may have written while a tool ran. So each call gets its
//! result here, moved from its place in the history or made up, and results without a call are dropped. An output
//! that was never meant for a call has no call id; it becomes a message of the user.

use codicil_protocol::{
    ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem, ResponseItem, ToolCallPairs,
};

use crate::{History, HistoryItem, joined_name};

pub(crate) use codicil_protocol::ABORTED_OUTPUT as ABORTED;

/// A history split into groups of consecutive items of one side.
pub(crate) struct HistoryExchange<'a> {
    /// Developer messages before the first other message. They become part of the instructions.
    pub preamble: Vec<&'a HistoryItem>,
    pub groups: Vec<ExchangeGroup<'a>>,
}

pub(crate) enum ExchangeGroup<'a> {
    /// Messages of the user, and developer messages after the preamble.
    User(Vec<&'a HistoryItem>),
    /// Messages, reasoning and calls of the model, with the results of the calls.
    Assistant { items: Vec<&'a HistoryItem>, results: Vec<ToolResult<'a>> },
}

pub(crate) struct ToolResult<'a> {
    pub call_id: &'a str,
    /// `None` if the history holds no result.
    pub output: Option<&'a HistoryItem>,
}

/// Groups the items for which `is_kept` holds. Calls and results are always kept, as pairs.
pub(crate) fn exchange(history: &History, is_kept: impl Fn(&ResponseItem) -> bool) -> HistoryExchange<'_> {
    let items: Vec<_> = history.iter().collect();
    let pairs = ToolCallPairs::of(items.iter().map(|item| item.item()));
    let mut exchange = HistoryExchange { preamble: Vec::new(), groups: Vec::new() };
    for (index, &item) in items.iter().enumerate() {
        match side(item.item()) {
            ExchangeSide::Developer if exchange.groups.is_empty() && is_kept(item.item()) => {
                exchange.preamble.push(item);
            }
            ExchangeSide::User | ExchangeSide::Developer if is_kept(item.item()) => {
                exchange.add_user_item(item)
            }
            ExchangeSide::Assistant if is_kept(item.item()) => exchange.add_assistant_item(item, None),
            ExchangeSide::Call(call_id) => {
                let output = pairs.partner_of(index).and_then(|output| items.get(output)).copied();
                let result = ToolResult { call_id, output };
                exchange.add_assistant_item(item, Some(result));
            }
            ExchangeSide::Output => exchange.close_calls(),
            _ => {}
        }
    }
    exchange
        .groups
        .retain(|group| !matches!(group, ExchangeGroup::Assistant { items, .. } if items.is_empty()));
    exchange
}

impl<'a> HistoryExchange<'a> {
    fn add_user_item(&mut self, item: &'a HistoryItem) {
        match self.groups.last_mut() {
            Some(ExchangeGroup::User(items)) => items.push(item),
            _ => self.groups.push(ExchangeGroup::User(vec![item])),
        }
    }

    fn add_assistant_item(&mut self, item: &'a HistoryItem, result: Option<ToolResult<'a>>) {
        if !matches!(self.groups.last(), Some(ExchangeGroup::Assistant { .. })) {
            self.groups.push(ExchangeGroup::Assistant { items: Vec::new(), results: Vec::new() });
        }
        if let Some(ExchangeGroup::Assistant { items, results }) = self.groups.last_mut() {
            items.push(item);
            results.extend(result);
        }
    }

    /// Begins a new assistant message: a result ends the message whose calls it answers.
    fn close_calls(&mut self) {
        if matches!(self.groups.last(), Some(ExchangeGroup::Assistant { results, .. }) if !results.is_empty())
        {
            self.groups.push(ExchangeGroup::Assistant { items: Vec::new(), results: Vec::new() });
        }
    }
}

enum ExchangeSide<'a> {
    User,
    Developer,
    Assistant,
    Call(&'a str),
    Output,
    /// An item that these dialects cannot express.
    None,
}

fn side(item: &ResponseItem) -> ExchangeSide<'_> {
    match item {
        ResponseItem::Message { role, .. } => match role.as_str() {
            "assistant" => ExchangeSide::Assistant,
            "developer" | "system" => ExchangeSide::Developer,
            _ => ExchangeSide::User,
        },
        ResponseItem::Reasoning { .. } => ExchangeSide::Assistant,
        ResponseItem::FunctionCall { call_id, .. } | ResponseItem::CustomToolCall { call_id, .. } => {
            ExchangeSide::Call(call_id)
        }
        ResponseItem::FunctionCallOutput { call_id: None, .. } => ExchangeSide::User,
        ResponseItem::FunctionCallOutput { .. } | ResponseItem::CustomToolCallOutput { .. } => {
            ExchangeSide::Output
        }
        _ => ExchangeSide::None,
    }
}

/// Returns the content of a message of the user that an output without a call becomes; `None` for other items.
pub(crate) fn lone_output_content(item: &ResponseItem) -> Option<Vec<ContentItem>> {
    let ResponseItem::FunctionCallOutput { call_id: None, name, namespace, output } = item else {
        return None;
    };
    let tool = joined_name(namespace.as_deref(), name.as_deref().unwrap_or("a tool"));
    let mut content = vec![ContentItem::InputText { text: format!("Output of `{tool}`:") }];
    match output {
        FunctionCallOutputBody::Text(text) => content.push(ContentItem::InputText { text: text.clone() }),
        FunctionCallOutputBody::Content(parts) => content.extend(parts.iter().filter_map(message_part)),
    }
    Some(content)
}

fn message_part(part: &FunctionCallOutputContentItem) -> Option<ContentItem> {
    match part {
        FunctionCallOutputContentItem::InputText { text } => {
            Some(ContentItem::InputText { text: text.clone() })
        }
        FunctionCallOutputContentItem::InputImage { source, detail } => {
            Some(ContentItem::InputImage { source: source.clone(), detail: detail.clone() })
        }
        FunctionCallOutputContentItem::InputAudio { audio_url } => {
            Some(ContentItem::InputAudio { audio_url: audio_url.clone() })
        }
        FunctionCallOutputContentItem::EncryptedContent { .. }
        | FunctionCallOutputContentItem::Unrecognized(_) => None,
    }
}

/// Returns whether a message has content. Most providers reject empty messages.
pub(crate) fn has_content(item: &ResponseItem) -> bool {
    let content = match item {
        ResponseItem::Message { content, .. } => content,
        ResponseItem::FunctionCallOutput { call_id: None, .. } => return true,
        _ => return false,
    };
    content.iter().any(|part| match part {
        ContentItem::InputText { text } | ContentItem::OutputText { text } => !text.is_empty(),
        ContentItem::InputImage { .. } | ContentItem::InputAudio { .. } => true,
        ContentItem::Unrecognized(_) => false,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use codicil_protocol::FunctionCallOutputBody;
    use proptest::prelude::*;

    use super::*;

    fn message(role: &str, text: &str) -> ResponseItem {
        let content = vec![ContentItem::InputText { text: text.into() }];
        ResponseItem::Message { role: role.into(), content, end_turn: None, phase: None, id: None }
    }

    fn call(id: &str) -> ResponseItem {
        ResponseItem::FunctionCall {
            name: "f".into(),
            namespace: None,
            arguments: "{}".into(),
            call_id: id.into(),
            id: None,
        }
    }

    fn output(id: &str) -> ResponseItem {
        let output = FunctionCallOutputBody::Text("r".into());
        match id {
            "" => ResponseItem::FunctionCallOutput {
                call_id: None,
                name: Some("f".into()),
                namespace: None,
                output,
            },
            id => ResponseItem::function_call_output(id.into(), output),
        }
    }

    /// `u`, `d`, `a` are messages, `+x` calls, `-x` results, `-` an output without a call.
    pub(crate) fn history(sketch: &str) -> History {
        let item = |word: &str| match word.split_at(1) {
            ("+", id) => call(id),
            ("-", id) => output(id),
            ("d", _) => message("developer", word),
            ("a", _) => message("assistant", word),
            _ => message("user", word),
        };
        sketch.split_whitespace().map(item).collect()
    }

    fn shown(sketch: &str) -> String {
        let history = history(sketch);
        let exchange = exchange(&history, has_content);
        let name = |item: &&HistoryItem| match item.item() {
            ResponseItem::Message { content, .. } => match &content[0] {
                ContentItem::InputText { text } => text.clone(),
                _ => unreachable!("the sketches have texts only"),
            },
            ResponseItem::FunctionCall { call_id, .. } => format!("+{call_id}"),
            ResponseItem::FunctionCallOutput { call_id: None, .. } => "-".into(),
            _ => unreachable!("results are apart"),
        };
        let names = |items: &[&HistoryItem]| items.iter().map(name).collect::<Vec<_>>().join(" ");
        let mut lines = vec![format!("[{}]", names(&exchange.preamble))];
        for group in &exchange.groups {
            lines.push(match group {
                ExchangeGroup::User(items) => format!("U({})", names(items)),
                ExchangeGroup::Assistant { items, results } if results.is_empty() => {
                    format!("A({})", names(items))
                }
                ExchangeGroup::Assistant { items, results } => {
                    let mark = |result: &ToolResult<'_>| {
                        format!("{}{}", if result.output.is_some() { "-" } else { "!" }, result.call_id)
                    };
                    let results: Vec<_> = results.iter().map(mark).collect();
                    format!("A({} | {})", names(items), results.join(" "))
                }
            });
        }
        lines.join(" ")
    }

    #[test]
    fn calls_and_results_stay_together() {
        let check = |sketch: &str, expected: &str| assert_eq!(shown(sketch), expected, "{sketch}");
        check("d1 u1 a1 u2", "[d1] U(u1) A(a1) U(u2)");
        check("d1 d2 u1 d3 u2 a1", "[d1 d2] U(u1 d3 u2) A(a1)");
        check("u1 +x -x a1", "[] U(u1) A(+x | -x) A(a1)");
        check("u1 a1 +x +y -x -y a2", "[] U(u1) A(a1 +x +y | -x -y) A(a2)");
        check("u1 +x -x +y -y", "[] U(u1) A(+x | -x) A(+y | -y)");
        check("u1 +x u2 -x a1", "[] U(u1) A(+x | -x) U(u2) A(a1)");
        check("u1 +x u2", "[] U(u1) A(+x | !x) U(u2)");
        check("u1 -x a1 -y a2", "[] U(u1) A(a1 a2)");
        check("u1 +x -x u2 +x -x", "[] U(u1) A(+x | -x) U(u2) A(+x | -x)");
        check("u1 +x u2 +x -x", "[] U(u1) A(+x | -x) U(u2) A(+x | !x)");
        check("u1 a1 - u2 a2", "[] U(u1) A(a1) U(- u2) A(a2)");
        check("u1 +x - -x a1", "[] U(u1) A(+x | -x) U(-) A(a1)");
    }

    proptest! {
        #[test]
        fn every_call_has_one_result_and_sides_alternate(
            words in prop::collection::vec("(u|d|a|-|\\+[xyz]|-[xyz])", 0..40),
        ) {
            let history = history(&words.join(" "));
            let exchange = exchange(&history, has_content);
            let calls = words.iter().filter(|word| word.starts_with('+')).count();
            let mut results_seen = 0;
            let mut before: Option<&ExchangeGroup<'_>> = None;
            for group in &exchange.groups {
                match (before, group) {
                    (Some(ExchangeGroup::User(_)), ExchangeGroup::User(_)) => prop_assert!(false, "two user groups in a row"),
                    (Some(ExchangeGroup::Assistant { results, .. }), ExchangeGroup::Assistant { .. }) => {
                        prop_assert!(!results.is_empty(), "two assistant groups without results between");
                    }
                    _ => {}
                }
                if let ExchangeGroup::Assistant { items, results } = group {
                    let called = items.iter().filter(|item| matches!(item.item(), ResponseItem::FunctionCall { .. }));
                    prop_assert_eq!(called.count(), results.len());
                    results_seen += results.len();
                }
                before = Some(group);
            }
            prop_assert_eq!(results_seen, calls);
        }
    }
}
