//! The tools that a request offers. The list is shared by the requests of a thread and rendered once for
//! each dialect.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

/// A tool as the model is told about it.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolSpec {
    /// Called with JSON arguments that follow a schema.
    Function { name: String, description: String, parameters: Value, strict: bool },
    /// Called with free text. Dialects without such tools offer a function with one string, `input`,
    /// and turn its calls back into custom tool calls.
    Custom { name: String, description: String, grammar: Option<Grammar> },
    /// Searching the web, done by the provider. Only *responses* has it.
    WebSearch { external_web_access: bool },
    /// Drawing, done by the provider. Only *responses* has it.
    ImageGeneration,
}

/// What the input of a custom tool must look like.
#[derive(Clone, Debug, PartialEq)]
pub struct Grammar {
    /// `lark` or `regex`.
    pub syntax: String,
    pub definition: String,
}

impl ToolSpec {
    pub fn name(&self) -> &str {
        match self {
            Self::Function { name, .. } | Self::Custom { name, .. } => name,
            Self::WebSearch { .. } => "web_search",
            Self::ImageGeneration => "image_generation",
        }
    }
}

/// A list of tools. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Tools(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    specs: Vec<ToolSpec>,
    responses: OnceLock<Bytes>,
    chat: OnceLock<Bytes>,
    anthropic: OnceLock<Bytes>,
}

impl Tools {
    pub fn new(specs: Vec<ToolSpec>) -> Self {
        Self(Arc::new(Inner { specs, ..Inner::default() }))
    }

    pub fn specs(&self) -> &[ToolSpec] {
        &self.0.specs
    }

    /// The names of the tools that are called with free text.
    pub(crate) fn custom_names(&self) -> Vec<String> {
        let custom = self.0.specs.iter().filter(|spec| matches!(spec, ToolSpec::Custom { .. }));
        custom.map(|spec| spec.name().to_owned()).collect()
    }

    pub(crate) fn responses_json(&self) -> Bytes {
        self.0.responses.get_or_init(|| array(&self.0.specs, crate::responses::tool)).clone()
    }

    pub(crate) fn chat_json(&self) -> Bytes {
        self.0.chat.get_or_init(|| array(&self.0.specs, crate::chat::tool)).clone()
    }

    pub(crate) fn anthropic_json(&self) -> Bytes {
        self.0.anthropic.get_or_init(|| array(&self.0.specs, crate::anthropic::tool)).clone()
    }
}

impl FromIterator<ToolSpec> for Tools {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        Self::new(specs.into_iter().collect())
    }
}

/// A JSON array of the tools that the dialect knows.
fn array(specs: &[ToolSpec], render: fn(&ToolSpec) -> Option<Value>) -> Bytes {
    Value::Array(specs.iter().filter_map(render).collect()).to_string().into()
}

/// What a custom tool looks like as a function.
pub(crate) fn free_text_parameters() -> Value {
    serde_json::json!({
        "type": "object",
        "properties": { "input": { "type": "string", "description": "The whole input of the tool." } },
        "required": ["input"],
        "additionalProperties": false,
    })
}

/// The free text in the arguments of such a function. A model that sent the text itself is understood too.
pub(crate) fn free_text_input(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(mut members)) => match members.remove("input") {
            Some(Value::String(input)) => input,
            _ => arguments.to_owned(),
        },
        Ok(Value::String(input)) => input,
        _ => arguments.to_owned(),
    }
}
