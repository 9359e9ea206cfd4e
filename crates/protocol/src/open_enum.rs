//! Runtime support for `#[wire(open)]` enums: finding the variant name in a value.

use serde::{Deserialize, Deserializer, de::IgnoredAny};
use serde_json::Value;

/// Returns the variant name of a value: its tag, the string itself, or the only key of an object. `None` if there is no
/// such name; then the value is malformed and not from a newer peer.
pub fn name<'v>(value: &'v Value, tag: Option<&str>) -> Option<&'v str> {
    match (value, tag) {
        (Value::Object(members), Some(tag)) => members.get(tag)?.as_str(),
        (Value::String(name), None) => Some(name),
        (Value::Object(members), None) if members.len() == 1 => members.keys().next().map(String::as_str),
        _ => None,
    }
}

/// Converts the unknown value of a string enum. It has a name, so it is a string or `{name: …}`.
pub fn into_string(value: Value) -> String {
    match value {
        Value::String(name) => name,
        other => other.to_string(),
    }
}

/// Skips a member that this version does not read.
pub fn unread<'de, D: Deserializer<'de>, T: Default>(from: D) -> Result<T, D::Error> {
    IgnoredAny::deserialize(from)?;
    Ok(T::default())
}
