//! Configuration layers and merging them.
//!
//! In order of increasing precedence: system file, user file, the files of a trusted project from its root down to the working
//! directory, the flags of the command line, the `config` of a thread. Tables are merged key by key; other values are replaced.
//! The layers of a project that is not trusted are included as disabled, so that clients can show the reason.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_protocol::{AbsolutePathBuf, ConfigLayer, ConfigLayerMetadata, ConfigLayerSource};
use toml::{Table, Value};

use crate::{
    KeyPath,
    catalogue::unknown_keys,
    error::{ConfigError, ConfigProblem, FileProblem},
    files::ConfigFile,
    key_location, shown_address,
    toml_json::to_json,
    version::version,
};

/// One source of settings.
#[derive(Clone)]
pub struct SettingsLayer {
    source: ConfigLayerSource,
    version: String,
    /// The table as written, for clients.
    written: Arc<Table>,
    /// The table with relative paths resolved, for merging.
    table: Arc<Table>,
    disabled_reason: Option<String>,
    /// The file, for the locations of errors.
    file: Option<Arc<ConfigFile>>,
}

/// Shows keys only, because values may be credentials.
impl std::fmt::Debug for SettingsLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.table.keys().collect();
        f.debug_struct("SettingsLayer")
            .field("source", &self.source)
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl SettingsLayer {
    pub(crate) fn of_file(source: ConfigLayerSource, file: &Arc<ConfigFile>) -> Self {
        Self {
            source,
            version: file.version.clone(),
            written: Arc::clone(&file.written),
            table: Arc::clone(&file.table),
            disabled_reason: None,
            file: Some(Arc::clone(file)),
        }
    }

    pub(crate) fn of_table(source: ConfigLayerSource, table: Table) -> Self {
        let table = Arc::new(table);
        Self {
            source,
            version: version(&table),
            written: Arc::clone(&table),
            table,
            disabled_reason: None,
            file: None,
        }
    }

    pub(crate) fn disabled(mut self, reason: &str) -> Self {
        self.disabled_reason = Some(reason.to_owned());
        self
    }

    pub fn source(&self) -> &ConfigLayerSource {
        &self.source
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn table(&self) -> &Table {
        &self.table
    }

    pub fn disabled_reason(&self) -> Option<&str> {
        self.disabled_reason.as_deref()
    }

    /// Returns the file of the layer.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// Returns the keys that are not in the catalogue.
    pub(crate) fn unknown_keys(&self) -> Vec<KeyPath> {
        match &self.file {
            Some(file) => file.unknown.clone(),
            None => unknown_keys(&self.table),
        }
    }

    pub(crate) fn metadata(&self) -> ConfigLayerMetadata {
        ConfigLayerMetadata { name: self.source.clone(), version: self.version.clone() }
    }

    fn to_wire(&self) -> ConfigLayer {
        let mut written = (*self.written).clone();
        shown_address::hide_password(&mut written);
        ConfigLayer {
            name: self.source.clone(),
            version: self.version.clone(),
            config: to_json(&Value::Table(written)),
            disabled_reason: self.disabled_reason.clone(),
        }
    }
}

/// All layers, in order of increasing precedence.
#[derive(Clone, Debug, Default)]
pub struct LayerStack(Vec<SettingsLayer>);

impl LayerStack {
    pub(crate) fn push(&mut self, layer: SettingsLayer) {
        self.0.push(layer);
    }

    pub(crate) fn extend_with(&mut self, layer: Option<SettingsLayer>) {
        self.0.extend(layer);
    }

    /// Returns the enabled layers, in order of increasing precedence.
    pub fn enabled(&self) -> impl DoubleEndedIterator<Item = &SettingsLayer> {
        self.0.iter().filter(|layer| layer.disabled_reason.is_none())
    }

    /// Returns all layers in order of decreasing precedence, as in `config/read`.
    pub(crate) fn to_wire(&self) -> Vec<ConfigLayer> {
        self.0.iter().rev().map(SettingsLayer::to_wire).collect()
    }

    pub(crate) fn user(&self) -> Option<&SettingsLayer> {
        self.0.iter().find(|layer| matches!(layer.source, ConfigLayerSource::User { .. }))
    }

    pub fn merged(&self) -> Table {
        let mut merged = Table::new();
        for layer in self.enabled() {
            merge(&mut merged, &layer.table);
        }
        merged
    }

    /// Returns the layer that determines the value of a key.
    pub(crate) fn deciding_layer(&self, path: &KeyPath) -> Option<&SettingsLayer> {
        self.enabled().rev().find(|layer| value_at(&layer.table, path.keys()).is_some())
    }

    /// Converts a problem of the merged table to one of the file that caused it.
    pub(crate) fn locate_problem(&self, problem: ConfigProblem) -> ConfigError {
        let key = problem.key.as_deref().unwrap_or_default();
        let culprit = self.enabled().rev().find(|layer| has_joined_key(&layer.table, key));
        match culprit.and_then(|layer| layer.file.as_ref()) {
            Some(file) => {
                let span = key_location::of_joined_key(&file.text, key);
                ConfigError::InFile(FileProblem::new(&file.path, &file.text, span, problem))
            }
            None => ConfigError::Value(problem),
        }
    }
}

/// Merges a table of higher precedence into another one.
pub(crate) fn merge(base: &mut Table, overrides: &Table) {
    for (key, value) in overrides {
        match (base.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

pub(crate) fn value_at<'t, K: AsRef<str>>(table: &'t Table, path: &[K]) -> Option<&'t Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(first.as_ref())?;
    match rest {
        [] => Some(value),
        rest => value_at(value.as_table()?, rest),
    }
}

/// Returns whether a table contains a value, given by its keys joined with dots as in error messages.
fn has_joined_key(table: &Table, joined: &str) -> bool {
    table.iter().any(|(key, value)| match (joined.strip_prefix(key.as_str()), value) {
        (Some(""), _) => true,
        (Some(rest), Value::Table(below)) => {
            rest.strip_prefix('.').is_some_and(|rest| has_joined_key(below, rest))
        }
        _ => false,
    })
}

/// Returns the source of a file layer. Callers pass absolute paths.
pub(crate) fn source_of(
    path: &Path,
    make: impl FnOnce(AbsolutePathBuf) -> ConfigLayerSource,
) -> ConfigLayerSource {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from("/").join(path));
    match AbsolutePathBuf::new(absolute) {
        Some(path) => make(path),
        None => ConfigLayerSource::SessionFlags,
    }
}
