//! Input that an MCP server wants from the person: `mcpServer/elicitation/request`. The approval of an MCP
//! tool call is such a request too, with an empty form. Forms are described in a small part of JSON Schema,
//! an object of plain values. Its unions carry no tag, so each member refuses fields it does not know, and
//! the order of variants decides.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{ThreadId, TurnId, wire};

/// Passes on what an MCP server asks.
#[wire]
pub struct McpServerElicitationRequestParams {
    pub thread_id: ThreadId,
    /// The turn that waits for it, as far as that is known.
    pub turn_id: Option<TurnId>,
    pub server_name: String,
    #[serde(flatten)]
    pub request: McpServerElicitationRequest,
}

/// The two ways to ask.
#[wire(tag = "mode")]
pub enum McpServerElicitationRequest {
    /// A form to fill in.
    Form {
        /// Says, among others, that an MCP tool asks to be run (`codex_approval_kind`).
        #[serde(rename = "_meta")]
        meta: Option<Value>,
        message: String,
        requested_schema: McpElicitationSchema,
    },
    /// A page to open.
    Url {
        #[serde(rename = "_meta")]
        meta: Option<Value>,
        message: String,
        url: String,
        elicitation_id: String,
    },
}

/// What the person did. An error in its place counts as declined.
#[wire(sparse)]
pub struct McpServerElicitationRequestResponse {
    pub action: McpServerElicitationAction,
    /// The filled form; only when it was accepted.
    pub content: Option<Value>,
    /// For the approval of a tool call: `{"persist": "session"}` or `"always"` answers later calls as well.
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

/// The three ways to leave a form or page. The turn goes on after each of them.
#[wire]
#[derive(Copy, Eq)]
pub enum McpServerElicitationAction {
    Accept,
    /// The person said no.
    Decline,
    /// The person went away without saying anything.
    Cancel,
}

/// A form: its fields by name, and which of them must be filled.
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

/// The only type a form has.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationObjectType {
    Object,
}

/// A field of a form. Choices are tried first, since those of one value are strings as well.
#[wire(untagged)]
pub enum McpElicitationPrimitiveSchema {
    Enum(McpElicitationEnumSchema),
    String(McpElicitationStringSchema),
    Number(McpElicitationNumberSchema),
    Boolean(McpElicitationBooleanSchema),
}

/// A text to type.
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

/// The type of a text, and of each value to choose from.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationStringType {
    String,
}

/// What a text must look like.
#[wire(open, rename_all = "kebab-case")]
#[derive(Eq)]
pub enum McpElicitationStringFormat {
    Email,
    Uri,
    Date,
    DateTime,
}

/// A number to type.
#[wire(deny_unknown_fields)]
pub struct McpElicitationNumberSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationNumberType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    /// Allowed itself, like the maximum.
    #[omit]
    pub minimum: Option<f64>,
    #[omit]
    pub maximum: Option<f64>,
    #[omit]
    pub default: Option<f64>,
}

/// Whether a number may have a fraction.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationNumberType {
    Number,
    Integer,
}

/// A box to tick.
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

/// The only type a box has.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationBooleanType {
    Boolean,
}

/// Values to choose from.
#[wire(untagged)]
pub enum McpElicitationEnumSchema {
    SingleSelectEnum(McpElicitationSingleSelectEnumSchema),
    MultiSelectEnum(McpElicitationMultiSelectEnumSchema),
    LegacyTitledEnum(McpElicitationLegacyTitledEnumSchema),
}

/// A choice of one value, shown as it is or under a title.
#[wire(untagged)]
pub enum McpElicitationSingleSelectEnumSchema {
    UntitledSingleSelectEnum(McpElicitationUntitledSingleSelectEnumSchema),
    TitledSingleSelectEnum(McpElicitationTitledSingleSelectEnumSchema),
}

/// A choice of one value among words that need no explanation.
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

/// A choice of one value among titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationTitledSingleSelectEnumSchema {
    #[serde(rename = "type")]
    pub kind: McpElicitationStringType,
    #[omit]
    pub title: Option<String>,
    #[omit]
    pub description: Option<String>,
    pub one_of: Vec<McpElicitationConstOption>,
    /// A value, not a title.
    #[omit]
    pub default: Option<String>,
}

/// A choice of any number of values, shown as they are or under titles.
#[wire(untagged)]
pub enum McpElicitationMultiSelectEnumSchema {
    UntitledMultiSelectEnum(McpElicitationUntitledMultiSelectEnumSchema),
    TitledMultiSelectEnum(McpElicitationTitledMultiSelectEnumSchema),
}

/// A choice of several values among words that need no explanation.
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

/// A choice of several values among titles.
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
    /// Values, not titles.
    #[omit]
    pub default: Option<Vec<String>>,
}

/// The only type a choice of several has.
#[wire]
#[derive(Copy, Eq)]
pub enum McpElicitationArrayType {
    Array,
}

/// What several may be chosen from, as plain words.
#[wire(deny_unknown_fields)]
pub struct McpElicitationUntitledEnumItems {
    #[serde(rename = "type")]
    pub kind: McpElicitationStringType,
    #[serde(rename = "enum")]
    pub values: Vec<String>,
}

/// What several may be chosen from, with titles.
#[wire(deny_unknown_fields)]
pub struct McpElicitationTitledEnumItems {
    pub any_of: Vec<McpElicitationConstOption>,
}

/// A value and the words that stand for it.
#[wire(deny_unknown_fields)]
pub struct McpElicitationConstOption {
    /// What is sent back.
    #[serde(rename = "const")]
    pub value: String,
    /// What is shown.
    pub title: String,
}

/// A choice of one value as MCP wrote it before there were titled options: two lists side by side.
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
    /// What to show for each of the values, in their order.
    #[omit]
    pub enum_names: Option<Vec<String>>,
    #[omit]
    pub default: Option<String>,
}
