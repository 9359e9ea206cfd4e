//! Whether the tools that a client brings can be offered. The sentences are the reference server's.

use std::collections::BTreeSet;

use codicil_protocol::{DynamicToolEntry, DynamicToolNamespace, DynamicToolSpec};
use serde::de::Unexpected;
use serde_json::Value;

/// What providers take as the name of a namespace, and as what is said about it.
const LONGEST_NAMESPACE: usize = 64;
const LONGEST_ABOUT: usize = 1024;

/// Namespaces of the providers' own tools.
const TAKEN: &[&str] = &[
    "api_tool",
    "browser",
    "computer",
    "container",
    "file_search",
    "functions",
    "image_gen",
    "multi_tool_use",
    "python",
    "python_user_visible",
    "submodel_delegator",
    "terminal",
    "tool_search",
    "web",
];

/// The reason if they cannot.
pub(crate) fn check_dynamic_tools(tools: &[DynamicToolEntry]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for entry in tools {
        if let DynamicToolEntry::Namespace(namespace) = entry {
            check_namespace(namespace)?;
        }
        for (namespace, tool) in entry.tools() {
            let namespace = namespace.map(|namespace| namespace.name.as_str());
            check_tool(tool)?;
            if !names.insert((namespace, tool.name.as_str())) {
                return Err(match namespace {
                    None => format!("duplicate dynamic tool name: {}", tool.name),
                    Some(space) => format!("duplicate dynamic tool name in namespace {space}: {}", tool.name),
                });
            }
            if namespace.is_some() && !is_plain(&tool.name) {
                return Err(not_plain("name", &tool.name));
            }
        }
    }
    Ok(())
}

fn check_namespace(namespace: &DynamicToolNamespace) -> Result<(), String> {
    let name = namespace.name.as_str();
    check_name("namespace", name)?;
    if !is_plain(name) {
        return Err(not_plain("namespace", name));
    }
    if name.len() > LONGEST_NAMESPACE {
        return Err(format!(
            "dynamic tool namespace must be at most {LONGEST_NAMESPACE} characters to match Responses API: {name}"
        ));
    }
    if TAKEN.contains(&name) {
        return Err(format!(
            "dynamic tool namespace collides with a reserved Responses API namespace: {name}"
        ));
    }
    if namespace.description.chars().count() > LONGEST_ABOUT {
        return Err(format!("dynamic tool namespace description must be at most {LONGEST_ABOUT} characters"));
    }
    if namespace.tools.is_empty() {
        return Err(format!("dynamic tool namespace must contain at least one tool: {name}"));
    }
    Ok(())
}

fn check_tool(tool: &DynamicToolSpec) -> Result<(), String> {
    check_name("name", &tool.name)?;
    check_schema(&tool.input_schema)
        .map_err(|reason| format!("dynamic tool input schema is not supported for {}: {reason}", tool.name))
}

fn check_name(what: &str, given: &str) -> Result<(), String> {
    let name = given.trim();
    if name.is_empty() {
        return Err(format!("dynamic tool {what} must not be empty"));
    }
    if name != given {
        return Err(format!("dynamic tool {what} has leading/trailing whitespace: {given}"));
    }
    if name == "mcp" || name.starts_with("mcp__") {
        return Err(format!("dynamic tool {what} is reserved: {name}"));
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

fn not_plain(what: &str, name: &str) -> String {
    format!("dynamic tool {what} must match ^[a-zA-Z0-9_-]+$ to match Responses API: {name}")
}

/// Any object is taken; what a schema means is between the client and the model.
fn check_schema(schema: &Value) -> Result<(), String> {
    let found = match schema {
        Value::Object(_) => return Ok(()),
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
    };
    Err(format!("invalid type: {found}, expected internally tagged enum JsonSchema"))
}
