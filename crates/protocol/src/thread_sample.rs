//! Answers of the model beside the turns of a thread: `thread/sample` and predictions of the next input.

use std::collections::BTreeMap;

use crate::{ReasoningEffort, ThreadId, TurnId, rpc::RequestId, wire};

/// Sends one request to the model on a snapshot of a thread. Nothing is stored and no notification is sent.
#[wire(sparse)]
pub struct ThreadSampleParams {
    pub thread_id: ThreadId,
    /// The turn after which the snapshot ends; must be the last one.
    pub expected_turn_id: TurnId,
    pub prompt: String,
    /// Leaves the tools of MCP servers out of the request.
    #[serde(default)]
    pub disable_mcp: bool,
    pub effort: Option<ReasoningEffort>,
    /// Metadata for the provider.
    pub responsesapi_client_metadata: Option<BTreeMap<String, String>>,
    pub thread_source: Option<String>,
    /// What caused the request, for the provider.
    pub turn_trigger: Option<String>,
}

/// The answer of the model.
#[wire]
pub struct ThreadSampleResponse {
    pub response_id: String,
    pub source_turn_id: TurnId,
    pub cached_input_tokens: Option<i64>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    /// Null if the model wrote no text.
    pub text: Option<String>,
}

/// Cancels a `thread/sample` request of this connection.
#[wire(deny_unknown_fields)]
pub struct ThreadSampleCancelParams {
    /// The id of that request.
    pub request_id: RequestId,
}

/// The request is being cancelled. Succeeds also without one.
#[wire]
#[derive(Default)]
pub struct ThreadSampleCancelResponse {}

/// Asks for a prediction of what the user writes next.
#[wire]
pub struct ThreadPredictionRequestParams {
    pub thread_id: ThreadId,
    /// The turn after which the user writes.
    pub source_turn_id: TurnId,
}

/// The prediction is being made; `thread/prediction/updated` follows.
#[wire]
#[derive(Default)]
pub struct ThreadPredictionRequestResponse {}

/// A prediction is complete.
#[wire]
pub struct ThreadPredictionUpdatedNotification {
    pub thread_id: ThreadId,
    pub source_turn_id: TurnId,
    pub result: ThreadPredictionResult,
}

/// The result of a prediction.
#[wire(open, tag = "type")]
pub enum ThreadPredictionResult {
    Completed { text: Option<String> },
    Failed,
}
