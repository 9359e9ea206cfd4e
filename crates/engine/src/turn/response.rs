//! Converts the events of a model's response into the events of a turn: items start, grow and complete.
//!
//! Clients see items as they complete. The model's history gets them at the end of the response: of a response that
//! breaks and is requested again, nothing is stored, and nothing is sent to the model.

use std::collections::BTreeMap;

use codicil_model::ModelEvent;
use codicil_prompts::{assistant_message, message_text};
use codicil_protocol::{
    AgentMessageDelta, AgentMessageDeltaNotification, Frame, ItemId, MessagePhase, ReasoningItemContent,
    ReasoningItemReasoningSummary, ReasoningSummaryPartAdded, ReasoningSummaryPartAddedNotification,
    ReasoningSummaryTextDelta, ReasoningSummaryTextDeltaNotification, ReasoningTextDelta,
    ReasoningTextDeltaNotification, ResponseItem, ResponsesApiWebSearchAction, ThreadId, ThreadItem, TurnId,
    WebSearchAction,
};

use super::{ResponseVisibility, patch_progress::PatchProgress, plan::PlanMessage};
use crate::{
    tools::{ToolCall, is_patch_tool},
    turn_channel::TurnEvent,
};

/// A complete response, as far as the turn needs it.
#[derive(Debug, Default)]
pub struct ModelResponse {
    /// The tool calls to run.
    pub calls: Vec<ToolCall>,
    /// The last message.
    pub message: Option<String>,
}

/// Reads one response, and keeps the items that are not complete yet.
pub struct ResponseReader {
    place: ItemPlace,
    visibility: ResponseVisibility,
    open: BTreeMap<ItemId, OpenItem>,
    /// The items that the response has completed.
    completed: Vec<ItemId>,
    /// What the response adds to the model's history.
    context: Vec<ResponseItem>,
    response: ModelResponse,
}

/// The thread and turn to which the items of a response belong.
pub(super) struct ItemPlace {
    pub thread: ThreadId,
    pub turn: TurnId,
}

impl ItemPlace {
    pub fn message_delta(&self, item_id: ItemId, delta: String) -> TurnEvent {
        let params = AgentMessageDeltaNotification {
            thread_id: self.thread.clone(),
            turn_id: self.turn.clone(),
            item_id,
            delta,
        };
        TurnEvent::Notification(Frame::notification::<AgentMessageDelta>(&params))
    }
}

/// An item that has started.
enum OpenItem {
    Message {
        text: String,
        phase: Option<MessagePhase>,
    },
    /// A message in plan mode.
    PlanMessage(Box<PlanMessage>),
    Reasoning {
        summary: Vec<String>,
        content: Vec<String>,
    },
    WebSearch,
    ImageGeneration,
    /// A patch that is being written. Its item starts when it is complete.
    Patch(Box<PatchProgress>),
}

impl ResponseReader {
    pub fn new(thread: ThreadId, turn: TurnId, visibility: ResponseVisibility) -> Self {
        let place = ItemPlace { thread, turn };
        Self {
            place,
            visibility,
            open: BTreeMap::new(),
            completed: Vec::new(),
            context: Vec::new(),
            response: ModelResponse::default(),
        }
    }

    /// Converts a batch of model events.
    pub fn read(&mut self, model_events: impl Iterator<Item = ModelEvent>) -> Vec<TurnEvent> {
        let mut events = Vec::with_capacity(model_events.size_hint().0);
        model_events.for_each(|event| self.on_event(event, &mut events));
        self.completed.extend(events.iter().filter_map(|event| match event {
            TurnEvent::Completed { item, .. } => item.id().cloned(),
            _ => None,
        }));
        events
    }

    /// Ends a response that is not requested again. Items that are still open complete with what has arrived; a
    /// response that ended as it should has none.
    pub fn close(&mut self) -> Vec<TurnEvent> {
        let open = std::mem::take(&mut self.open).into_iter();
        let items = open.flat_map(|(id, open)| cut_off(id, open));
        let mut events: Vec<_> = items.map(completed).collect();
        events.extend(self.take_context());
        events
    }

    /// Ends a response that is requested again. Items that are still open complete without content, complete ones do not
    /// stay, and the history is as it was before the response.
    pub fn discard(&mut self) -> Vec<TurnEvent> {
        self.context.clear();
        let open = std::mem::take(&mut self.open).into_iter();
        let open = open.flat_map(|(id, open)| cut_off(id, open));
        let mut events: Vec<_> = open.map(|item| TurnEvent::Discarded(Box::new(emptied(item)))).collect();
        let completed = std::mem::take(&mut self.completed);
        events.extend((!completed.is_empty()).then_some(TurnEvent::Withdrawn(completed)));
        events
    }

    /// Adds messages that are still open to the history: the provider has ended the response within them.
    pub fn keep_open_messages(&mut self) {
        let texts = self.open.values().filter_map(|open| match open {
            OpenItem::Message { text, .. } if !text.is_empty() => Some(text.clone()),
            _ => None,
        });
        self.context.extend(texts.map(assistant_message));
    }

    fn take_context(&mut self) -> Option<TurnEvent> {
        let context = std::mem::take(&mut self.context);
        (!context.is_empty()).then_some(TurnEvent::Context(context))
    }

    pub fn finish(self) -> ModelResponse {
        self.response
    }

    fn on_event(&mut self, event: ModelEvent, events: &mut Vec<TurnEvent>) {
        match event {
            ModelEvent::RateLimits(limits) => events.push(TurnEvent::RateLimits(limits)),
            ModelEvent::Rerouted(model) => events.push(TurnEvent::Rerouted(model)),
            ModelEvent::ItemAdded { id, item } => self.begin(id, &item, events),
            ModelEvent::TextDelta { item_id, delta } => self.on_text(item_id, delta, events),
            ModelEvent::ToolInputDelta { item_id, delta } => {
                if let Some(OpenItem::Patch(patch)) = self.open.get_mut(&item_id) {
                    events.extend(patch.grow(&self.place, &delta));
                }
            }
            ModelEvent::ReasoningSummaryPartAdded { item_id, index } => {
                if let Some(OpenItem::Reasoning { summary, .. }) = self.open.get_mut(&item_id) {
                    part(summary, index);
                    let params = ReasoningSummaryPartAddedNotification {
                        thread_id: self.place.thread.clone(),
                        turn_id: self.place.turn.clone(),
                        item_id,
                        summary_index: index,
                    };
                    events.push(TurnEvent::Notification(Frame::notification::<ReasoningSummaryPartAdded>(
                        &params,
                    )));
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
                    events.push(TurnEvent::Notification(Frame::notification::<ReasoningSummaryTextDelta>(
                        &params,
                    )));
                }
            }
            ModelEvent::ReasoningTextDelta { item_id, index, delta } => {
                self.on_raw(item_id, index, delta, events)
            }
            ModelEvent::ItemDone { id, item } => self.end(id, *item, events),
            ModelEvent::Used(usage) => events.push(TurnEvent::Used(usage)),
            ModelEvent::Completed { usage, .. } => {
                events.extend(self.take_context());
                events.extend(usage.map(TurnEvent::Used));
            }
        }
    }

    /// Starts an item, unless it has started already.
    fn begin(&mut self, id: ItemId, item: &ResponseItem, events: &mut Vec<TurnEvent>) {
        if self.open.contains_key(&id) {
            return;
        }
        let (open, shown) = match item {
            ResponseItem::Message { .. } if !self.visibility.messages => return,
            ResponseItem::Message { role, phase, .. } if role == "assistant" && self.visibility.plans => {
                let message = PlanMessage::new(id.clone(), phase.clone());
                self.open.insert(id, OpenItem::PlanMessage(Box::new(message)));
                return;
            }
            // The item may already be complete, so its content is shown at once.
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
                (OpenItem::WebSearch, web_search_done(id.clone(), Some(action)))
            }
            ResponseItem::WebSearchCall { .. } => (OpenItem::WebSearch, web_search_started(&id)),
            ResponseItem::ImageGenerationCall { .. } => {
                let shown = ThreadItem::ImageGeneration {
                    id: id.clone(),
                    status: "in_progress".to_owned(),
                    revised_prompt: None,
                    result: String::new(),
                    saved_path: None,
                    failure: None,
                    generation_id: None,
                    input_images: Vec::new(),
                    transparent_background: None,
                };
                (OpenItem::ImageGeneration, shown)
            }
            ResponseItem::CustomToolCall { call_id, name, .. }
                if self.visibility.patches && is_patch_tool(name) =>
            {
                let patch = PatchProgress::new(ItemId::from(call_id.as_str()));
                self.open.insert(id, OpenItem::Patch(Box::new(patch)));
                return;
            }
            // The items of tool calls start when the tools run.
            _ => return,
        };
        self.open.insert(id, open);
        events.push(TurnEvent::Started(Box::new(shown)));
    }

    fn on_text(&mut self, item_id: ItemId, delta: String, events: &mut Vec<TurnEvent>) {
        match self.open.get_mut(&item_id) {
            Some(OpenItem::Message { text, .. }) => {
                text.push_str(&delta);
                if !delta.is_empty() {
                    events.push(self.place.message_delta(item_id, delta));
                }
            }
            Some(OpenItem::PlanMessage(message)) => message.read(&self.place, &delta, events),
            _ => {}
        }
    }

    fn on_raw(&mut self, item_id: ItemId, index: i64, delta: String, events: &mut Vec<TurnEvent>) {
        if !self.visibility.raw_reasoning {
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
            events.push(TurnEvent::Notification(Frame::notification::<ReasoningTextDelta>(&params)));
        }
    }

    /// Completes an item with the provider's final version. An item that was never announced starts here.
    fn end(&mut self, id: ItemId, item: ResponseItem, events: &mut Vec<TurnEvent>) {
        self.begin(id.clone(), &item, events);
        let open = self.open.remove(&id);
        let shown = match &item {
            ResponseItem::Message { .. } if !self.visibility.messages => None,
            ResponseItem::Message { role, phase, .. } if role == "assistant" => {
                let whole = message_text(&item);
                let text = match open {
                    Some(OpenItem::PlanMessage(message)) => message.end(&self.place, &whole, events),
                    Some(OpenItem::Message { .. }) => Some(whole),
                    _ => return,
                };
                self.response.message = text.clone().or(self.response.message.take());
                text.map(|text| agent_message(&id, text, phase.clone()))
            }
            ResponseItem::Reasoning { summary, content, .. } => Some(ThreadItem::Reasoning {
                id,
                summary: summary.iter().map(summary_text).collect(),
                content: self.raw_texts(content.as_deref()),
            }),
            ResponseItem::WebSearchCall { action, .. } => Some(web_search_done(id, action.as_ref())),
            ResponseItem::ImageGenerationCall { status, revised_prompt, result, .. } => {
                Some(ThreadItem::ImageGeneration {
                    id,
                    status: status.clone(),
                    revised_prompt: revised_prompt.clone(),
                    result: result.clone(),
                    saved_path: None,
                    failure: None,
                    generation_id: None,
                    input_images: Vec::new(),
                    transparent_background: None,
                })
            }
            _ => {
                if let Some(OpenItem::Patch(patch)) = open {
                    events.extend(patch.finish(&self.place));
                }
                self.response.calls.extend(ToolCall::from_item(&item));
                None
            }
        };
        events.extend(shown.map(completed));
        self.context.push(item);
    }

    fn raw_texts(&self, content: Option<&[ReasoningItemContent]>) -> Vec<String> {
        if !self.visibility.raw_reasoning {
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

/// Returns the items of cut-off content with what has arrived; none if clients have not seen it. They do not enter the
/// history: the model learns that the turn was interrupted, or gets the same request again.
fn cut_off(id: ItemId, open: OpenItem) -> Vec<ThreadItem> {
    vec![match open {
        OpenItem::Message { text, phase } => agent_message(&id, text, phase),
        OpenItem::PlanMessage(message) => return message.cut_off(),
        OpenItem::Reasoning { summary, content } => ThreadItem::Reasoning { id, summary, content },
        OpenItem::WebSearch => web_search_done(id, None),
        OpenItem::Patch(_) => return Vec::new(),
        OpenItem::ImageGeneration => ThreadItem::ImageGeneration {
            id,
            status: "failed".to_owned(),
            revised_prompt: None,
            result: String::new(),
            saved_path: None,
            failure: None,
            generation_id: None,
            input_images: Vec::new(),
            transparent_background: None,
        },
    }]
}

fn completed(item: ThreadItem) -> TurnEvent {
    TurnEvent::Completed { item: Box::new(item), context: Vec::new() }
}

/// Returns an item without its content.
fn emptied(mut item: ThreadItem) -> ThreadItem {
    match &mut item {
        ThreadItem::AgentMessage { text, .. } | ThreadItem::Plan { text, .. } => text.clear(),
        ThreadItem::Reasoning { summary, content, .. } => {
            summary.clear();
            content.clear();
        }
        _ => {}
    }
    item
}

pub(super) fn agent_message(id: &ItemId, text: String, phase: Option<MessagePhase>) -> ThreadItem {
    ThreadItem::AgentMessage {
        id: id.clone(),
        text,
        phase,
        memory_citation: None,
        delivery: None,
        questions: None,
    }
}

fn summary_text(part: &ReasoningItemReasoningSummary) -> String {
    match part {
        ReasoningItemReasoningSummary::SummaryText { text } => text.clone(),
        ReasoningItemReasoningSummary::Unrecognized(_) => String::new(),
    }
}

/// Returns the part with this index. A provider that skips an index gets the text appended to the last part.
fn part(parts: &mut Vec<String>, index: i64) -> &mut String {
    let index = usize::try_from(index).unwrap_or(0);
    if index >= parts.len() {
        parts.push(String::new());
    }
    let last = parts.len() - 1;
    parts.get_mut(index.min(last)).expect("a part was pushed if there was none")
}

/// Returns the item of a web search that has started. The provider reports the query when the search is done.
fn web_search_started(id: &ItemId) -> ThreadItem {
    ThreadItem::WebSearch {
        id: id.clone(),
        query: String::new(),
        action: Some(WebSearchAction::Other),
        results: None,
    }
}

fn web_search_done(id: ItemId, action: Option<&ResponsesApiWebSearchAction>) -> ThreadItem {
    let action = action.map_or(WebSearchAction::Other, web_search_action);
    ThreadItem::WebSearch { id, query: web_search_query(&action), action: Some(action), results: None }
}

fn web_search_action(action: &ResponsesApiWebSearchAction) -> WebSearchAction {
    match action {
        ResponsesApiWebSearchAction::Search { query, queries } => {
            WebSearchAction::Search { query: query.clone(), queries: queries.clone() }
        }
        ResponsesApiWebSearchAction::OpenPage { url } => WebSearchAction::OpenPage { url: url.clone() },
        ResponsesApiWebSearchAction::FindInPage { url, pattern } => {
            WebSearchAction::FindInPage { url: url.clone(), pattern: pattern.clone() }
        }
        ResponsesApiWebSearchAction::Other | ResponsesApiWebSearchAction::Unrecognized(_) => {
            WebSearchAction::Other
        }
    }
}

/// Returns one line that describes the search.
fn web_search_query(action: &WebSearchAction) -> String {
    match action {
        WebSearchAction::Search { query: Some(query), .. } => query.clone(),
        WebSearchAction::Search { query: None, queries } => match queries.as_deref() {
            Some([only]) => only.clone(),
            Some([first, ..]) => format!("{first} ..."),
            _ => String::new(),
        },
        WebSearchAction::OpenPage { url } => url.clone().unwrap_or_default(),
        WebSearchAction::FindInPage { url, pattern } => match (pattern, url) {
            (Some(pattern), Some(url)) => format!("'{pattern}' in {url}"),
            (Some(pattern), None) => format!("'{pattern}'"),
            (None, url) => url.clone().unwrap_or_default(),
        },
        WebSearchAction::Other | WebSearchAction::Unrecognized(_) => String::new(),
    }
}
