//! Settings from the command line and from requests.
//!
//! `-c key=value` and `--enable`/`--disable FEATURE` form the session layer; the `config` map of `thread/start` forms the layer
//! of a thread. Both use [`KeyPath`] and take precedence over files.

use std::path::Path;

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use crate::{
    KeyPath,
    error::{ConfigError, ConfigProblem},
    features::Feature,
    paths::resolve_relative_paths,
    toml_json::to_toml,
};

/// The settings of the command line.
#[derive(Clone, Default)]
pub struct CommandLineFlags(Table);

/// Shows keys only, because values may be credentials.
impl std::fmt::Debug for CommandLineFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl CommandLineFlags {
    /// Parses the arguments of `-c`. Later ones take precedence. Relative paths are resolved against `base`.
    pub fn parse<S: AsRef<str>>(
        overrides: impl IntoIterator<Item = S>,
        base: &Path,
    ) -> Result<Self, ConfigError> {
        let mut table = Table::new();
        for flag in overrides {
            let (path, value) = parse_flag(flag.as_ref())?;
            set(&mut table, &path, value);
        }
        resolve_relative_paths(&mut table, base);
        Ok(Self(table))
    }

    /// Applies `--enable` and `--disable`. Unlike with `-c features.x=…`, an unknown name is an error.
    pub fn switch_feature(&mut self, name: &str, on: bool) -> Result<(), ConfigError> {
        let feature = Feature::named(name).ok_or_else(|| ConfigError::UnknownFeature(name.to_owned()))?;
        let path = ["features".to_owned(), feature.name().to_owned()];
        set_at(&mut self.0, &path, Value::Boolean(on));
        Ok(())
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0
    }
}

/// Converts the `config` map of a request to a table. Null values are skipped.
pub(crate) fn from_request(config: &Map<String, Json>, base: &Path) -> Result<Table, ConfigError> {
    let mut table = Table::new();
    for (key, value) in config {
        let path = KeyPath::parse(key)
            .map_err(|error| ConfigError::Value(ConfigProblem { reason: error.to_string(), key: None }))?;
        if let Some(value) = to_toml(value) {
            set(&mut table, &path, value);
        }
    }
    resolve_relative_paths(&mut table, base);
    Ok(table)
}

/// Parses `key=value`. The value is TOML or, if it does not parse, a string.
fn parse_flag(flag: &str) -> Result<(KeyPath, Value), ConfigError> {
    // The message omits the value, which may be a credential.
    let key_of = |flag: &str| flag.split('=').next().unwrap_or_default().trim().to_owned();
    let invalid = |reason: String| ConfigError::Override { flag: key_of(flag), reason };
    let (key, value) = split_flag(flag).ok_or_else(|| invalid("expected key=value".to_owned()))?;
    let path = KeyPath::parse(key).map_err(|error| invalid(error.to_string()))?;
    Ok((path, parse_value(value)))
}

/// Splits at the first equals sign outside quotes.
fn split_flag(flag: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, character) in flag.char_indices() {
        match (quote, character) {
            (None, '=') => return Some((flag.get(..at)?, flag.get(at + 1..)?)),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

fn parse_value(text: &str) -> Value {
    let text = text.trim();
    text.parse().unwrap_or_else(|_| Value::String(unquoted(text).to_owned()))
}

/// Removes quotes around a text that is not TOML.
fn unquoted(text: &str) -> &str {
    let inside = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

fn set(table: &mut Table, path: &KeyPath, value: Value) {
    set_at(table, path.keys(), value);
}

/// Sets a value and replaces anything in its way, because later settings of a layer take precedence.
fn set_at(table: &mut Table, keys: &[String], value: Value) {
    match keys {
        [] => {}
        [last] => {
            table.insert(last.clone(), value);
        }
        [first, rest @ ..] => {
            let below = table.entry(first.clone()).or_insert_with(|| Value::Table(Table::new()));
            if !below.is_table() {
                *below = Value::Table(Table::new());
            }
            if let Value::Table(below) = below {
                set_at(below, rest, value);
            }
        }
    }
}
