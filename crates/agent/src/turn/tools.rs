//! What happens when the model calls tools.

use codicil_protocol::{FunctionCallOutputBody, ResponseItem};

use super::{TurnTask, stream::Response};
use crate::step::Step;

/// A tool call as the model made it.
#[derive(Clone, Debug)]
pub enum Call {
    Function { call_id: String, name: String },
    Custom { call_id: String, name: String },
}

impl TurnTask {
    /// Runs what a response called and reports the outputs. False when the turn was cancelled meanwhile.
    pub(super) async fn run_tools(&self, response: Response) -> bool {
        let outputs: Vec<_> = response.calls.into_iter().map(unsupported).collect();
        if !outputs.is_empty() {
            self.steps.one(Step::Context(outputs)).await;
        }
        !self.cancel.is_cancelled()
    }
}

/// The model is told that there is no such tool; it usually finds another way.
fn unsupported(call: Call) -> ResponseItem {
    let output = |name: &str| FunctionCallOutputBody::Text(format!("unsupported call: {name}"));
    match call {
        Call::Function { call_id, name } => {
            ResponseItem::FunctionCallOutput { call_id, output: output(&name) }
        }
        Call::Custom { call_id, name } => {
            let output = output(&name);
            ResponseItem::CustomToolCallOutput { call_id, name: Some(name), output }
        }
    }
}
