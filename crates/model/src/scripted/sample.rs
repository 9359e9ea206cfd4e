//! Generates a value that matches a JSON Schema, so that the scripted model can answer a request with an
//! output schema. It covers what output schemas consist of, not all of JSON Schema.

use serde_json::{Map, Value, json};

/// Maximum depth. Deeper schemas refer to themselves.
const DEPTH: usize = 16;

pub(super) fn sample(schema: &Value) -> Value {
    sample_of(schema, schema, DEPTH)
}

fn sample_of(schema: &Value, root: &Value, depth: usize) -> Value {
    if depth == 0 {
        return Value::Null;
    }
    if let Some(fixed) = schema.get("const").or_else(|| schema.get("enum").and_then(|values| values.get(0))) {
        return fixed.clone();
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        let target = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(Value::Null, |target| sample_of(target, root, depth - 1));
    }
    let choice = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| schema.get(key).and_then(|v| v.get(0)));
    if let Some(choice) = choice {
        return sample_of(choice, root, depth - 1);
    }
    let kind = schema.get("type").map(|kind| kind.get(0).unwrap_or(kind));
    match kind.and_then(Value::as_str) {
        Some("object") => object(schema, root, depth),
        Some("array") => array(schema, root, depth),
        Some("string") => "scripted".into(),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(0)),
        Some("boolean") => true.into(),
        Some("null") => Value::Null,
        _ if schema.get("properties").is_some() => object(schema, root, depth),
        _ => "scripted".into(),
    }
}

fn object(schema: &Value, root: &Value, depth: usize) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let members = properties.into_iter().flatten();
    members.map(|(key, value)| (key.clone(), sample_of(value, root, depth - 1))).collect::<Map<_, _>>().into()
}

fn array(schema: &Value, root: &Value, depth: usize) -> Value {
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(8);
    let items = schema.get("items").unwrap_or(&Value::Null);
    (0..least).map(|_| sample_of(items, root, depth - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_follow_their_schema() {
        let check = |schema: Value, expected: Value| assert_eq!(sample(&schema), expected, "{schema}");
        check(json!({"type": "string"}), json!("scripted"));
        check(json!({"enum": ["a", "b"]}), json!("a"));
        check(json!({"type": ["integer", "null"], "minimum": 3}), json!(3));
        check(json!({"anyOf": [{"type": "boolean"}, {"type": "null"}]}), json!(true));
        check(json!({"type": "array", "minItems": 2, "items": {"type": "number"}}), json!([0, 0]));
        check(
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#/$defs/b"}},
                   "$defs": {"b": {"type": "object", "properties": {}}}}),
            json!({"a": "scripted", "b": {}}),
        );
        check(json!({"$ref": "#"}), Value::Null);
    }
}
