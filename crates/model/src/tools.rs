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
    Custom { name: String, description: String, grammar: Option<ToolGrammar> },
    /// Searching the web, done by the provider. Only *responses* has it.
    WebSearch { external_web_access: bool },
    /// Drawing, done by the provider. Only *responses* has it.
    ImageGeneration,
    /// Functions that belong together. Dialects without namespaces offer each under its [`joined_name`], and
    /// that is what calls name then.
    Namespace { name: String, description: String, tools: Vec<ToolSpec> },
}

/// The longest name of a function that all providers take.
const LONGEST_NAME: usize = 64;

/// The name of a function together with that of its namespace. One that would be too long is cut, with a sign of
/// what was cut off at its end.
pub fn joined_name(namespace: Option<&str>, name: &str) -> String {
    let Some(namespace) = namespace else { return name.to_owned() };
    let joined = format!("{namespace}__{name}");
    if joined.len() <= LONGEST_NAME {
        return joined;
    }
    // Both are plain letters where they come from; elsewhere a letter must not be cut in two.
    let kept: String = joined.chars().filter(char::is_ascii).take(LONGEST_NAME - 9).collect();
    let mut sign = 0x811c_9dc5_u32;
    for byte in joined.bytes() {
        sign = (sign ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    format!("{kept}_{sign:08x}")
}

/// What the input of a custom tool must look like.
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

    /// The same tool under its joined name.
    fn within(mut self, namespace: &str) -> Self {
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

    /// The names of the tools that are called with free text.
    pub(crate) fn custom_names(&self) -> Vec<String> {
        let custom = self.0.specs.iter().filter(|spec| matches!(spec, ToolSpec::Custom { .. }));
        custom.map(|spec| spec.name().to_owned()).collect()
    }

    pub(crate) fn responses_json(&self) -> Bytes {
        self.0.responses.get_or_init(|| array(&self.0.specs, crate::responses::tool)).clone()
    }

    pub(crate) fn chat_json(&self) -> Bytes {
        self.0.chat.get_or_init(|| array(&flat(&self.0.specs), crate::chat::tool)).clone()
    }

    pub(crate) fn anthropic_json(&self) -> Bytes {
        self.0.anthropic.get_or_init(|| array(&flat(&self.0.specs), crate::anthropic::tool)).clone()
    }
}

impl FromIterator<ToolSpec> for ToolList {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        Self::new(specs.into_iter().collect())
    }
}

/// A JSON array of the tools that the dialect knows.
fn array(specs: &[ToolSpec], render: fn(&ToolSpec) -> Option<Value>) -> Bytes {
    Value::Array(specs.iter().filter_map(render).collect()).to_string().into()
}

/// The tools for a dialect without namespaces.
fn flat(specs: &[ToolSpec]) -> Vec<ToolSpec> {
    let mut all = Vec::with_capacity(specs.len());
    for spec in specs {
        match spec {
            ToolSpec::Namespace { name: namespace, tools, .. } => {
                all.extend(flat(tools).into_iter().map(|tool| tool.within(namespace)));
            }
            spec => all.push(spec.clone()),
        }
    }
    all
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_names_are_short_and_tell_apart() {
        assert_eq!(joined_name(None, "look"), "look");
        assert_eq!(joined_name(Some("app"), "look"), "app__look");
        let (one, two) = ("a".repeat(70), "a".repeat(71));
        let (one, two) = (joined_name(Some("app"), &one), joined_name(Some("app"), &two));
        assert_eq!((one.len(), two.len()), (LONGEST_NAME, LONGEST_NAME));
        assert_ne!(one, two);
    }

    #[test]
    fn namespaces_are_one_tool_or_several_as_the_dialect_has_it() {
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
