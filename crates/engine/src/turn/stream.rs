//! From a model's events to a turn's steps: items begin, grow and end.

use std::collections::BTreeMap;

use codicil_model::ModelEvent;
use codicil_prompts::message_text;
use codicil_protocol::{
    AgentMessageDelta, AgentMessageDeltaNotification, Frame, ItemId, MessagePhase, ReasoningItemContent,
    ReasoningItemReasoningSummary, ReasoningSummaryPartAdded, ReasoningSummaryPartAddedNotification,
    ReasoningSummaryTextDelta, ReasoningSummaryTextDeltaNotification, ReasoningTextDelta,
    ReasoningTextDeltaNotification, ResponseItem, ThreadId, ThreadItem, TurnId,
};

use super::{ResponseVisibility, plan::PlanMessage, web_search};
use crate::{step::TurnEvent, tools::ToolCall};

/// What a complete response leaves to do.
#[derive(Debug, Default)]
pub struct ModelResponse {
    pub calls: Vec<ToolCall>,
    /// The last thing that was said in it.
    pub message: Option<String>,
}

/// Reads one response.
pub struct ResponseReader {
    place: ItemPlace,
    show: ResponseVisibility,
    open: BTreeMap<ItemId, OpenItem>,
    response: ModelResponse,
}

/// Where the items of a response belong.
pub(super) struct ItemPlace {
    pub thread: ThreadId,
    pub turn: TurnId,
}

impl ItemPlace {
    pub fn message_delta(&self, item_id: ItemId, delta: String) -> TurnEvent {
        let (thread_id, turn_id) = (self.thread.clone(), self.turn.clone());
        let params = AgentMessageDeltaNotification { thread_id, turn_id, item_id, delta };
        TurnEvent::Told(Frame::notification::<AgentMessageDelta>(&params))
    }
}

/// An item that has begun.
enum OpenItem {
    Message {
        text: String,
        phase: Option<MessagePhase>,
    },
    /// The same in plan mode.
    PlanMessage(Box<PlanMessage>),
    Reasoning {
        summary: Vec<String>,
        content: Vec<String>,
    },
    WebSearch,
    ImageGeneration,
}

impl ResponseReader {
    pub fn new(thread: ThreadId, turn: TurnId, show: ResponseVisibility) -> Self {
        let place = ItemPlace { thread, turn };
        Self { place, show, open: BTreeMap::new(), response: ModelResponse::default() }
    }

    /// What these events mean.
    pub fn read(&mut self, events: impl Iterator<Item = ModelEvent>) -> Vec<TurnEvent> {
        let mut steps = Vec::with_capacity(events.size_hint().0);
        events.for_each(|event| self.on_event(event, &mut steps));
        steps
    }

    /// The response is over, as it should be or not: what has begun ends with what there is of it.
    pub fn close(&mut self) -> Vec<TurnEvent> {
        let cut_off = std::mem::take(&mut self.open).into_iter().filter_map(|(id, open)| cut_off(id, open));
        cut_off.map(|item| TurnEvent::Completed { item, context: Vec::new() }).collect()
    }

    pub fn finish(self) -> ModelResponse {
        self.response
    }

    fn on_event(&mut self, event: ModelEvent, steps: &mut Vec<TurnEvent>) {
        match event {
            ModelEvent::RateLimits(limits) => steps.push(TurnEvent::RateLimits(limits)),
            ModelEvent::Rerouted(model) => steps.push(TurnEvent::Rerouted(model)),
            ModelEvent::ItemAdded { id, item } => self.begin(id, &item, steps),
            ModelEvent::TextDelta { item_id, delta } => self.on_text(item_id, delta, steps),
            ModelEvent::ReasoningSummaryPartAdded { item_id, index } => {
                if let Some(OpenItem::Reasoning { summary, .. }) = self.open.get_mut(&item_id) {
                    part(summary, index);
                    let params = ReasoningSummaryPartAddedNotification {
                        thread_id: self.place.thread.clone(),
                        turn_id: self.place.turn.clone(),
                        item_id,
                        summary_index: index,
                    };
                    steps.push(TurnEvent::Told(Frame::notification::<ReasoningSummaryPartAdded>(&params)));
                }
            }
            ModelEvent::ReasoningSummaryDelta { item_id, index, delta } => {
                if let Some(OpenItem::Reasoning { summary, .. }) = self.open.get_mut(&item_id) {
                    part(summary, index).push_str(&delta);
                    let params = ReasoningSummaryTextDeltaNotification {
                        thread_id: self.place.thread.clone(),
                        turn_id: self.place.turn.clone(),
                        item_id,
                        summary_index: index,
                        delta,
                    };
                    steps.push(TurnEvent::Told(Frame::notification::<ReasoningSummaryTextDelta>(&params)));
                }
            }
            ModelEvent::ReasoningTextDelta { item_id, index, delta } => {
                self.on_raw(item_id, index, delta, steps)
            }
            ModelEvent::ItemDone { id, item } => self.end(id, *item, steps),
            ModelEvent::Completed { usage, .. } => steps.extend(usage.map(TurnEvent::Used)),
        }
    }

    /// Does nothing for an item that has begun already.
    fn begin(&mut self, id: ItemId, item: &ResponseItem, steps: &mut Vec<TurnEvent>) {
        if self.open.contains_key(&id) {
            return;
        }
        let (open, shown) = match item {
            ResponseItem::Message { role, phase, .. } if role == "assistant" && self.show.plans => {
                let message = PlanMessage::new(id.clone(), phase.clone());
                self.open.insert(id, OpenItem::PlanMessage(Box::new(message)));
                return;
            }
            // What an item has when it begins is shown at once: it may have come as a whole.
            ResponseItem::Message { role, phase, .. } if role == "assistant" => {
                let text = message_text(item);
                let open = OpenItem::Message { text: text.clone(), phase: phase.clone() };
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
                (OpenItem::Reasoning { summary, content }, shown)
            }
            ResponseItem::WebSearchCall { action: Some(action), .. } => {
                (OpenItem::WebSearch, web_search::done(id.clone(), Some(action)))
            }
            ResponseItem::WebSearchCall { .. } => (OpenItem::WebSearch, web_search::begun(&id)),
            ResponseItem::ImageGenerationCall { .. } => {
                let shown = ThreadItem::ImageGeneration {
                    id: id.clone(),
                    status: "in_progress".to_owned(),
                    revised_prompt: None,
                    result: String::new(),
                    saved_path: None,
                };
                (OpenItem::ImageGeneration, shown)
            }
            // Tool calls begin when they are run.
            _ => return,
        };
        self.open.insert(id, open);
        steps.push(TurnEvent::Started(shown));
    }

    fn on_text(&mut self, item_id: ItemId, delta: String, steps: &mut Vec<TurnEvent>) {
        match self.open.get_mut(&item_id) {
            Some(OpenItem::Message { text, .. }) => {
                text.push_str(&delta);
                if self.show.deltas && !delta.is_empty() {
                    steps.push(self.place.message_delta(item_id, delta));
                }
            }
            Some(OpenItem::PlanMessage(message)) => message.read(&self.place, &delta, steps),
            _ => {}
        }
    }

    fn on_raw(&mut self, item_id: ItemId, index: i64, delta: String, steps: &mut Vec<TurnEvent>) {
        if !self.show.raw_reasoning {
            return;
        }
        if let Some(OpenItem::Reasoning { content, .. }) = self.open.get_mut(&item_id) {
            part(content, index).push_str(&delta);
            let params = ReasoningTextDeltaNotification {
                thread_id: self.place.thread.clone(),
                turn_id: self.place.turn.clone(),
                item_id,
                content_index: index,
                delta,
            };
            steps.push(TurnEvent::Told(Frame::notification::<ReasoningTextDelta>(&params)));
        }
    }

    /// The provider's final word on an item. One that was never announced begins here.
    fn end(&mut self, id: ItemId, item: ResponseItem, steps: &mut Vec<TurnEvent>) {
        self.begin(id.clone(), &item, steps);
        let open = self.open.remove(&id);
        match &item {
            ResponseItem::Message { role, phase, .. } if role == "assistant" => {
                let whole = message_text(&item);
                let shown = match open {
                    Some(OpenItem::PlanMessage(message)) => message.end(&self.place, &whole, steps),
                    Some(OpenItem::Message { .. }) => Some(whole),
                    _ => return,
                };
                let Some(shown) = shown else {
                    return steps.push(TurnEvent::Context(vec![item]));
                };
                self.response.message = Some(shown.clone());
                let shown = agent_message(&id, shown, phase.clone());
                steps.push(TurnEvent::Completed { item: shown, context: vec![item] });
            }
            ResponseItem::Reasoning { summary, content, .. } => {
                let shown = ThreadItem::Reasoning {
                    id,
                    summary: summary.iter().map(summary_text).collect(),
                    content: self.raw_texts(content.as_deref()),
                };
                steps.push(TurnEvent::Completed { item: shown, context: vec![item] });
            }
            ResponseItem::WebSearchCall { action, .. } => {
                let shown = web_search::done(id, action.as_ref());
                steps.push(TurnEvent::Completed { item: shown, context: vec![item] });
            }
            ResponseItem::ImageGenerationCall { status, revised_prompt, result, .. } => {
                let shown = ThreadItem::ImageGeneration {
                    id,
                    status: status.clone(),
                    revised_prompt: revised_prompt.clone(),
                    result: result.clone(),
                    saved_path: None,
                };
                steps.push(TurnEvent::Completed { item: shown, context: vec![item] });
            }
            _ => {
                self.response.calls.extend(ToolCall::from_item(&item));
                steps.push(TurnEvent::Context(vec![item]));
            }
        }
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
/// interrupted, or asked the same once more. `None` for what nobody has seen.
fn cut_off(id: ItemId, open: OpenItem) -> Option<ThreadItem> {
    Some(match open {
        OpenItem::Message { text, phase } => agent_message(&id, text, phase),
        OpenItem::PlanMessage(message) => return message.cut_off(),
        OpenItem::Reasoning { summary, content } => ThreadItem::Reasoning { id, summary, content },
        OpenItem::WebSearch => web_search::done(id, None),
        OpenItem::ImageGeneration => ThreadItem::ImageGeneration {
            id,
            status: "failed".to_owned(),
            revised_prompt: None,
            result: String::new(),
            saved_path: None,
        },
    })
}

pub(super) fn agent_message(id: &ItemId, text: String, phase: Option<MessagePhase>) -> ThreadItem {
    ThreadItem::AgentMessage { id: id.clone(), text, phase, memory_citation: None }
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
