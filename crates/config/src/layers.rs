//! Layers of configuration and how they add up.
//!
//! From the weakest: system file, user file, the files of a trusted project from its root down to the
//! working directory, the flags of the command line, the `config` of one thread. Tables merge key by key,
//! everything else is replaced whole. A layer of a project that is not trusted is there, disabled, so that
//! clients can show why it does not count.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_protocol::{AbsolutePathBuf, ConfigLayer, ConfigLayerMetadata, ConfigLayerSource};
use toml::{Table, Value};

use crate::{
    KeyPath,
    convert::to_json,
    error::{ConfigError, ConfigProblem, FileProblem},
    files::ConfigFile,
    location,
    version::version,
};

/// One source of settings.
#[derive(Clone)]
pub struct SettingsLayer {
    source: ConfigLayerSource,
    version: String,
    /// As written, for clients to see.
    written: Arc<Table>,
    /// With relative paths resolved, for merging.
    table: Arc<Table>,
    disabled_reason: Option<String>,
    /// Where to look for the place of a mistake.
    file: Option<Arc<ConfigFile>>,
}

/// Keys only: values may be credentials.
impl std::fmt::Debug for SettingsLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<_> = self.table.keys().collect();
        f.debug_struct("Layer").field("source", &self.source).field("keys", &keys).finish_non_exhaustive()
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

    /// The file it was read from.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    pub(crate) fn metadata(&self) -> ConfigLayerMetadata {
        ConfigLayerMetadata { name: self.source.clone(), version: self.version.clone() }
    }

    fn to_wire(&self) -> ConfigLayer {
        ConfigLayer {
            name: self.source.clone(),
            version: self.version.clone(),
            config: to_json(&Value::Table((*self.written).clone())),
            disabled_reason: self.disabled_reason.clone(),
        }
    }
}

/// All layers of one reading, weakest first.
#[derive(Clone, Debug, Default)]
pub struct LayerStack(Vec<SettingsLayer>);

impl LayerStack {
    pub(crate) fn push(&mut self, layer: SettingsLayer) {
        self.0.push(layer);
    }

    pub(crate) fn extend_with(&mut self, layer: Option<SettingsLayer>) {
        self.0.extend(layer);
    }

    /// The layers that count, weakest first.
    pub fn enabled(&self) -> impl DoubleEndedIterator<Item = &SettingsLayer> {
        self.0.iter().filter(|layer| layer.disabled_reason.is_none())
    }

    /// Disabled ones too, strongest first, as `config/read` lists them.
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

    /// The strongest layer that says something about a key.
    pub(crate) fn decides(&self, path: &KeyPath) -> Option<&SettingsLayer> {
        self.enabled().rev().find(|layer| value_at(&layer.table, path.keys()).is_some())
    }

    /// Turns a problem of the merged table into one of the file that caused it.
    pub(crate) fn blame(&self, problem: ConfigProblem) -> ConfigError {
        let key = problem.key.as_deref().unwrap_or_default();
        let culprit = self.enabled().rev().find(|layer| has_joined_key(&layer.table, key));
        match culprit.and_then(|layer| layer.file.as_ref()) {
            Some(file) => {
                let span = location::of_joined_key(&file.text, key);
                ConfigError::InFile(FileProblem::new(&file.path, &file.text, span, problem))
            }
            None => ConfigError::Value(problem),
        }
    }
}

/// Puts a stronger table over a weaker one.
pub(crate) fn merge(weaker: &mut Table, stronger: &Table) {
    for (key, value) in stronger {
        match (weaker.get_mut(key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            _ => {
                weaker.insert(key.clone(), value.clone());
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

/// Whether a table has the value an error text names by its keys joined with dots.
fn has_joined_key(table: &Table, joined: &str) -> bool {
    table.iter().any(|(key, value)| match (joined.strip_prefix(key.as_str()), value) {
        (Some(""), _) => true,
        (Some(rest), Value::Table(below)) => {
            rest.strip_prefix('.').is_some_and(|rest| has_joined_key(below, rest))
        }
        _ => false,
    })
}

/// The source of a file layer. Callers build paths from absolute ones.
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
