//! The tools that a request offers. The requests of a thread share the list, which is rendered once per dialect.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use codicil_protocol::WebSearchToolConfig;
use serde_json::Value;

/// A tool as it is described to the model.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolSpec {
    /// Called with JSON arguments that follow a schema.
    Function { name: String, description: String, parameters: Value, strict: bool },
    /// Called with free text. Dialects without such tools offer a function with one string, `input`, and
    /// convert its calls back into custom tool calls.
    Custom { name: String, description: String, grammar: Option<ToolGrammar> },
    /// Web search, run by the provider. Only in *responses*.
    WebSearch { external_web_access: bool, settings: WebSearchToolConfig },
    /// Image generation, run by the provider. Only in *responses*.
    ImageGeneration,
    /// A group of functions. Dialects without namespaces offer each function under its [`joined_name`], which
    /// its calls then use.
    Namespace { name: String, description: String, tools: Vec<ToolSpec> },
}

/// Longest function name that all providers accept.
const MAX_NAME_LEN: usize = 64;

/// Joins the names of a namespace and a function. A name that would be too long is cut and ends with a hash of
/// the whole.
pub fn joined_name(namespace: Option<&str>, name: &str) -> String {
    let Some(namespace) = namespace else { return name.to_owned() };
    let joined = format!("{namespace}__{name}");
    if joined.len() <= MAX_NAME_LEN {
        return joined;
    }
    // Names are ASCII where they come from. Dropping other characters makes every cut position valid.
    let kept: String = joined.chars().filter(char::is_ascii).take(MAX_NAME_LEN - 9).collect();
    // FNV-1a: the name must be the same in every build, which the standard hasher does not promise.
    let mut hash = 0x811c_9dc5_u32;
    for byte in joined.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{kept}_{hash:08x}")
}

/// The grammar of a custom tool's input.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolGrammar {
    /// `lark` or `regex`.
    pub syntax: String,
    pub definition: String,
}

impl ToolSpec {
    pub fn name(&self) -> &str {
        match self {
            Self::Function { name, .. } | Self::Custom { name, .. } | Self::Namespace { name, .. } => name,
            Self::WebSearch { .. } => "web_search",
            Self::ImageGeneration => "image_generation",
        }
    }

    /// Renames the tool to its joined name.
    fn in_namespace(mut self, namespace: &str) -> Self {
        if let Self::Function { name, .. } | Self::Custom { name, .. } = &mut self {
            *name = joined_name(Some(namespace), name);
        }
        self
    }
}

/// A list of tools. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ToolList(Arc<ToolListInner>);

#[derive(Debug, Default)]
struct ToolListInner {
    specs: Vec<ToolSpec>,
    responses: OnceLock<Bytes>,
    chat: OnceLock<Bytes>,
    anthropic: OnceLock<Bytes>,
}

impl ToolList {
    pub fn new(specs: Vec<ToolSpec>) -> Self {
        Self(Arc::new(ToolListInner { specs, ..ToolListInner::default() }))
    }

    pub fn specs(&self) -> &[ToolSpec] {
        &self.0.specs
    }

    /// Returns the names of the tools that are called with free text.
    pub(crate) fn custom_names(&self) -> Vec<String> {
        let custom = self.0.specs.iter().filter(|spec| matches!(spec, ToolSpec::Custom { .. }));
        custom.map(|spec| spec.name().to_owned()).collect()
    }

    pub(crate) fn responses_json(&self) -> Bytes {
        self.0.responses.get_or_init(|| render_all(&self.0.specs, crate::responses::tool)).clone()
    }

    pub(crate) fn chat_json(&self) -> Bytes {
        self.0.chat.get_or_init(|| render_all(&flatten(&self.0.specs), crate::chat::tool)).clone()
    }

    pub(crate) fn anthropic_json(&self) -> Bytes {
        self.0.anthropic.get_or_init(|| render_all(&flatten(&self.0.specs), crate::anthropic::tool)).clone()
    }
}

impl FromIterator<ToolSpec> for ToolList {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        Self::new(specs.into_iter().collect())
    }
}

/// Renders the tools that the dialect supports as a JSON array.
fn render_all(specs: &[ToolSpec], render: fn(&ToolSpec) -> Option<Value>) -> Bytes {
    Value::Array(specs.iter().filter_map(render).collect()).to_string().into()
}

/// Returns the tools without namespaces, for dialects that have none.
fn flatten(specs: &[ToolSpec]) -> Vec<ToolSpec> {
    let mut all = Vec::with_capacity(specs.len());
    for spec in specs {
        match spec {
            ToolSpec::Namespace { name: namespace, tools, .. } => {
                all.extend(flatten(tools).into_iter().map(|tool| tool.in_namespace(namespace)));
            }
            spec => all.push(spec.clone()),
        }
    }
    all
}

/// Returns the parameters of a custom tool that is offered as a function.
pub(crate) fn free_text_parameters() -> Value {
    serde_json::json!({
        "type": "object",
        "properties": { "input": { "type": "string", "description": "The whole input of the tool." } },
        "required": ["input"],
        "additionalProperties": false,
    })
}

/// Returns the free text in the arguments of such a function. Models also send the text itself.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_joined_names_are_cut_and_stay_distinct() {
        assert_eq!(joined_name(None, "look"), "look");
        assert_eq!(joined_name(Some("app"), "look"), "app__look");
        let shorter = joined_name(Some("app"), &"a".repeat(70));
        let longer = joined_name(Some("app"), &"a".repeat(71));
        assert_eq!(shorter.len(), MAX_NAME_LEN);
        assert_eq!(longer.len(), MAX_NAME_LEN);
        assert_ne!(shorter, longer);
    }

    #[test]
    fn a_namespace_is_flattened_for_dialects_without_namespaces() {
        let look = ToolSpec::Function {
            name: "look".to_owned(),
            description: "d".to_owned(),
            parameters: serde_json::json!({}),
            strict: false,
        };
        let app = ToolSpec::Namespace {
            name: "app".to_owned(),
            description: "The app".to_owned(),
            tools: vec![look],
        };
        let tools = ToolList::new(vec![app]);
        let read = |json: Bytes| serde_json::from_slice::<Value>(&json).unwrap();
        let grouped = read(tools.responses_json());
        assert_eq!((&grouped[0]["type"], &grouped[0]["name"]), (&"namespace".into(), &"app".into()));
        assert_eq!(grouped[0]["tools"][0]["name"], "look");
        assert_eq!(read(tools.chat_json())[0]["function"]["name"], "app__look");
        assert_eq!(read(tools.anthropic_json())[0]["name"], "app__look");
    }
}
