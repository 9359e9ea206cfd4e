//! Input that an MCP server requests from the user: `mcpServer/elicitation/request`. Approvals of MCP tool calls use the
//! same request with an empty form.
//!
//! Forms are described by a subset of JSON Schema: an object of primitive values. Its unions are untagged, so every variant
//! rejects unknown fields, and the order of variants matters.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{ThreadId, TurnId, wire};

/// Forwards a request of an MCP server.
#[wire]
pub struct McpServerElicitationRequestParams {
    pub thread_id: ThreadId,
    /// The turn that waits for the response, if known.
    pub turn_id: Option<TurnId>,
    pub server_name: String,
    #[serde(flatten)]
    pub request: McpServerElicitationRequest,
}

/// The two kinds of elicitation.
#[wire(tag = "mode")]
#[schemars(extend("x-later-variants" = later_kinds()))]
pub enum McpServerElicitationRequest {
    /// A form.
    Form {
        /// Metadata. `codex_approval_kind` marks the approval of a tool call.
        #[serde(rename = "_meta")]
        meta: Option<Value>,
        message: String,
        requested_schema: McpElicitationSchema,
    },
    /// A web page.
    Url {
        #[serde(rename = "_meta")]
        meta: Option<Value>,
        message: String,
        url: String,
        elicitation_id: String,
    },
}

/// Returns the schemas of the kinds that 0.166 has besides these: forms in OpenAI's format and verifications of the user.
/// This server never sends them.
fn later_kinds() -> Value {
    let text = json!({ "type": "string" });
    let form = |mode: &str| {
        let mode = json!({ "type": "string", "enum": [mode] });
        json!({
            "type": "object",
            "properties": { "mode": mode, "_meta": true, "message": text, "requestedSchema": true },
            "required": ["mode", "message", "requestedSchema"],
        })
    };
    let verification = json!({
        "type": "object",
        "properties": {
            "mode": { "type": "string", "enum": ["openai/userVerification"] },
            "_meta": true,
            "challenge": text,
            "description": text,
            "title": text,
        },
        "required": ["mode", "challenge", "description", "title"],
    });
    json!([form("openai/form"), form("openaiForm"), verification])
}

/// The user's response. An error response counts as declined.
#[wire(sparse)]
pub struct McpServerElicitationRequestResponse {
    pub action: McpServerElicitationAction,
    /// The values of an accepted form.
    pub content: Option<Value>,
    /// Metadata. For the approval of a tool call, `{"persist": "session"}` or `"always"` also approves later calls.
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// The outcome of an elicitation. The turn continues in all cases.
#[wire]
#[derive(Copy, Eq)]
pub enum McpServerElicitationAction {
    Accept,
    /// The user declined.
    Decline,
    /// The user dismissed the request.
    Cancel,
}

/// A form: its fields by name, and the required ones.
#[wire(deny_unknown_fields)]
pub struct McpElicitationSchema {
    #[omit]
    #[serde(rename = "$schema")]
    pub schema_uri: Option<String>,
    #[serde(rename = "type")]
    pub kind: McpElicitationObjectType,
    pub properties: BTreeMap<String, McpElicitationPrimitiveSchema>,
    #[omit]
    pub required: Option<Vec<String>>,
}

/// The type of a form.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationObjectType {
    Object,
}

/// A field of a form. Enums come first, because single-select enums are also strings.
#[wire(untagged)]
pub enum McpElicitationPrimitiveSchema {
    Enum(McpElicitationEnumSchema),
    String(McpElicitationStringSchema),
    Number(McpElicitationNumberSchema),
    Boolean(McpElicitationBooleanSchema),
}

/// A text field.
#[wire(deny_unknown_fields)]
pub struct McpElicitationStringSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationStringType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[omit]
    pub min_length: Option<u32>,
    #[omit]
    pub max_length: Option<u32>,
    #[omit]
    pub format: Option<McpElicitationStringFormat>,
    #[omit]
    pub default: Option<String>,
}

/// The type of a text field, and of the values of an enum.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationStringType {
    String,
}

/// The format of a text field.
#[wire(open, rename_all = "kebab-case")]
#[derive(Eq)]
pub enum McpElicitationStringFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

/// A number field.
#[wire(deny_unknown_fields)]
pub struct McpElicitationNumberSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationNumberType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    /// The inclusive minimum; `maximum` is inclusive too.
    #[omit]
    pub minimum: Option<f64>,
    #[omit]
    pub maximum: Option<f64>,
    #[omit]
    pub default: Option<f64>,
}

/// The type of a number field.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationNumberType {
    Number,
    Integer,
}

/// A checkbox.
#[wire(deny_unknown_fields)]
pub struct McpElicitationBooleanSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationBooleanType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[omit]
    pub default: Option<bool>,
}

/// The type of a checkbox.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationBooleanType {
    Boolean,
}

/// An enum field.
#[wire(untagged)]
pub enum McpElicitationEnumSchema {
    SingleSelectEnum(McpElicitationSingleSelectEnumSchema),
    MultiSelectEnum(McpElicitationMultiSelectEnumSchema),
    LegacyTitledEnum(McpElicitationLegacyTitledEnumSchema),
}

/// A single-select enum, with or without titles.
#[wire(untagged)]
pub enum McpElicitationSingleSelectEnumSchema {
    UntitledSingleSelectEnum(McpElicitationUntitledSingleSelectEnumSchema),
    TitledSingleSelectEnum(McpElicitationTitledSingleSelectEnumSchema),
}

/// A single-select enum without titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationUntitledSingleSelectEnumSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationStringType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[serde(rename = "enum")]
    pub values: Vec<String>,
    #[omit]
    pub default: Option<String>,
}

/// A single-select enum with titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationTitledSingleSelectEnumSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationStringType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    pub one_of: Vec<McpElicitationConstOption>,
    /// The default value, not its title.
    #[omit]
    pub default: Option<String>,
}

/// A multi-select enum, with or without titles.
#[wire(untagged)]
pub enum McpElicitationMultiSelectEnumSchema {
    UntitledMultiSelectEnum(McpElicitationUntitledMultiSelectEnumSchema),
    TitledMultiSelectEnum(McpElicitationTitledMultiSelectEnumSchema),
}

/// A multi-select enum without titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationUntitledMultiSelectEnumSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationArrayType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[omit]
    pub min_items: Option<u64>,
    #[omit]
    pub max_items: Option<u64>,
    pub items: McpElicitationUntitledEnumItems,
    #[omit]
    pub default: Option<Vec<String>>,
}

/// A multi-select enum with titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationTitledMultiSelectEnumSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationArrayType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[omit]
    pub min_items: Option<u64>,
    #[omit]
    pub max_items: Option<u64>,
    pub items: McpElicitationTitledEnumItems,
    /// The default values, not their titles.
    #[omit]
    pub default: Option<Vec<String>>,
}

/// The type of a multi-select enum.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationArrayType {
    Array,
}

/// The options of a multi-select enum without titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationUntitledEnumItems {
    #[serde(rename = "type")]
    pub kind: McpElicitationStringType,
    #[serde(rename = "enum")]
    pub values: Vec<String>,
}

/// The options of a multi-select enum with titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationTitledEnumItems {
    pub any_of: Vec<McpElicitationConstOption>,
}

/// A value and its title.
#[wire(deny_unknown_fields)]
pub struct McpElicitationConstOption {
    /// The value of the response.
    #[serde(rename = "const")]
    pub value: String,
    /// The displayed text.
    pub title: String,
}

/// A single-select enum in the form of older MCP versions: values and titles in two lists.
#[wire(deny_unknown_fields)]
pub struct McpElicitationLegacyTitledEnumSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationStringType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    #[serde(rename = "enum")]
    pub values: Vec<String>,
    /// The titles of the values, in the same order.
    #[omit]
    pub enum_names: Option<Vec<String>>,
    #[omit]
    pub default: Option<String>,
}
