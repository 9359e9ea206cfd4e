//! Input schemas of tools, reduced to what all providers accept as the parameters of a function.
//!
//! Servers use all of JSON Schema, but a provider rejects the whole request for one unknown keyword. So only common
//! keywords are kept, and references within the schema are replaced by their targets.

use serde_json::{Map, Value, json};

use crate::limits::SCHEMA_BYTES;

/// Keywords that are kept unchanged.
const KEPT: [&str; 13] = [
    "default",
    "description",
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "required",
    "type",
];

/// Maximum depth of a schema, which may refer to itself. Below it any object is allowed.
const MAX_DEPTH: usize = 12;

/// Maximum number of subschemas, in case references multiply them.
const MAX_PARTS: usize = 4096;

/// Returns the parameters of a function for a tool's input schema: always an object with properties.
pub(crate) fn reduce(schema: &Value) -> Value {
    let mut reducer = SchemaReducer { root: schema, remaining: MAX_PARTS };
    let mut reduced = match reducer.schema(schema, MAX_DEPTH) {
        Value::Object(reduced) => reduced,
        _ => Map::new(),
    };
    reduced.insert("type".to_owned(), json!("object"));
    reduced.entry("properties").or_insert_with(|| json!({}));
    let reduced = Value::Object(reduced);
    if reduced.to_string().len() > SCHEMA_BYTES {
        json!({ "type": "object", "properties": {} })
    } else {
        reduced
    }
}

struct SchemaReducer<'a> {
    root: &'a Value,
    remaining: usize,
}

impl SchemaReducer<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(schema) = schema.as_object() else {
            // `true` allows any value, which not every dialect can express.
            return json!({ "type": "string" });
        };
        if depth == 0 || self.remaining == 0 {
            return json!({ "type": "object", "properties": {} });
        }
        self.remaining -= 1;
        if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|path| self.resolve(path)) {
            return self.reference(&target, schema, depth);
        }
        let mut reduced: Map<String, Value> = Map::new();
        for (key, value) in schema {
            if let Some((key, value)) = self.member(key, value, depth) {
                reduced.insert(key.to_owned(), value);
            }
        }
        complete(&mut reduced);
        Value::Object(reduced)
    }

    fn member<'k>(&mut self, key: &'k str, value: &Value, depth: usize) -> Option<(&'k str, Value)> {
        match (key, value) {
            ("properties", Value::Object(properties)) => {
                let properties =
                    properties.iter().map(|(name, schema)| (name.clone(), self.schema(schema, depth - 1)));
                Some((key, Value::Object(properties.collect())))
            }
            ("items", Value::Array(items)) => items.first().map(|first| (key, self.schema(first, depth - 1))),
            ("items", schema) => Some((key, self.schema(schema, depth - 1))),
            ("anyOf" | "oneOf", Value::Array(options)) => {
                let options = options.iter().map(|option| self.schema(option, depth - 1));
                Some(("anyOf", Value::Array(options.collect())))
            }
            ("additionalProperties", Value::Bool(_)) => Some((key, value.clone())),
            ("additionalProperties", schema) => Some((key, self.schema(schema, depth - 1))),
            ("const", value) => Some(("enum", json!([value]))),
            _ if KEPT.contains(&key) => Some((key, value.clone())),
            _ => None,
        }
    }

    /// Reduces the target of a reference, keeping the description beside the reference.
    fn reference(&mut self, target: &Value, reference: &Map<String, Value>, depth: usize) -> Value {
        let mut reduced = self.schema(target, depth - 1);
        if let (Some(description), Some(reduced)) = (reference.get("description"), reduced.as_object_mut()) {
            reduced.insert("description".to_owned(), description.clone());
        }
        reduced
    }

    fn resolve(&self, path: &str) -> Option<Value> {
        self.root.pointer(path.strip_prefix('#')?).cloned()
    }
}

/// Adds a missing type and the members that the type requires.
fn complete(schema: &mut Map<String, Value>) {
    if !schema.contains_key("type") && !schema.contains_key("anyOf") {
        let inferred = infer(schema);
        schema.insert("type".to_owned(), json!(inferred));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {
            schema.entry("properties").or_insert_with(|| json!({}));
        }
        Some("array") => {
            schema.entry("items").or_insert_with(|| json!({ "type": "string" }));
        }
        _ => {}
    }
}

fn infer(schema: &Map<String, Value>) -> &'static str {
    let has = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    if has(&["properties", "required", "additionalProperties"]) {
        return "object";
    }
    if has(&["items", "minItems", "maxItems"]) {
        return "array";
    }
    if has(&["minimum", "maximum"]) {
        return "number";
    }
    match schema.get("enum").and_then(Value::as_array).and_then(|values| values.first()) {
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        _ => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, expected: Value) {
        assert_eq!(reduce(&schema), expected, "{schema}");
    }

    #[test]
    fn common_keywords_are_kept() {
        let schema =
            json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        check(schema.clone(), schema);
        let schema = json!({ "type": "object", "properties": {}, "required": [] });
        check(schema.clone(), schema);
    }

    #[test]
    fn any_schema_becomes_an_object() {
        check(json!(true), json!({ "type": "object", "properties": {} }));
        check(json!(null), json!({ "type": "object", "properties": {} }));
        check(json!({ "type": "object" }), json!({ "type": "object", "properties": {} }));
    }

    #[test]
    fn missing_types_are_inferred_and_the_rest_is_dropped() {
        check(
            json!({ "$schema": "x", "title": "T", "properties": {
                "a": { "enum": ["x", "y"], "examples": [1] },
                "b": { "items": { "minimum": 1 } },
                "c": { "type": "array" },
                "d": true,
                "e": { "const": 7 },
                "f": { "oneOf": [{ "type": "string" }, { "type": "null" }], "description": "maybe" },
                "g": { "additionalProperties": { "type": "integer" } },
                "h": { "type": ["string", "null"] },
            } }),
            json!({ "type": "object", "properties": {
                "a": { "type": "string", "enum": ["x", "y"] },
                "b": { "type": "array", "items": { "type": "number", "minimum": 1 } },
                "c": { "type": "array", "items": { "type": "string" } },
                "d": { "type": "string" },
                "e": { "type": "number", "enum": [7] },
                "f": { "anyOf": [{ "type": "string" }, { "type": "null" }], "description": "maybe" },
                "g": { "type": "object", "properties": {}, "additionalProperties": { "type": "integer" } },
                "h": { "type": ["string", "null"] },
            } }),
        );
    }

    #[test]
    fn references_are_replaced() {
        check(
            json!({ "properties": { "p": { "$ref": "#/$defs/Point", "description": "where" }, "q": { "$ref": "#/no" } },
                "$defs": { "Point": { "properties": { "x": { "type": "number" } } } } }),
            json!({ "type": "object", "properties": {
                "p": { "type": "object", "description": "where", "properties": { "x": { "type": "number" } } },
                "q": { "type": "string" },
            } }),
        );
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let node = json!({ "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } });
        let reduced = reduce(&node);
        assert!(reduced.to_string().len() <= SCHEMA_BYTES);
        assert_eq!(reduced["type"], "object");
    }
}
