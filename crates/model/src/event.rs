//! The events of a response, in the order in which they arrive, and the items that they carry.
//!
//! The Responses API streams whole items. For the other dialects the items are built here.

use codicil_protocol::{
    ContentItem, ItemId, RateLimitSnapshot, ReasoningItemReasoningSummary, ResponseItem, TokenUsageBreakdown,
};

use crate::tools::free_text_input;

/// One event of a response. Kept small, because a response has tens of thousands of deltas.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// How much of the account's limits is used.
    RateLimits(Box<RateLimitSnapshot>),
    /// A model other than the requested one answers.
    Rerouted(String),
    /// The start of an item. Its content follows as deltas. Tool calls may come without this event.
    ItemAdded { id: ItemId, item: Box<ResponseItem> },
    /// Text appended to a message.
    TextDelta { item_id: ItemId, delta: String },
    /// Text appended to the input of a custom tool call.
    ToolInputDelta { item_id: ItemId, delta: String },
    /// The start of a new part of a reasoning summary.
    ReasoningSummaryPartAdded { item_id: ItemId, index: i64 },
    /// Text appended to a part of a reasoning summary.
    ReasoningSummaryDelta { item_id: ItemId, index: i64, delta: String },
    /// Text appended to the raw reasoning, from models that expose it.
    ReasoningTextDelta { item_id: ItemId, index: i64, delta: String },
    /// A complete item as it goes into the history, independent of its deltas.
    ItemDone { id: ItemId, item: Box<ResponseItem> },
    /// The token usage of a response that is incomplete. The stream's error follows.
    Used(TokenUsageBreakdown),
    /// The end of a complete response. Nothing follows.
    Completed { response_id: String, usage: Option<TokenUsageBreakdown> },
}

/// Returns an id for an item that came without one. Globally unique, because items are stored by their id.
pub(crate) fn new_item_id(prefix: &str) -> ItemId {
    ItemId::from(format!("{prefix}_{}", uuid::Uuid::now_v7().simple()))
}

/// Builds a message of the model. Without text it is a message that has just started.
pub(crate) fn message(id: &ItemId, text: Option<String>) -> ResponseItem {
    ResponseItem::Message {
        role: "assistant".to_owned(),
        content: text.map(|text| ContentItem::OutputText { text }).into_iter().collect(),
        end_turn: None,
        phase: None,
        id: Some(id.to_string()),
    }
}

/// Builds a reasoning item. The provider wants `encrypted_content` back with the next request.
pub(crate) fn reasoning(text: Option<String>, encrypted_content: Option<String>) -> ResponseItem {
    let summary = text.map(|text| ReasoningItemReasoningSummary::SummaryText { text });
    ResponseItem::Reasoning { summary: summary.into_iter().collect(), content: None, encrypted_content }
}

/// A tool call with its arguments as the model wrote them.
pub(crate) struct CalledTool {
    pub call_id: String,
    pub name: String,
    pub arguments: String,
}

impl CalledTool {
    /// Builds the item of the call. `custom_tools` take free text and were offered as functions; their calls
    /// become custom tool calls again.
    pub fn into_item(self, custom_tools: &[String]) -> (ItemId, ResponseItem) {
        let Self { call_id, name, arguments } = self;
        let id = new_item_id("fc");
        let item = if custom_tools.contains(&name) {
            let input = free_text_input(&arguments);
            ResponseItem::CustomToolCall { call_id, name, input, status: None, id: Some(id.to_string()) }
        } else {
            let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
            ResponseItem::FunctionCall { name, namespace: None, arguments, call_id, id: Some(id.to_string()) }
        };
        (id, item)
    }
}
