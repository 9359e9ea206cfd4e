//! The words of a streamed reply: what the model says, does and how it ends.
//!
//! A reply is kept as a flat list of [`ReplyStep`]s that the player walks through. An item is opened, gets
//! deltas and is closed by steps of their own, so that a gate or a pause can stand anywhere, also in the
//! middle of a message.

use std::time::Duration;

use serde_json::Value;

use super::reply::Reply;

/// How many deltas a text given in one piece is sent in.
const PIECES: usize = 4;

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

/// What a reply consists of; dialects have their own forms for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ReplyItem {
    Message { phase: Option<String> },
    Reasoning,
    Call { name: String, call_id: Option<String> },
    CustomCall { name: String, call_id: Option<String> },
    WebSearch { query: String },
    Other(Value),
}

/// The part of an item that deltas go to. Summaries are numbered: a reasoning item may have several.
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
    /// A message, sent in a few deltas. Goes on with the message before it when that is
    /// [`unfinished`](Self::unfinished).
    pub fn say(self, text: impl AsRef<str>) -> Self {
        self.say_deltas(words(text.as_ref()))
    }

    /// A message, sent in exactly these deltas.
    pub fn say_deltas(self, deltas: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.write(
            ReplyItem::Message { phase: None },
            ReplySection::Text,
            deltas.into_iter().map(Into::into).collect(),
        )
    }

    /// Gives the message just said a phase (`commentary`, `final_answer`); only Responses has a place for it.
    pub fn phase(mut self, phase: impl Into<String>) -> Self {
        match self.last_item() {
            Some(ReplyItem::Message { phase: place }) => *place = Some(phase.into()),
            _ => panic!("phase() stands after say()"),
        }
        self
    }

    /// Reasoning with a summary of one part.
    pub fn think(self, summary: impl AsRef<str>) -> Self {
        self.think_parts([summary.as_ref()])
    }

    /// Reasoning with a summary of several parts.
    pub fn think_parts(mut self, parts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        // A thought that goes on stays in the summary part it was in.
        let first = match self.unfinished_section(&ReplyItem::Reasoning) {
            Some(ReplySection::Summary(at)) => at,
            _ => 0,
        };
        for (index, part) in parts.into_iter().enumerate() {
            self.reopen(index > 0);
            self =
                self.write(ReplyItem::Reasoning, ReplySection::Summary(first + index), words(part.as_ref()));
        }
        self
    }

    /// The reasoning itself rather than a summary. Joins the summary just before it, else stands alone.
    pub fn think_raw(mut self, text: impl AsRef<str>) -> Self {
        let joins = matches!(self.last_item(), Some(ReplyItem::Reasoning));
        self.reopen(joins);
        self.write(ReplyItem::Reasoning, ReplySection::Raw, words(text.as_ref()))
    }

    /// A call of a function tool.
    pub fn call(self, name: impl Into<String>, arguments: Value) -> Self {
        self.call_text(name, arguments.to_string())
    }

    /// A call whose arguments are sent as they stand, for those that are not JSON or not an object.
    pub fn call_text(self, name: impl Into<String>, arguments: impl AsRef<str>) -> Self {
        let item = ReplyItem::Call { name: name.into(), call_id: None };
        self.write(item, ReplySection::Arguments, slices(arguments.as_ref()))
    }

    /// A call of a tool that takes free text. Where a dialect has no such tools, it is a function call
    /// with the one argument `input`.
    pub fn custom_call(self, name: impl Into<String>, input: impl AsRef<str>) -> Self {
        let item = ReplyItem::CustomCall { name: name.into(), call_id: None };
        self.write(item, ReplySection::Input, slices(input.as_ref()))
    }

    /// Gives the call just made this id instead of the next `call_…`.
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        match self.last_item() {
            Some(ReplyItem::Call { call_id, .. } | ReplyItem::CustomCall { call_id, .. }) => {
                *call_id = Some(id.into())
            }
            _ => panic!("call_id() stands after call() or custom_call()"),
        }
        self
    }

    /// A search that the provider runs by itself; a client of Chat Completions sees nothing of it.
    pub fn web_search(self, query: impl Into<String>) -> Self {
        self.step(ReplyStep::Open(ReplyItem::WebSearch { query: query.into() })).step(ReplyStep::Close)
    }

    /// Any other output item of the Responses dialect, as it is. The other dialects refuse such a reply.
    pub fn item(self, item: Value) -> Self {
        self.step(ReplyStep::Open(ReplyItem::Other(item))).step(ReplyStep::Close)
    }

    /// One event of the stream, as it is. Its `type`, when it has one, is also the name of the event.
    pub fn raw(self, event: Value) -> Self {
        self.step(ReplyStep::Raw(event))
    }

    /// Leaves the item just written open, as when the stream stops in the middle of it.
    /// A `say` or `think` that follows goes on with it.
    pub fn unfinished(mut self) -> Self {
        assert!(self.reopen(true), "unfinished() stands after something said, thought or called");
        self
    }

    /// Ends the item that was left [`unfinished`](Self::unfinished).
    pub(super) fn finished(self) -> Self {
        self.step(ReplyStep::Close)
    }

    /// Waits here until [`ModelServer::release`](super::ModelServer::release) is called with this name.
    pub fn gate(self, name: impl Into<String>) -> Self {
        self.step(ReplyStep::Gate(name.into()))
    }

    /// Waits here once.
    pub fn pause(self, time: Duration) -> Self {
        self.step(ReplyStep::Pause(time))
    }

    /// From here on, leaves this much time between deltas. Kept on average: a late delta is caught up.
    pub fn pace(self, between: Duration) -> Self {
        self.step(ReplyStep::Pace(between))
    }

    /// The tokens to report; `input` counts the cached ones and `output` those of the reasoning.
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

    /// Closes the connection where it is; all that was said before arrives.
    pub fn cut(self) -> Self {
        self.end(ReplyEnding::Cut)
    }

    /// The provider gives up with an error inside the stream.
    pub fn fail(self, code: impl Into<String>, message: impl Into<String>) -> Self {
        self.end(ReplyEnding::Failed { code: code.into(), message: message.into() })
    }

    /// The model stops early, with a reason in the words of Responses (`max_output_tokens`,
    /// `content_filter`); other dialects use their own word for it.
    pub fn incomplete(self, reason: impl Into<String>) -> Self {
        self.end(ReplyEnding::Incomplete(reason.into()))
    }

    /// Adds deltas to the unfinished item of the same kind when there is one, else to a new item.
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

    /// Takes back the closing of the last item, and says whether there was one to take back.
    fn reopen(&mut self, really: bool) -> bool {
        let steps = &mut self.stream().steps;
        really && steps.pop_if(|step| *step == ReplyStep::Close).is_some()
    }

    /// Where the last item left off, if it is still open and can take what `item` brings.
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

    /// The item whose steps came last, whatever waits have come since.
    fn last_item(&mut self) -> Option<&mut ReplyItem> {
        self.stream().steps.iter_mut().rev().find_map(|step| match step {
            ReplyStep::Open(item) => Some(item),
            _ => None,
        })
    }
}

/// Cuts a text after spaces, into at most [`PIECES`] pieces of about as many words.
fn words(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    let each = words.len().div_ceil(PIECES).max(1);
    words.chunks(each).map(|piece| piece.concat()).collect()
}

/// Cuts a text anywhere between characters, as providers do with arguments.
fn slices(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let each = characters.len().div_ceil(PIECES).max(1);
    characters.chunks(each).map(|piece| piece.iter().collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_into_a_few_pieces() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text:?}");
        check("", &[]);
        check("one", &["one"]);
        check("Let me look", &["Let ", "me ", "look"]);
        check("a b c d e f g h", &["a b ", "c d ", "e f ", "g h"]);
        check("a b c d e", &["a b ", "c d ", "e"]);
        assert_eq!(slices("añbñcñd"), ["añ", "bñ", "cñ", "d"]);
    }

    fn steps(mut reply: Reply) -> Vec<ReplyStep> {
        reply.stream().steps.clone()
    }

    #[test]
    fn an_unfinished_message_is_gone_on_with_across_a_gate() {
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
    fn raw_reasoning_joins_its_summary_but_not_an_earlier_one() {
        let opened = |reply| steps(reply).iter().filter(|step| matches!(step, ReplyStep::Open(_))).count();
        assert_eq!(opened(Reply::new().think_parts(["a", "b"]).think_raw("c")), 1);
        assert_eq!(opened(Reply::new().think("a").say("b").think_raw("c")), 3);
        assert_eq!(opened(Reply::new().think("a").think("b")), 2);
        assert_eq!(opened(Reply::new().think("a").unfinished().think("b")), 1);
    }

    #[test]
    #[should_panic(expected = "nothing can follow the end of a reply")]
    fn nothing_follows_the_end_of_a_reply() {
        let _ = Reply::new().hang().say("late");
    }
}
