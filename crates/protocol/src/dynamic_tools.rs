//! Tools that live in the client: declared by `thread/start`, called by the server with `item/tool/call`.
//! The call has no item id; its `callId` is the id of the `dynamicToolCall` item around it.

use serde_json::Value;

use crate::{ThreadId, TurnId, wire};

/// Asks the client to run one of its tools.
#[wire]
pub struct DynamicToolCallParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub call_id: String,
    pub tool: String,
    /// As the model wrote them.
    pub arguments: Value,
}

/// What the tool says to the model. An error in its place counts as a failed call; the turn goes on.
#[wire]
pub struct DynamicToolCallResponse {
    pub content_items: Vec<DynamicToolCallOutputContentItem>,
    pub success: bool,
}

/// A piece of a tool's answer. It is input from the model's point of view, hence the names.
#[wire(open, tag = "type")]
pub enum DynamicToolCallOutputContentItem {
    InputText {
        text: String,
    },
    InputImage {
        /// A web address or a `data:` URL.
        image_url: String,
    },
}

/// A tool as the client offers it, for the whole life of the thread.
#[wire(sparse)]
pub struct DynamicToolSpec {
    /// Unique within the thread.
    pub name: String,
    /// For the model to choose by.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Keeps the tool callable but out of the list that every request shows to the model.
    pub defer_loading: Option<bool>,
}
