//! A request to a model, in terms that every dialect can express.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use codicil_protocol::{ReasoningEffort, ReasoningSummary, ServiceTier, Verbosity};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use crate::{History, ToolList};

/// One request of a turn: the history so far and the settings. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ModelRequest {
    /// Slug of the model, sent as it is.
    pub model: String,
    pub instructions: SystemInstructions,
    pub input: History,
    pub tools: ToolList,
    pub parallel_tool_calls: bool,
    /// `None` for models that are not known to reason. Otherwise encrypted reasoning is requested.
    pub reasoning: Option<ReasoningOptions>,
    /// JSON Schema that the text of the response must follow.
    pub output_schema: Option<Arc<Value>>,
    pub verbosity: Option<Verbosity>,
    pub service_tier: Option<ServiceTier>,
    /// Whether the body may be compressed. Only services that are known to accept that get compressed bodies.
    pub may_compress: bool,
    /// Key under which the provider caches the common prefix of requests; usually the thread's id.
    pub prompt_cache_key: Option<String>,
    /// Headers of the client and the turn. *responses* sends all of them, the other dialects only `user-agent`.
    pub headers: HeaderMap,
}

/// How much the model reasons, and how much of it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReasoningOptions {
    pub effort: Option<ReasoningEffort>,
    pub summary: Option<ReasoningSummary>,
}

impl ModelRequest {
    /// Sets a header to text from a client. Characters that a header cannot hold become `_`, so that an
    /// unusual client name does not break every request.
    pub fn set_header(&mut self, name: &'static str, value: &str) {
        let clean: String = value.chars().map(|c| if matches!(c, ' '..='~') { c } else { '_' }).collect();
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(clean)) {
            self.headers.insert(name, value);
        }
    }
}

/// The system prompt of a thread. Clones share the text and its escaped form.
#[derive(Clone, Debug, Default)]
pub struct SystemInstructions(Arc<InstructionsInner>);

#[derive(Debug, Default)]
struct InstructionsInner {
    text: String,
    json: OnceLock<Bytes>,
}

impl SystemInstructions {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(InstructionsInner { text: text.into(), json: OnceLock::new() }))
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Returns the text as a JSON string, escaped once for all requests.
    pub(crate) fn json(&self) -> Bytes {
        let render = || serde_json::to_vec(&self.0.text).unwrap_or_else(|_| b"\"\"".to_vec()).into();
        self.0.json.get_or_init(render).clone()
    }
}

impl<T: Into<String>> From<T> for SystemInstructions {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// Returns the name of a service tier in OpenAI's API; `None` for the default, which is not sent.
pub(crate) fn tier_name(tier: &ServiceTier) -> Option<String> {
    match tier {
        ServiceTier::Fast => Some("priority".to_owned()),
        ServiceTier::Default => None,
        ServiceTier::Flex | ServiceTier::Unrecognized(_) => wire_name(tier),
    }
}

/// Returns the wire name of one of the protocol's string enums.
pub(crate) fn wire_name(value: &impl serde::Serialize) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    }
}
