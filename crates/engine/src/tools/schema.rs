//! Builders for the JSON schemas of tool arguments.
//!
//! Names and arguments of the built-in tools are those of the reference server, which models are trained for.

use codicil_model::ToolSpec;
use serde_json::{Value, json};

pub(super) fn function(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    ToolSpec::Function {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: object(properties, required),
        strict: false,
    }
}

pub(super) fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    if !required.is_empty()
        && let Some(members) = schema.as_object_mut()
    {
        members.insert("required".to_owned(), json!(required));
    }
    schema
}

pub(super) fn string(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

pub(super) fn number(description: &str) -> Value {
    json!({ "type": "number", "description": description })
}

pub(super) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

pub(super) fn strings(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}
