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

/// The bytes that each subschema costs besides its members.
const SUBSCHEMA_COST: usize = 16;

/// Returns the parameters of a function for a tool's input schema: always an object with properties.
pub(crate) fn reduce(schema: &Value) -> Value {
    let mut reducer = SchemaReducer { root: schema, budget: SCHEMA_BYTES };
    let Some(reduced) = reducer.schema(schema, MAX_DEPTH) else { return any_object() };
    let mut reduced = match reduced {
        Value::Object(reduced) => reduced,
        _ => Map::new(),
    };
    reduced.insert("type".to_owned(), json!("object"));
    reduced.entry("properties").or_insert_with(|| json!({}));
    let reduced = Value::Object(reduced);
    if reduced.to_string().len() > SCHEMA_BYTES { any_object() } else { reduced }
}

fn any_object() -> Value {
    json!({ "type": "object", "properties": {} })
}

/// Reduces a schema within a budget. References can multiply the parts of a schema, so everything that is visited or
/// copied is counted. The methods return `None` once the budget is spent.
struct SchemaReducer<'a> {
    root: &'a Value,
    /// The bytes that may still be visited or copied.
    budget: usize,
}

impl<'a> SchemaReducer<'a> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        self.spend(SUBSCHEMA_COST)?;
        let Some(schema) = schema.as_object() else {
            // `true` allows any value, which not every dialect can express.
            return Some(json!({ "type": "string" }));
        };
        let Some(below) = depth.checked_sub(1) else { return Some(any_object()) };
        if let Some(path) = schema.get("$ref").and_then(Value::as_str) {
            self.spend(path.len())?;
            if let Some(target) = self.resolve(path) {
                return self.reference(target, schema, below);
            }
        }
        let mut reduced: Map<String, Value> = Map::new();
        for (key, value) in schema {
            self.spend(key.len())?;
            if let Some((key, value)) = self.member(key, value, below)? {
                reduced.insert(key.to_owned(), value);
            }
        }
        complete(&mut reduced);
        Some(Value::Object(reduced))
    }

    /// Returns the reduced member of a schema, or `Some(None)` if the member is dropped.
    fn member<'k>(&mut self, key: &'k str, value: &Value, below: usize) -> Option<Option<(&'k str, Value)>> {
        let reduced = match (key, value) {
            ("properties", Value::Object(properties)) => {
                let mut reduced = Map::new();
                for (name, schema) in properties {
                    self.spend(name.len())?;
                    reduced.insert(name.clone(), self.schema(schema, below)?);
                }
                (key, Value::Object(reduced))
            }
            ("items", Value::Array(items)) => match items.first() {
                Some(first) => (key, self.schema(first, below)?),
                None => return Some(None),
            },
            ("anyOf" | "oneOf", Value::Array(options)) => {
                let options: Option<_> = options.iter().map(|option| self.schema(option, below)).collect();
                ("anyOf", Value::Array(options?))
            }
            ("additionalProperties", Value::Bool(_)) => (key, value.clone()),
            ("items" | "additionalProperties", schema) => (key, self.schema(schema, below)?),
            ("const", value) => ("enum", json!([self.copy(value)?])),
            _ if KEPT.contains(&key) => (key, self.copy(value)?),
            _ => return Some(None),
        };
        Some(Some(reduced))
    }

    /// Reduces the target of a reference, keeping the description beside the reference.
    fn reference(&mut self, target: &Value, reference: &Map<String, Value>, below: usize) -> Option<Value> {
        let mut reduced = self.schema(target, below)?;
        if let (Some(description), Some(reduced)) = (reference.get("description"), reduced.as_object_mut()) {
            reduced.insert("description".to_owned(), self.copy(description)?);
        }
        Some(reduced)
    }

    fn resolve(&self, path: &str) -> Option<&'a Value> {
        self.root.pointer(path.strip_prefix('#')?)
    }

    fn copy(&mut self, value: &Value) -> Option<Value> {
        self.spend(value.to_string().len())?;
        Some(value.clone())
    }

    fn spend(&mut self, bytes: usize) -> Option<()> {
        self.budget = self.budget.checked_sub(bytes)?;
        Some(())
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

    #[test]
    fn references_do_not_multiply_a_large_schema() {
        let any = json!({ "type": "object", "properties": {} });
        // Each would have as many parts as its size to the power of the depth.
        let properties: Map<String, Value> =
            (0..20_000).map(|number| (number.to_string(), json!({ "$ref": "#" }))).collect();
        check(json!({ "properties": properties }), any.clone());
        let text = "x".repeat(SCHEMA_BYTES / 2);
        let twice =
            json!({ "description": text, "properties": { "a": { "$ref": "#" }, "b": { "$ref": "#" } } });
        check(twice, any);
    }
}
