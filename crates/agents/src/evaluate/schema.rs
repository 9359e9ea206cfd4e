//! JSON schemas of tool parameters and answers, and decoding of answers.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use thiserror::Error;

use super::{
    events::truncate,
    strict_schema::{WRAPPER_PROPERTY, is_object, is_object_type, make_strict, wrap},
};

/// Returns the schema of a tool's parameters, with references inlined where possible.
pub(super) fn params_schema<P: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<P>().to_value();
    if let Some(members) = schema.as_object_mut() {
        members.remove("title");
        // `()` has no parameters, which is an object without properties.
        if members.get("type").is_some_and(|kind| kind == "null") {
            return json!({ "type": "object", "properties": {} });
        }
        if is_object_type(members) {
            members.entry("properties").or_insert_with(|| json!({}));
        }
    }
    schema
}

/// The schema of an answer, and its decoder.
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
            schema = wrap(schema);
        }
        make_strict(&mut schema);
        Self { schema, is_wrapped }
    }

    /// Decodes an answer. A null that stands for an absent property, because the schema had to make it nullable, is
    /// treated as absent.
    pub fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, OutputError> {
        let plain = strip_code_fence(text);
        if plain.is_empty() {
            return Err(OutputError::Missing);
        }
        let invalid = |reason: serde_json::Error| OutputError::Invalid {
            reason: reason.to_string(),
            text: truncate(text, EXCERPT_BYTES),
        };
        let mut value: Value = serde_json::from_str(plain).map_err(invalid)?;
        if self.is_wrapped
            && let Some(inner) = value.get_mut(WRAPPER_PROPERTY)
        {
            value = inner.take();
        }
        serde_json::from_value(value.clone()).or_else(|error| {
            strip_nulls(&mut value);
            serde_json::from_value(value).map_err(|_| invalid(error))
        })
    }
}

/// Bytes of an answer that an error shows.
const EXCERPT_BYTES: usize = 500;

/// The error of decoding an answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum OutputError {
    /// The answer is empty.
    #[error("the answer is missing")]
    Missing,
    /// The answer is not JSON of the expected form.
    #[error("the answer is not of the expected form: {reason}; it begins: {text}")]
    Invalid {
        /// The decoding error.
        reason: String,
        /// The beginning of the answer.
        text: String,
    },
}

/// Removes a code fence. Models that are not constrained to a schema often add one.
fn strip_code_fence(text: &str) -> &str {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::evaluate::strict_schema::accepts_null;

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
    fn an_answer_is_decoded_as_its_type() {
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
    fn an_invalid_answer_reports_the_decoding_error() {
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
        assert!(long.len() < 2 * EXCERPT_BYTES, "{}", long.len());
    }

    #[test]
    fn a_type_that_is_not_an_object_is_wrapped() {
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

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    #[serde(tag = "kind", rename_all = "lowercase")]
    enum Tree {
        Leaf { value: u32 },
        Node { children: Vec<Tree> },
    }

    #[test]
    fn a_recursive_type_refers_to_its_definition() {
        let output = OutputSchema::of::<Tree>();
        let text = output.schema.to_string();
        assert!(text.contains("\"#/$defs/Value\"") && !text.contains("\"$ref\":\"#\""), "{text}");
        assert!(!text.contains("oneOf"), "{text}");
        let variants = output.schema["$defs"]["Value"]["anyOf"].as_array().unwrap();
        assert!(variants.iter().all(|variant| variant["additionalProperties"] == false), "{text}");
        let answer = r#"{"value":{"kind":"node","children":[{"kind":"leaf","value":1}]}}"#;
        let expected = Tree::Node { children: vec![Tree::Leaf { value: 1 }] };
        assert_eq!(output.parse::<Tree>(answer).unwrap(), expected);
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
