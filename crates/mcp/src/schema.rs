//! Input schemas of tools, reduced to what models of all providers take as the parameters of a function.
//!
//! Servers write all of JSON Schema. Providers refuse a request as a whole for one keyword that they do not
//! know, so only the common ones are kept. References into the schema are replaced by what they refer to.

use serde_json::{Map, Value, json};

use crate::limits::SCHEMA_BYTES;

/// What is kept as it is.
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

/// How deep a schema may be; below it anything goes. A schema may refer to itself.
const DEPTH: usize = 12;

/// How many schemas there may be inside of one, in case references multiply them.
const PARTS: usize = 4096;

/// The parameters of a function out of a tool's input schema. Always an object with properties.
pub(crate) fn reduce(schema: &Value) -> Value {
    let mut reducer = SchemaReducer { root: schema, left: PARTS };
    let mut reduced = match reducer.schema(schema, DEPTH) {
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
    left: usize,
}

impl SchemaReducer<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        let Some(schema) = schema.as_object() else {
            // `true` allows anything, which has no other way to be said in all dialects.
            return json!({ "type": "string" });
        };
        if depth == 0 || self.left == 0 {
            return json!({ "type": "object", "properties": {} });
        }
        self.left -= 1;
        if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|path| self.resolve(path)) {
            return self.referred(&target, schema, depth);
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

    /// What is referred to, with the description that stands beside the reference.
    fn referred(&mut self, target: &Value, reference: &Map<String, Value>, depth: usize) -> Value {
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

/// Says the type where the schema does not, and puts in what types must have.
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
    fn what_is_common_stays() {
        let schema =
            json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        check(schema.clone(), schema);
        let schema = json!({ "type": "object", "properties": {}, "required": [] });
        check(schema.clone(), schema);
    }

    #[test]
    fn what_is_not_an_object_becomes_one() {
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
