//! What a model's answer consists of, in the order in which it arrives.

use codicil_protocol::{ItemId, RateLimitSnapshot, ResponseItem, TokenUsageBreakdown};

/// One step of an answer. Deltas are kept small on purpose: an answer has tens of thousands of them.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// The provider said how much of the account's limits is used.
    RateLimits(Box<RateLimitSnapshot>),
    /// Another model than the one asked for is answering.
    Rerouted(String),
    /// An item begins. Its content follows as deltas; a tool call may come without this event.
    ItemAdded { id: ItemId, item: Box<ResponseItem> },
    /// More text of a message.
    TextDelta { item_id: ItemId, delta: String },
    /// A new part of a reasoning summary begins.
    ReasoningSummaryPartAdded { item_id: ItemId, index: i64 },
    /// More text of a part of a reasoning summary.
    ReasoningSummaryDelta { item_id: ItemId, index: i64, delta: String },
    /// More of the reasoning itself, from models that show it.
    ReasoningTextDelta { item_id: ItemId, index: i64, delta: String },
    /// An item as it goes into the history. It is complete by itself, whatever the deltas were.
    ItemDone { id: ItemId, item: Box<ResponseItem> },
    /// The answer is complete. Nothing follows.
    Completed { response_id: String, usage: Option<TokenUsageBreakdown> },
}

/// An id for an item that its provider did not name. Unique for ever, because items are stored by it.
pub(crate) fn new_item_id(prefix: &str) -> ItemId {
    ItemId::from(format!("{prefix}_{}", uuid::Uuid::now_v7().simple()))
}
