//! From a model's events to a turn's steps: items begin, grow and end.

use std::collections::BTreeMap;

use codicil_context::PlanSplitter;
use codicil_model::Event;
use codicil_protocol::{
    AgentMessageDelta, AgentMessageDeltaNotification, ContentItem, Frame, ItemId, MessagePhase, PlanDelta,
    PlanDeltaNotification, ReasoningItemContent, ReasoningItemReasoningSummary, ReasoningSummaryPartAdded,
    ReasoningSummaryPartAddedNotification, ReasoningSummaryTextDelta, ReasoningSummaryTextDeltaNotification,
    ReasoningTextDelta, ReasoningTextDeltaNotification, ResponseItem, ThreadId, ThreadItem, TurnId,
};

use super::{Show, web_search};
use crate::{
    step::Step,
    tools::{Call, call_of},
};

/// What a complete response leaves to do.
#[derive(Debug, Default)]
pub struct Response {
    pub calls: Vec<Call>,
    /// The last thing that was said in it.
    pub message: Option<String>,
}

/// Reads one response.
pub struct Reader {
    thread: ThreadId,
    turn: TurnId,
    show: Show,
    open: BTreeMap<ItemId, Open>,
    response: Response,
}

/// An item that has begun.
enum Open {
    Message { text: String, phase: Option<MessagePhase>, plan: Option<Box<Plan>> },
    Reasoning { summary: Vec<String>, content: Vec<String> },
    WebSearch,
    ImageGeneration,
}

/// A plan within a message of plan mode. The message itself begins with its first visible letter: one that
/// is nothing but a plan is not shown.
struct Plan {
    splitter: PlanSplitter,
    id: ItemId,
    text: Option<String>,
    message: ThreadItem,
    is_message_shown: bool,
}

impl Reader {
    pub fn new(thread: ThreadId, turn: TurnId, show: Show) -> Self {
        Self { thread, turn, show, open: BTreeMap::new(), response: Response::default() }
    }

    /// What these events mean.
    pub fn read(&mut self, events: impl Iterator<Item = Event>) -> Vec<Step> {
        let mut steps = Vec::with_capacity(events.size_hint().0);
        events.for_each(|event| self.on_event(event, &mut steps));
        steps
    }

    /// The response is over, as it should be or not: what has begun ends with what there is of it.
    pub fn close(&mut self) -> Vec<Step> {
        let open = std::mem::take(&mut self.open);
        let shown =
            |open: &Open| !matches!(open, Open::Message { plan: Some(plan), .. } if !plan.is_message_shown);
        open.into_iter().filter(|(_, open)| shown(open)).map(|(id, open)| close_item(id, open)).collect()
    }

    pub fn finish(self) -> Response {
        self.response
    }

    fn on_event(&mut self, event: Event, steps: &mut Vec<Step>) {
        match event {
            Event::RateLimits(limits) => steps.push(Step::RateLimits(limits)),
            Event::Rerouted(model) => steps.push(Step::Rerouted(model)),
            Event::ItemAdded { id, item } => self.begin(id, &item, steps),
            Event::TextDelta { item_id, delta } => self.on_text(item_id, delta, steps),
            Event::ReasoningSummaryPartAdded { item_id, index } => {
                if let Some(Open::Reasoning { summary, .. }) = self.open.get_mut(&item_id) {
                    part(summary, index);
                    let params = ReasoningSummaryPartAddedNotification {
                        thread_id: self.thread.clone(),
                        turn_id: self.turn.clone(),
                        item_id,
                        summary_index: index,
                    };
                    steps.push(Step::Told(Frame::notification::<ReasoningSummaryPartAdded>(&params)));
                }
            }
            Event::ReasoningSummaryDelta { item_id, index, delta } => {
                if let Some(Open::Reasoning { summary, .. }) = self.open.get_mut(&item_id) {
                    part(summary, index).push_str(&delta);
                    let params = ReasoningSummaryTextDeltaNotification {
                        thread_id: self.thread.clone(),
                        turn_id: self.turn.clone(),
                        item_id,
                        summary_index: index,
                        delta,
                    };
                    steps.push(Step::Told(Frame::notification::<ReasoningSummaryTextDelta>(&params)));
                }
            }
            Event::ReasoningTextDelta { item_id, index, delta } => self.on_raw(item_id, index, delta, steps),
            Event::ItemDone { id, item } => self.end(id, *item, steps),
            Event::Completed { usage, .. } => steps.extend(usage.map(Step::Used)),
        }
    }

    /// Does nothing for an item that has begun already.
    fn begin(&mut self, id: ItemId, item: &ResponseItem, steps: &mut Vec<Step>) {
        if self.open.contains_key(&id) {
            return;
        }
        let (open, shown) = match item {
            ResponseItem::Message { role, phase, .. } if role == "assistant" && self.show.plans => {
                let plan = Box::new(Plan {
                    splitter: PlanSplitter::default(),
                    id: ItemId::from(format!("{id}-plan")),
                    text: None,
                    message: agent_message(&id, String::new(), phase.clone()),
                    is_message_shown: false,
                });
                let open = Open::Message { text: String::new(), phase: phase.clone(), plan: Some(plan) };
                self.open.insert(id, open);
                return;
            }
            // What an item has when it begins is shown at once: it may have come as a whole.
            ResponseItem::Message { role, phase, content, .. } if role == "assistant" => {
                let text = output_text(content);
                let open = Open::Message { text: text.clone(), phase: phase.clone(), plan: None };
                (open, agent_message(&id, text, phase.clone()))
            }
            ResponseItem::Reasoning { summary, content, .. } => {
                let summary: Vec<_> = summary.iter().map(summary_text).collect();
                let content = self.raw_texts(content.as_deref());
                let shown = ThreadItem::Reasoning {
                    id: id.clone(),
                    summary: summary.clone(),
                    content: content.clone(),
                };
                (Open::Reasoning { summary, content }, shown)
            }
            ResponseItem::WebSearchCall { action: Some(action), .. } => {
                (Open::WebSearch, web_search::done(id.clone(), Some(action)))
            }
            ResponseItem::WebSearchCall { .. } => (Open::WebSearch, web_search::begun(&id)),
            ResponseItem::ImageGenerationCall { .. } => {
                let shown = ThreadItem::ImageGeneration {
                    id: id.clone(),
                    status: "in_progress".to_owned(),
                    revised_prompt: None,
                    result: String::new(),
                    saved_path: None,
                };
                (Open::ImageGeneration, shown)
            }
            // Tool calls begin when they are run.
            _ => return,
        };
        self.open.insert(id, open);
        steps.push(Step::Started(shown));
    }

    fn on_text(&mut self, item_id: ItemId, delta: String, steps: &mut Vec<Step>) {
        let Some(Open::Message { text, plan, .. }) = self.open.get_mut(&item_id) else { return };
        let Some(plan) = plan else {
            text.push_str(&delta);
            if self.show.deltas && !delta.is_empty() {
                steps.push(message_delta(&self.thread, &self.turn, item_id, delta));
            }
            return;
        };
        let pieces = plan.splitter.feed(&delta);
        show_pieces(&self.thread, &self.turn, &item_id, text, plan, pieces, steps);
    }

    fn on_raw(&mut self, item_id: ItemId, index: i64, delta: String, steps: &mut Vec<Step>) {
        if !self.show.raw_reasoning {
            return;
        }
        if let Some(Open::Reasoning { content, .. }) = self.open.get_mut(&item_id) {
            part(content, index).push_str(&delta);
            let params = ReasoningTextDeltaNotification {
                thread_id: self.thread.clone(),
                turn_id: self.turn.clone(),
                item_id,
                content_index: index,
                delta,
            };
            steps.push(Step::Told(Frame::notification::<ReasoningTextDelta>(&params)));
        }
    }

    /// The provider's final word on an item. One that was never announced begins here.
    fn end(&mut self, id: ItemId, item: ResponseItem, steps: &mut Vec<Step>) {
        self.begin(id.clone(), &item, steps);
        let open = self.open.remove(&id);
        match &item {
            ResponseItem::Message { role, content, phase, .. } if role == "assistant" => {
                let Some(Open::Message { text, plan, .. }) = open else { return };
                let whole = output_text(content);
                let shown = match plan {
                    Some(plan) => self.end_plan(&id, text, *plan, &whole, steps),
                    None => Some(whole),
                };
                let Some(shown) = shown else {
                    return steps.push(Step::Context(vec![item]));
                };
                self.response.message = Some(shown.clone());
                let shown = agent_message(&id, shown, phase.clone());
                steps.push(Step::Completed { item: shown, context: vec![item] });
            }
            ResponseItem::Reasoning { summary, content, .. } => {
                let shown = ThreadItem::Reasoning {
                    id,
                    summary: summary.iter().map(summary_text).collect(),
                    content: self.raw_texts(content.as_deref()),
                };
                steps.push(Step::Completed { item: shown, context: vec![item] });
            }
            ResponseItem::WebSearchCall { action, .. } => {
                let shown = web_search::done(id, action.as_ref());
                steps.push(Step::Completed { item: shown, context: vec![item] });
            }
            ResponseItem::ImageGenerationCall { status, revised_prompt, result, .. } => {
                let shown = ThreadItem::ImageGeneration {
                    id,
                    status: status.clone(),
                    revised_prompt: revised_prompt.clone(),
                    result: result.clone(),
                    saved_path: None,
                };
                steps.push(Step::Completed { item: shown, context: vec![item] });
            }
            _ => {
                self.response.calls.extend(call_of(&item));
                steps.push(Step::Context(vec![item]));
            }
        }
    }

    /// Completes the plan before its message and returns the message without it, if there is more to it.
    fn end_plan(
        &self,
        id: &ItemId,
        mut text: String,
        mut plan: Plan,
        whole: &str,
        steps: &mut Vec<Step>,
    ) -> Option<String> {
        let pieces =
            if text.is_empty() && plan.text.is_none() { plan.splitter.feed(whole) } else { Vec::new() };
        show_pieces(&self.thread, &self.turn, id, &mut text, &mut plan, pieces, steps);
        let rest = plan.splitter.finish();
        show_pieces(&self.thread, &self.turn, id, &mut text, &mut plan, rest, steps);
        if let Some(text) = plan.text {
            steps.push(Step::Completed { item: ThreadItem::Plan { id: plan.id, text }, context: Vec::new() });
        }
        plan.is_message_shown.then_some(text)
    }

    fn raw_texts(&self, content: Option<&[ReasoningItemContent]>) -> Vec<String> {
        if !self.show.raw_reasoning {
            return Vec::new();
        }
        let texts = content.unwrap_or_default().iter().filter_map(|part| match part {
            ReasoningItemContent::ReasoningText { text } | ReasoningItemContent::Text { text } => {
                Some(text.clone())
            }
            ReasoningItemContent::Unrecognized(_) => None,
        });
        texts.collect()
    }
}

/// What was cut off is kept as far as it came. The model does not see it again: it is told that it was
/// interrupted, or asked the same once more.
fn close_item(id: ItemId, open: Open) -> Step {
    match open {
        Open::Message { text, phase, .. } => {
            Step::Completed { item: agent_message(&id, text, phase), context: Vec::new() }
        }
        Open::Reasoning { summary, content } => {
            Step::Completed { item: ThreadItem::Reasoning { id, summary, content }, context: Vec::new() }
        }
        Open::WebSearch => Step::Completed { item: web_search::done(id, None), context: Vec::new() },
        Open::ImageGeneration => {
            let item = ThreadItem::ImageGeneration {
                id,
                status: "failed".to_owned(),
                revised_prompt: None,
                result: String::new(),
                saved_path: None,
            };
            Step::Completed { item, context: Vec::new() }
        }
    }
}

fn show_pieces(
    thread: &ThreadId,
    turn: &TurnId,
    message_id: &ItemId,
    text: &mut String,
    plan: &mut Plan,
    pieces: Vec<codicil_context::Piece>,
    steps: &mut Vec<Step>,
) {
    for piece in pieces {
        match piece {
            codicil_context::Piece::Message(delta) => {
                text.push_str(&delta);
                if plan.is_message_shown {
                    steps.push(message_delta(thread, turn, message_id.clone(), delta));
                } else if !text.trim().is_empty() {
                    plan.is_message_shown = true;
                    steps.push(Step::Started(plan.message.clone()));
                    steps.push(message_delta(thread, turn, message_id.clone(), text.clone()));
                }
            }
            codicil_context::Piece::Plan(delta) => {
                if plan.text.is_none() {
                    let item = ThreadItem::Plan { id: plan.id.clone(), text: String::new() };
                    steps.push(Step::Started(item));
                }
                plan.text.get_or_insert_default().push_str(&delta);
                let params = PlanDeltaNotification {
                    thread_id: thread.clone(),
                    turn_id: turn.clone(),
                    item_id: plan.id.clone(),
                    delta,
                };
                steps.push(Step::Told(Frame::notification::<PlanDelta>(&params)));
            }
        }
    }
}

fn message_delta(thread: &ThreadId, turn: &TurnId, item_id: ItemId, delta: String) -> Step {
    let params =
        AgentMessageDeltaNotification { thread_id: thread.clone(), turn_id: turn.clone(), item_id, delta };
    Step::Told(Frame::notification::<AgentMessageDelta>(&params))
}

fn agent_message(id: &ItemId, text: String, phase: Option<MessagePhase>) -> ThreadItem {
    ThreadItem::AgentMessage { id: id.clone(), text, phase, memory_citation: None }
}

fn output_text(content: &[ContentItem]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        ContentItem::OutputText { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn summary_text(part: &ReasoningItemReasoningSummary) -> String {
    match part {
        ReasoningItemReasoningSummary::SummaryText { text } => text.clone(),
        ReasoningItemReasoningSummary::Unrecognized(_) => String::new(),
    }
}

/// The part with this index. Providers count without gaps; one that does not gets its text joined.
fn part(parts: &mut Vec<String>, index: i64) -> &mut String {
    let index = usize::try_from(index).unwrap_or(0);
    if index >= parts.len() {
        parts.push(String::new());
    }
    let last = parts.len() - 1;
    parts.get_mut(index.min(last)).expect("there is a last part")
}
