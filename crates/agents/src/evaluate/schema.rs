//! Schemas: of a tool's parameters, and of an answer that has to be a value.
//!
//! Providers take only part of JSON Schema for answers: objects without other members than those listed, all of
//! them required. So an answer's schema is tightened here, and a member that may be missing may be null
//! instead.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use thiserror::Error;

use super::events::shortened;

/// The schema of a tool's parameters as the type has it, without references where that is possible.
pub(super) fn params_schema<P: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<P>().to_value();
    if let Some(members) = schema.as_object_mut() {
        members.remove("title");
        // `()` takes nothing, which is an object without members.
        if members.get("type").is_some_and(|kind| kind == "null") {
            return json!({ "type": "object", "properties": {} });
        }
        if is_object_type(members) {
            members.entry("properties").or_insert_with(|| json!({}));
        }
    }
    schema
}

/// Whether values of this schema are objects.
pub(super) fn is_object(schema: &Value) -> bool {
    schema.as_object().is_some_and(is_object_type)
}

fn is_object_type(members: &Map<String, Value>) -> bool {
    members.get("type").is_some_and(|kind| kind == "object")
}

/// The member that holds a value which is no object by itself.
const WRAPPED: &str = "value";

/// What an answer has to look like, and how it is read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OutputSchema {
    pub schema: Value,
    is_wrapped: bool,
}

impl OutputSchema {
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.meta_schema = None);
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        let is_wrapped = !is_object(&schema);
        if is_wrapped {
            let definitions = schema.as_object_mut().and_then(|members| members.remove("$defs"));
            schema = json!({ "type": "object", "properties": { WRAPPED: schema }, "required": [WRAPPED] });
            if let (Some(definitions), Some(members)) = (definitions, schema.as_object_mut()) {
                members.insert("$defs".to_owned(), definitions);
            }
        }
        tighten(&mut schema);
        Self { schema, is_wrapped }
    }

    /// Reads an answer. What the schema made null that may only be missing is read as missing.
    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, OutputError> {
        let plain = unfenced(text);
        if plain.is_empty() {
            return Err(OutputError::Missing);
        }
        let invalid = |reason: serde_json::Error| OutputError::Invalid {
            reason: reason.to_string(),
            text: shortened(text, SHOWN),
        };
        let mut value: Value = serde_json::from_str(plain).map_err(invalid)?;
        if self.is_wrapped
            && let Some(inner) = value.get_mut(WRAPPED)
        {
            value = inner.take();
        }
        serde_json::from_value(value.clone()).or_else(|error| {
            strip_nulls(&mut value);
            serde_json::from_value(value).map_err(|_| invalid(error))
        })
    }
}

/// How much of an answer an error shows.
const SHOWN: usize = 500;

/// Why an answer is not the value that it should be.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OutputError {
    /// The agent said nothing.
    #[error("the answer is missing")]
    Missing,
    /// The agent said something else.
    #[error("the answer is not of the expected form: {reason}; it begins: {text}")]
    Invalid {
        /// What does not fit, and where.
        reason: String,
        /// The beginning of the answer.
        text: String,
    },
}

/// Models that are not held to a schema like to fence their JSON.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    inner.map_or(text, |inner| inner.strip_prefix("json").unwrap_or(inner).trim())
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

/// Members of a schema that hold further schemas: one, a list of them, or some by name.
const ONE: [&str; 3] = ["items", "additionalProperties", "not"];
const SEVERAL: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const NAMED: [&str; 2] = ["properties", "$defs"];

fn tighten(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    // For programs that write forms; providers refuse some of them.
    for hint in ["title", "default", "format", "examples", "$schema"] {
        members.remove(hint);
    }
    if let Some(choices) = members.remove("oneOf") {
        // The same for values that fit one of them, and the only one of the two that providers take.
        members.insert("anyOf".to_owned(), choices);
    }
    close_object(members);
    for key in ONE {
        members.get_mut(key).into_iter().for_each(tighten);
    }
    for key in SEVERAL {
        members.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(tighten);
    }
    for key in NAMED {
        let named = members.get_mut(key).and_then(Value::as_object_mut);
        named.into_iter().flat_map(Map::values_mut).for_each(tighten);
    }
}

/// All members required, no others allowed. A map from any name stays one.
fn close_object(members: &mut Map<String, Value>) {
    if !is_object_type(members) {
        return;
    }
    let is_map = members.get("additionalProperties").is_some_and(|value| !matches!(value, Value::Bool(_)));
    if is_map && !members.contains_key("properties") {
        return;
    }
    members.insert("additionalProperties".to_owned(), false.into());
    let was_required: Vec<Value> = match members.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    };
    let properties = members.entry("properties").or_insert_with(|| json!({}));
    let mut required = Vec::new();
    for (name, property) in properties.as_object_mut().into_iter().flatten() {
        let name = Value::from(name.as_str());
        if !was_required.contains(&name) {
            allow_null(property);
        }
        required.push(name);
    }
    members.insert("required".to_owned(), required.into());
}

fn allow_null(property: &mut Value) {
    if accepts_null(property) {
        return;
    }
    let is_plain = property.get("type").is_some_and(Value::is_string) && property.get("const").is_none();
    if !is_plain {
        *property = json!({ "anyOf": [property.take(), { "type": "null" }] });
        return;
    }
    if let Some(kind) = property.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    // An enumeration has to list null as well.
    if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
        values.push(Value::Null);
    }
}

fn accepts_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    match schema {
        Value::Bool(any) => *any,
        Value::Object(members) if members.is_empty() => true,
        schema => {
            let by_type = schema.get("type").is_some_and(|kind| {
                is_null(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_null))
            });
            let choices = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
            by_type || choices.into_iter().any(accepts_null)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    struct Summary {
        /// In a few words.
        title: String,
        files: Vec<File>,
        #[serde(default)]
        line_count: u32,
        owner: Option<String>,
        mood: Option<Mood>,
    }

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    struct File {
        path: String,
    }

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Mood {
        Good,
        Bad,
    }

    #[test]
    fn every_object_is_closed_and_every_member_required() {
        let output = OutputSchema::of::<Summary>();
        assert!(!output.is_wrapped);
        let schema = &output.schema;
        assert_eq!(schema["additionalProperties"], false);
        let mut required: Vec<_> =
            schema["required"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
        required.sort_unstable();
        assert_eq!(required, ["files", "line_count", "mood", "owner", "title"]);
        assert_eq!(schema["$defs"]["File"]["additionalProperties"], false);
        assert_eq!(schema["$defs"]["File"]["required"], json!(["path"]));
        assert_eq!(
            schema["properties"]["title"],
            json!({ "type": "string", "description": "In a few words." })
        );
        assert_eq!(schema["properties"]["owner"]["type"], json!(["string", "null"]));
        assert_eq!(schema["properties"]["line_count"]["type"], json!(["integer", "null"]));
        assert!(accepts_null(&schema["properties"]["mood"]), "{schema}");
        let text = schema.to_string();
        for gone in ["$schema", "\"format\"", "\"default\"", "oneOf", "\"title\":\"Summary\""] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
    }

    #[test]
    fn an_answer_is_read_with_its_type() {
        let output = OutputSchema::of::<Summary>();
        let text = r#"{"title":"T","files":[{"path":"a"}],"line_count":null,"owner":null,"mood":"bad"}"#;
        let expected = Summary {
            title: "T".into(),
            files: vec![File { path: "a".into() }],
            line_count: 0,
            owner: None,
            mood: Some(Mood::Bad),
        };
        assert_eq!(output.parse::<Summary>(text).unwrap(), expected);
        assert_eq!(output.parse::<Summary>(&format!("```json\n{text}\n```")).unwrap(), expected);
    }

    #[test]
    fn an_answer_of_another_form_says_what_is_wrong() {
        let output = OutputSchema::of::<Summary>();
        assert_eq!(output.parse::<Summary>("  \n"), Err(OutputError::Missing));
        let check = |text: &str, part: &str| {
            let error = output.parse::<Summary>(text).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        check("I could not do it.", "expected value at line 1");
        check(r#"{"files":[]}"#, "missing field `title`");
        check(r#"{"title":1,"files":[]}"#, "invalid type: integer `1`, expected a string");
        let long = output.parse::<Summary>(&"é".repeat(10_000)).unwrap_err().to_string();
        assert!(long.len() < 2 * SHOWN, "{}", long.len());
    }

    #[test]
    fn what_is_no_object_is_put_into_one() {
        let output = OutputSchema::of::<Vec<File>>();
        assert_eq!(output.schema["required"], json!(["value"]));
        assert_eq!(output.schema["properties"]["value"]["type"], "array");
        assert_eq!(output.schema["$defs"]["File"]["additionalProperties"], false);
        let files = output.parse::<Vec<File>>(r#"{"value":[{"path":"a"}]}"#).unwrap();
        assert_eq!(files, [File { path: "a".into() }]);
        assert_eq!(OutputSchema::of::<Mood>().parse::<Mood>(r#"{"value":"good"}"#).unwrap(), Mood::Good);
        let numbers = OutputSchema::of::<BTreeMap<String, u32>>();
        assert!(numbers.schema["additionalProperties"].is_object(), "a map stays one: {}", numbers.schema);
        assert_eq!(numbers.parse::<BTreeMap<String, u32>>(r#"{"a":1}"#).unwrap()["a"], 1);
    }

    #[test]
    fn parameters_are_objects() {
        assert_eq!(params_schema::<()>(), json!({ "type": "object", "properties": {} }));
        let schema = params_schema::<Summary>();
        assert!(is_object(&schema) && schema.get("$schema").is_none());
        assert_eq!(schema["properties"]["files"]["items"]["type"], "object", "{schema}");
        assert!(!is_object(&params_schema::<Vec<u8>>()));
    }
}
