//! What a model is asked, in terms that every dialect can express.

use std::sync::Arc;

use codicil_protocol::{ReasoningEffort, ReasoningSummary, ServiceTier, Verbosity};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::{History, Instructions, ToolList};

/// One step of a turn: the conversation so far and how to go on. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// The model's slug, as it is sent.
    pub model: String,
    pub instructions: Instructions,
    pub input: History,
    pub tools: ToolList,
    pub parallel_tool_calls: bool,
    /// `None` for models that are not known to reason. With it, encrypted reasoning is asked for.
    pub reasoning: Option<ReasoningOptions>,
    /// The schema that the answer's text must follow.
    pub output_schema: Option<Arc<Value>>,
    pub verbosity: Option<Verbosity>,
    pub service_tier: Option<ServiceTier>,
    /// Requests with the same key share their prefix; usually the thread's id.
    pub prompt_cache_key: Option<String>,
    /// Headers of the client and the turn. *responses* sends all, the others only `user-agent`.
    pub headers: HeaderMap,
}

/// How much to think and how much of it to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReasoningOptions {
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
}

impl ModelRequest {
    /// Sets a header to a text from outside. Characters that a header cannot carry become `_`, so that
    /// an odd client name does not break every request.
    pub fn set_header(&mut self, name: &'static str, value: &str) {
        let clean: String = value.chars().map(|c| if matches!(c, ' '..='~') { c } else { '_' }).collect();
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(clean)) {
            self.headers.insert(name, value);
        }
    }
}

/// The wire name of one of the protocol's string enums.
pub(crate) fn wire_name(value: &impl serde::Serialize) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    }
}
