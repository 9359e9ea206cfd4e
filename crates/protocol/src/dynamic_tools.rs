//! Tools that live in the client: declared by `thread/start`, called by the server with `item/tool/call`.
//! The call has no item id; its `callId` is the id of the `dynamicToolCall` item around it.
//!
//! A list of tools comes in two shapes: a flat one, and a later one in which each entry says what it is and tools
//! may be grouped in namespaces. Both are read. The schema shows the flat one, which is the published protocol.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::Value;

use crate::{Inspect, InspectFindings, ThreadId, TurnId, unknown_variant, wire};

/// Asks the client to run one of its tools.
#[wire]
pub struct DynamicToolCallParams {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub call_id: String,
    /// Where the tool is, if it is in a namespace.
    #[omit]
    pub namespace: Option<String>,
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

/// Tools that belong together. Their names are unique within it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DynamicToolNamespace {
    pub name: String,
    /// For the model to choose by.
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
    /// The tools of an entry, each with the namespace that it is in.
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

/// For a while tools named their namespaces themselves.
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

/// In the later shape every part says what it is.
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
        DynamicToolSpec::json_schema(generator)
    }
}
