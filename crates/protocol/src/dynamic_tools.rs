//! Tools that the client runs: declared with `thread/start`, called by the server with `item/tool/call`. The `callId` of a
//! call is the id of its `dynamicToolCall` item.
//!
//! A list of tools has one of two forms: a flat list, and a newer form in which entries have a type and tools can be
//! grouped in namespaces. Both are read. The schema of 0.118 describes the flat list, that of 0.166 the newer form.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{Inspect, InspectFindings, ThreadId, TurnId, schema::by_generation, unknown_variant, wire};

/// Calls a tool of the client.
#[wire]
pub struct DynamicToolCallParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub call_id: String,
    /// The tool's namespace, if it has one.
    #[omit]
    pub namespace: Option<String>,
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: Value,
}

/// The output of the tool for the model. An error response counts as a failed call; the turn continues.
#[wire]
pub struct DynamicToolCallResponse {
    pub content_items: Vec<DynamicToolCallOutputContentItem>,
    pub success: bool,
}

/// A part of a tool's output. The names are from the model's point of view, for which it is input.
#[wire(open, tag = "type")]
pub enum DynamicToolCallOutputContentItem {
    InputText {
        text: String,
    },
    InputImage {
        /// An `http(s):` or `data:` URL.
        image_url: String,
    },
    #[since("0.166")]
    InputAudio {
        /// An `http(s):` or `data:` URL.
        audio_url: String,
    },
}

/// A tool that the client offers for the lifetime of the thread.
#[wire(sparse)]
pub struct DynamicToolSpec {
    /// Unique within the thread.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments.
    pub input_schema: Value,
    /// Keeps the tool out of the tool list of model requests; the model finds it by a tool search.
    pub defer_loading: Option<bool>,
}

/// A group of tools. Their names are unique within it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DynamicToolNamespace {
    pub name: String,
    /// The description for the model.
    pub description: String,
    pub tools: Vec<DynamicToolSpec>,
}

/// One entry of `dynamicTools`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DynamicToolEntry {
    Tool(DynamicToolSpec),
    Namespace(DynamicToolNamespace),
}

impl DynamicToolEntry {
    /// Returns the tools of an entry, each with its namespace.
    pub fn tools(&self) -> impl Iterator<Item = (Option<&DynamicToolNamespace>, &DynamicToolSpec)> {
        let (namespace, tools) = match self {
            Self::Tool(tool) => (None, std::slice::from_ref(tool)),
            Self::Namespace(namespace) => (Some(namespace), namespace.tools.as_slice()),
        };
        tools.iter().map(move |tool| (namespace, tool))
    }
}

impl From<DynamicToolSpec> for DynamicToolEntry {
    fn from(tool: DynamicToolSpec) -> Self {
        Self::Tool(tool)
    }
}

impl<'de> Deserialize<'de> for DynamicToolEntry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(from)?;
        let read = match value.get("type").and_then(Value::as_str) {
            None | Some("function") => tool(value),
            Some("namespace") => serde_json::from_value(value).map(Self::Namespace),
            Some(other) => return Err(D::Error::custom(unknown_variant(other, &["function", "namespace"]))),
        };
        read.map_err(D::Error::custom)
    }
}

/// Reads a tool. In an intermediate form, tools named their namespace themselves.
fn tool(value: Value) -> serde_json::Result<DynamicToolEntry> {
    let namespace = value.get("namespace").and_then(Value::as_str).map(str::to_owned);
    let tool = DynamicToolSpec::deserialize(value)?;
    Ok(match namespace {
        None => DynamicToolEntry::Tool(tool),
        Some(name) => {
            let description = String::new();
            DynamicToolEntry::Namespace(DynamicToolNamespace { name, description, tools: vec![tool] })
        }
    })
}

/// Written in the newer form, with types.
impl Serialize for DynamicToolNamespace {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "camelCase")]
        enum Written<'a> {
            Namespace { name: &'a str, description: &'a str, tools: Vec<Written<'a>> },
            Function(&'a DynamicToolSpec),
        }
        let tools = self.tools.iter().map(Written::Function).collect();
        Written::Namespace { name: &self.name, description: &self.description, tools }.serialize(to)
    }
}

impl Inspect for DynamicToolEntry {
    fn inspect(&self, findings: &mut InspectFindings) {
        self.tools().for_each(|(_, tool)| tool.inspect(findings));
    }
}

impl JsonSchema for DynamicToolEntry {
    fn schema_name() -> Cow<'static, str> {
        DynamicToolSpec::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        DynamicToolSpec::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        by_generation(DynamicToolSpec::json_schema(generator), TypedDynamicTool::json_schema(generator))
    }
}

/// An entry of `dynamicTools` in 0.166. Exists for its schema; [`DynamicToolEntry`] reads it.
#[wire(sparse, open, tag = "type")]
pub enum TypedDynamicTool {
    Function {
        name: String,
        description: String,
        input_schema: Value,
        #[serde(default)]
        defer_loading: bool,
    },
    Namespace {
        name: String,
        description: String,
        tools: Vec<DynamicToolNamespaceTool>,
    },
}

/// A tool in a namespace.
#[wire(sparse, open, tag = "type")]
pub enum DynamicToolNamespaceTool {
    Function {
        description: String,
        input_schema: Value,
        name: String,
        #[serde(default)]
        defer_loading: bool,
    },
}
