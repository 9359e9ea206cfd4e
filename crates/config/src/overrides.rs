//! Settings that come with a command line or a request instead of a file.
//!
//! `-c key=value` and `--enable`/`--disable FEATURE` make the layer of the session; the `config` map of
//! `thread/start` makes the layer of one thread. Both use [`KeyPath`], both are stronger than any file.

use std::path::Path;

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use crate::{
    KeyPath,
    convert::to_toml,
    error::{ConfigError, ConfigProblem},
    features::Feature,
    paths::resolve_relative_paths,
};

/// What the command line sets for every thread of this process.
#[derive(Clone, Default)]
pub struct CommandLineFlags(Table);

/// The values are left out: a flag may carry a credential.
impl std::fmt::Debug for CommandLineFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl CommandLineFlags {
    /// `overrides` are the arguments of `-c`, in order: a later one wins. Relative paths in them count
    /// from `base`, the directory in which the command was typed.
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

    /// `--enable` and `--disable`. Unlike a `-c features.x=…`, a name that does not exist is an error.
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

/// The `config` map of a request as a layer. Null says nothing about a key and is skipped.
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

/// `key=value`: the value is TOML if it reads as that, else the text as it stands.
fn parse_flag(flag: &str) -> Result<(KeyPath, Value), ConfigError> {
    // The value stays out of the message, it may be a credential.
    let key_of = |flag: &str| flag.split('=').next().unwrap_or_default().trim().to_owned();
    let refused = |reason: String| ConfigError::Override { flag: key_of(flag), reason };
    let (key, value) = split_flag(flag).ok_or_else(|| refused("expected key=value".to_owned()))?;
    let path = KeyPath::parse(key).map_err(|error| refused(error.to_string()))?;
    Ok((path, parse_value(value)))
}

/// Splits at the first equals sign outside quotes: a quoted key may contain one.
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

/// Quotes that a shell left around a text which is not TOML.
fn unquoted(text: &str) -> &str {
    let inside = |quote| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

fn set(table: &mut Table, path: &KeyPath, value: Value) {
    set_at(table, path.keys(), value);
}

/// What is in the way is replaced: within one layer the later statement is the whole truth.
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
