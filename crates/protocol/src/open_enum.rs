//! What `#[wire(open)]` enums need at run time: the name under which a value would be known.

use serde_json::Value;

/// The variant name in a value: its tag, the string itself, or the only key of the object.
/// `None` when the value has no such name; then it is malformed, not from a newer peer.
pub fn name<'v>(value: &'v Value, tag: Option<&str>) -> Option<&'v str> {
    match (value, tag) {
        (Value::Object(members), Some(tag)) => members.get(tag)?.as_str(),
        (Value::String(name), None) => Some(name),
        (Value::Object(members), None) if members.len() == 1 => members.keys().next().map(String::as_str),
        _ => None,
    }
}

/// A string enum's unknown value. Such a value has a name, so it is a string or `{name: …}`.
pub fn into_string(value: Value) -> String {
    match value {
        Value::String(name) => name,
        other => other.to_string(),
    }
}
