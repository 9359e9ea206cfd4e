//! Parses the YAML of skill files into JSON, within limits.
//!
//! Mappings, lists and scalars are supported. Aliases are rejected, so that a small text cannot expand to a
//! large value; depth and number of values are limited. An unquoted scalar is a text unless it is `true`,
//! `false` or null: a name like `2048` or a version like `1.10` stays as written.
//!
//! This is a fold over the events of `saphyr-parser` instead of a serde crate for YAML. These files are read
//! field by field, and an invalid field is ignored, so the target is an untyped value; and into an untyped
//! value every serde crate turns `1.10` into the number 1.1. Apart from that, `serde-saphyr` has suitable
//! limits, but adds six packages for what is sixty lines here, and `serde_norway` and `serde_yaml_ng` limit
//! neither the number of values nor reject aliases.

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use serde_json::{Map, Value};

/// Maximum depth of nested values.
const MAX_DEPTH: usize = 16;
/// Maximum number of values in a text.
const MAX_VALUES: usize = 4096;

/// Reasons why a text is rejected. Line numbers count from the beginning of the text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum YamlError {
    #[error("{} at line {} column {}", .0.info(), .0.marker().line(), .0.marker().col() + 1)]
    Syntax(#[from] ScanError),
    #[error("aliases are not supported")]
    Alias,
    #[error("a key must be a text")]
    Key,
    #[error("the key `{0}` appears twice")]
    Twice(String),
    #[error("values are nested deeper than {MAX_DEPTH}")]
    TooDeep,
    #[error("more than {MAX_VALUES} values")]
    TooMany,
}

/// Parses the first document of a text. An empty text is null.
pub(crate) fn parse(text: &str) -> Result<Value, YamlError> {
    let mut tree = YamlTree::default();
    for event in Parser::new_from_str(text) {
        match event?.0 {
            Event::Alias(_) => return Err(YamlError::Alias),
            Event::Scalar(text, style, _, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                tree.scalar(text.into_owned(), is_text)?;
            }
            Event::SequenceStart(..) => tree.open(Value::Array(Vec::new()))?,
            Event::MappingStart(..) => tree.open(Value::Object(Map::new()))?,
            Event::SequenceEnd | Event::MappingEnd => tree.close()?,
            Event::DocumentEnd => break,
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) => {}
        }
    }
    Ok(tree.done)
}

/// The value that is being built.
#[derive(Default)]
struct YamlTree {
    /// Incomplete collections, the outermost first, each with the key whose value comes next.
    open: Vec<(Value, Option<String>)>,
    done: Value,
    values: usize,
}

impl YamlTree {
    fn scalar(&mut self, text: String, is_text: bool) -> Result<(), YamlError> {
        if let Some((Value::Object(_), key @ None)) = self.open.last_mut() {
            *key = Some(text);
            return Ok(());
        }
        self.add(match text.as_str() {
            _ if is_text => Value::String(text),
            "" | "~" | "null" => Value::Null,
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::String(text),
        })
    }

    fn open(&mut self, empty: Value) -> Result<(), YamlError> {
        match self.open.last() {
            Some((Value::Object(_), None)) => return Err(YamlError::Key),
            _ if self.open.len() == MAX_DEPTH => return Err(YamlError::TooDeep),
            _ => self.open.push((empty, None)),
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), YamlError> {
        match self.open.pop() {
            Some((value, _)) => self.add(value),
            None => Ok(()),
        }
    }

    fn add(&mut self, value: Value) -> Result<(), YamlError> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(YamlError::TooMany);
        }
        match self.open.last_mut() {
            Some((Value::Array(list), _)) => list.push(value),
            Some((Value::Object(map), key)) => {
                let key = key.take().ok_or(YamlError::Key)?;
                if map.contains_key(&key) {
                    return Err(YamlError::Twice(key));
                }
                map.insert(key, value);
            }
            _ => self.done = value,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_lists_and_mappings_are_parsed() {
        let check = |text: &str, expected: Value| assert_eq!(parse(text).unwrap(), expected, "{text}");
        check("", Value::Null);
        check("name: a\ndescription: b c", json!({ "name": "a", "description": "b c" }));
        check("name: \"a: b\" # why", json!({ "name": "a: b" }));
        check("text: >\n  one\n  two\n", json!({ "text": "one two\n" }));
        check(
            "tools:\n  - type: mcp\n    value: x\n  - y",
            json!({ "tools": [{ "type": "mcp", "value": "x" }, "y"] }),
        );
        check(
            "on: true\noff: false\nnone: ~\nquoted: 'true'",
            json!({ "on": true, "off": false, "none": null, "quoted": "true" }),
        );
        check("number: 2048\nversion: 1.10", json!({ "number": "2048", "version": "1.10" }));
        check("list: [a, {b: c}]", json!({ "list": ["a", { "b": "c" }] }));
        check("first: 1\n---\nsecond: 2", json!({ "first": "1" }));
    }

    #[test]
    fn aliases_duplicate_keys_and_large_values_are_rejected() {
        let check = |text: &str, reason: &str| {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        };
        check("a: &x [1]\nb: *x", "aliases");
        check("a: b: c", "line 1");
        check("a: 1\na: 2", "`a` appears twice");
        check("? [a]\n: b", "key");
        check(&"[".repeat(100), "nested");
        check(&format!("a: [{}]", "1,".repeat(5000)), "more than");
    }

    proptest! {
        #[test]
        fn no_text_causes_a_panic(text in "[ -~\n\t&*\\[\\]{}:,>|'\"-]{0,200}") {
            let _ = parse(&text);
        }
    }
}
