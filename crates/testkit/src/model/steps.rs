//! The steps of a streamed reply, and the methods that build them.
//!
//! A reply is a flat list of [`ReplyStep`]s that the player executes. Opening an item, its deltas and closing
//! it are separate steps, so that a gate or a pause can come anywhere, also in the middle of a message.

use std::time::Duration;

use serde_json::Value;

use super::reply::Reply;

/// Maximum number of deltas that a text is split into.
const MAX_DELTAS: usize = 4;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReplyStep {
    Open(ReplyItem),
    Deltas(ReplySection, Vec<String>),
    Close,
    Raw(Value),
    Gate(String),
    Pause(Duration),
    Pace(Duration),
}

/// An item of a reply, independent of the dialect.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReplyItem {
    Message { phase: Option<String> },
    Reasoning,
    Call { name: String, call_id: Option<String> },
    CustomCall { name: String, call_id: Option<String> },
    WebSearch { query: String },
    Other(Value),
}

/// The part of an item that deltas belong to. Summaries are numbered: a reasoning item may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplySection {
    Text,
    Summary(usize),
    Raw,
    Arguments,
    Input,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplyEnding {
    #[default]
    Completed,
    Incomplete(String),
    Failed {
        code: String,
        message: String,
    },
    Cut,
    Hang,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyUsage {
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    pub(super) reasoning: u64,
}

impl Default for ReplyUsage {
    fn default() -> Self {
        Self { input: 100, cached: 0, output: 10, reasoning: 0 }
    }
}

impl Reply {
    /// Adds a message in a few deltas. Continues the message before it if that is
    /// [`unfinished`](Self::unfinished).
    pub fn say(self, text: impl AsRef<str>) -> Self {
        self.say_deltas(split_words(text.as_ref()))
    }

    /// Adds a message in exactly these deltas.
    pub fn say_deltas(self, deltas: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.write(
            ReplyItem::Message { phase: None },
            ReplySection::Text,
            deltas.into_iter().map(Into::into).collect(),
        )
    }

    /// Sets the phase of the last message (`commentary`, `final_answer`), which only Responses encodes.
    pub fn phase(mut self, phase: impl Into<String>) -> Self {
        match self.last_item() {
            Some(ReplyItem::Message { phase: place }) => *place = Some(phase.into()),
            _ => panic!("phase() stands after say()"),
        }
        self
    }

    /// Adds reasoning with a summary of one part.
    pub fn think(self, summary: impl AsRef<str>) -> Self {
        self.think_parts([summary.as_ref()])
    }

    /// Adds reasoning with a summary of several parts.
    pub fn think_parts(mut self, parts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        // Unfinished reasoning continues in the same summary part.
        let first = match self.unfinished_section(&ReplyItem::Reasoning) {
            Some(ReplySection::Summary(at)) => at,
            _ => 0,
        };
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                self.reopen();
            }
            self = self.write(
                ReplyItem::Reasoning,
                ReplySection::Summary(first + index),
                split_words(part.as_ref()),
            );
        }
        self
    }

    /// Adds raw reasoning. It belongs to the same item as a summary just before it.
    pub fn think_raw(mut self, text: impl AsRef<str>) -> Self {
        if matches!(self.last_item(), Some(ReplyItem::Reasoning)) {
            self.reopen();
        }
        self.write(ReplyItem::Reasoning, ReplySection::Raw, split_words(text.as_ref()))
    }

    /// Adds a call of a function tool.
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.call_text(name, arguments.to_string())
    }

    /// Adds a call with arguments as text, which need not be a JSON object.
    pub fn call_text(self, name: impl Into<String>, arguments: impl AsRef<str>) -> Self {
        let item = ReplyItem::Call { name: name.into(), call_id: None };
        self.write(item, ReplySection::Arguments, split_anywhere(arguments.as_ref()))
    }

    /// Adds a call of a tool that takes free text. In dialects without such tools it is a function call with
    /// the argument `input`.
    pub fn custom_call(self, name: impl Into<String>, input: impl AsRef<str>) -> Self {
        let item = ReplyItem::CustomCall { name: name.into(), call_id: None };
        self.write(item, ReplySection::Input, split_anywhere(input.as_ref()))
    }

    /// Sets the id of the last call, instead of the next `call_…`.
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        match self.last_item() {
            Some(ReplyItem::Call { call_id, .. } | ReplyItem::CustomCall { call_id, .. }) => {
                *call_id = Some(id.into())
            }
            _ => panic!("call_id() stands after call() or custom_call()"),
        }
        self
    }

    /// Adds a web search of the provider, which Chat Completions does not encode.
    pub fn web_search(self, query: impl Into<String>) -> Self {
        self.step(ReplyStep::Open(ReplyItem::WebSearch { query: query.into() })).step(ReplyStep::Close)
    }

    /// Adds any other output item of the Responses dialect. The other dialects reject such a reply.
    pub fn item(self, item: Value) -> Self {
        self.step(ReplyStep::Open(ReplyItem::Other(item))).step(ReplyStep::Close)
    }

    /// Adds an event of the stream as it is. Its `type`, if it has one, is also the name of the event.
    pub fn raw(self, event: Value) -> Self {
        self.step(ReplyStep::Raw(event))
    }

    /// Leaves the last item open, as when the stream stops in the middle of it. A `say` or `think` that
    /// follows continues it.
    pub fn unfinished(mut self) -> Self {
        assert!(self.reopen(), "unfinished() stands after something said, thought or called");
        self
    }

    /// Closes the item that was left [`unfinished`](Self::unfinished).
    pub(super) fn finished(self) -> Self {
        self.step(ReplyStep::Close)
    }

    /// Waits until [`ModelServer::release`](super::ModelServer::release) is called with this name.
    pub fn gate(self, name: impl Into<String>) -> Self {
        self.step(ReplyStep::Gate(name.into()))
    }

    /// Waits for a time.
    pub fn pause(self, time: Duration) -> Self {
        self.step(ReplyStep::Pause(time))
    }

    /// Sets the time between the following deltas, on average: a late delta is followed by a shorter wait.
    pub fn pace(self, between: Duration) -> Self {
        self.step(ReplyStep::Pace(between))
    }

    /// Sets the reported tokens. `input` includes the cached ones and `output` those of the reasoning.
    pub fn usage(mut self, input: u64, cached: u64, output: u64, reasoning: u64) -> Self {
        self.stream().usage = Some(ReplyUsage { input, cached, output, reasoning });
        self
    }

    /// Reports no tokens, as some providers do.
    pub fn no_usage(mut self) -> Self {
        self.stream().usage = None;
        self
    }

    /// Keeps the stream open and sends nothing more.
    pub fn hang(self) -> Self {
        self.end(ReplyEnding::Hang)
    }

    /// Closes the connection. Everything before it is delivered.
    pub fn cut(self) -> Self {
        self.end(ReplyEnding::Cut)
    }

    /// Ends the stream with an error of the provider.
    pub fn fail(self, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.end(ReplyEnding::Failed { code: code.into(), message: message.into() })
    }

    /// Ends the reply early, with a reason of Responses (`max_output_tokens`, `content_filter`), which other
    /// dialects translate.
    pub fn incomplete(self, reason: impl Into<String>) -> Self {
        self.end(ReplyEnding::Incomplete(reason.into()))
    }

    /// Adds deltas to the unfinished item of the same kind, or else to a new item.
    fn write(mut self, item: ReplyItem, section: ReplySection, deltas: Vec<String>) -> Self {
        if self.unfinished_section(&item).is_none() {
            self = self.step(ReplyStep::Open(item));
        }
        self.step(ReplyStep::Deltas(section, deltas)).step(ReplyStep::Close)
    }

    fn step(mut self, step: ReplyStep) -> Self {
        self.stream().steps.push(step);
        self
    }

    fn end(mut self, ending: ReplyEnding) -> Self {
        self.stream().ending = ending;
        self
    }

    /// Removes the closing step of the last item. Returns whether there was one.
    fn reopen(&mut self) -> bool {
        let steps = &mut self.stream().steps;
        steps.pop_if(|step| *step == ReplyStep::Close).is_some()
    }

    /// Returns the last section of the open item, if `item` can continue it.
    fn unfinished_section(&mut self, item: &ReplyItem) -> Option<ReplySection> {
        let mut section = None;
        for step in self.stream().steps.iter().rev() {
            match step {
                ReplyStep::Deltas(last, _) => section = section.or(Some(*last)),
                ReplyStep::Open(ReplyItem::Message { .. }) if matches!(item, ReplyItem::Message { .. }) => {
                    return section;
                }
                ReplyStep::Open(ReplyItem::Reasoning) if *item == ReplyItem::Reasoning => return section,
                ReplyStep::Open(_) | ReplyStep::Close => return None,
                ReplyStep::Raw(_) | ReplyStep::Gate(_) | ReplyStep::Pause(_) | ReplyStep::Pace(_) => {}
            }
        }
        None
    }

    /// Returns the last item, also if waits have followed it.
    fn last_item(&mut self) -> Option<&mut ReplyItem> {
        self.stream().steps.iter_mut().rev().find_map(|step| match step {
            ReplyStep::Open(item) => Some(item),
            _ => None,
        })
    }
}

/// Splits a text after spaces into at most [`MAX_DELTAS`] parts with about the same number of words.
fn split_words(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let each = words.len().div_ceil(MAX_DELTAS).max(1);
    words.chunks(each).map(|piece| piece.concat()).collect()
}

/// Splits a text between any characters, as providers do with arguments.
fn split_anywhere(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let each = characters.len().div_ceil(MAX_DELTAS).max(1);
    characters.chunks(each).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_into_a_few_deltas() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split_words(text), expected, "{text:?}");
        check("", &[]);
        check("one", &["one"]);
        check("Let me look", &["Let ", "me ", "look"]);
        check("a b c d e f g h", &["a b ", "c d ", "e f ", "g h"]);
        check("a b c d e", &["a b ", "c d ", "e"]);
        assert_eq!(split_anywhere("añbñcñd"), ["añ", "bñ", "cñ", "d"]);
    }

    fn steps(mut reply: Reply) -> Vec<ReplyStep> {
        reply.stream().steps.clone()
    }

    #[test]
    fn an_unfinished_message_continues_after_a_gate() {
        let reply = Reply::new().say_deltas(["a"]).unfinished().gate("g").say_deltas(["b"]);
        assert_eq!(
            steps(reply),
            [
                ReplyStep::Open(ReplyItem::Message { phase: None }),
                ReplyStep::Deltas(ReplySection::Text, vec!["a".into()]),
                ReplyStep::Gate("g".into()),
                ReplyStep::Deltas(ReplySection::Text, vec!["b".into()]),
                ReplyStep::Close,
            ]
        );
    }

    #[test]
    fn raw_reasoning_joins_the_summary_just_before_it() {
        let opened = |reply| steps(reply).iter().filter(|step| matches!(step, ReplyStep::Open(_))).count();
        assert_eq!(opened(Reply::new().think_parts(["a", "b"]).think_raw("c")), 1);
        assert_eq!(opened(Reply::new().think("a").say("b").think_raw("c")), 3);
        assert_eq!(opened(Reply::new().think("a").think("b")), 2);
        assert_eq!(opened(Reply::new().think("a").unfinished().think("b")), 1);
    }

    #[test]
    #[should_panic(expected = "nothing can follow the end of a reply")]
    fn a_step_after_the_end_panics() {
        let _ = Reply::new().hang().say("late");
    }
}
