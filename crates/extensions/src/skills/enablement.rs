//! `[[skills.config]]`: which skills are disabled.
//!
//! An entry selects a skill by its file or its name, and the last matching entry decides. A skill without an
//! entry is enabled, so enabling one again removes its entry.

use std::path::{Path, PathBuf};

use codicil_config::{ConfigStore, EditError, SkillEntry, WriteError};
use codicil_protocol::{SkillMetadata, SkillsConfigWriteParams};
use toml::{Table, Value};

/// Selects a skill in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SkillSelector {
    /// The path of its `SKILL.md`, with links resolved.
    Path(PathBuf),
    Name(String),
}

impl SkillSelector {
    /// Returns `None` unless exactly one of path and name is given.
    pub fn of(params: &SkillsConfigWriteParams) -> Option<Self> {
        let name = params.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
        match (&params.path, name) {
            (Some(path), None) => Some(Self::Path(real(path))),
            (None, Some(name)) => Some(Self::Name(name.to_owned())),
            _ => None,
        }
    }

    fn matches(&self, name: &str, path: &Path) -> bool {
        match self {
            Self::Path(selected) => selected == path,
            Self::Name(selected) => selected == name,
        }
    }
}

/// The entries of all configuration layers, the strongest last.
#[derive(Debug, Default)]
pub(crate) struct SkillSwitches(Vec<(SkillSelector, bool)>);

impl SkillSwitches {
    pub fn new(entries: &[SkillEntry]) -> Self {
        let selector = |entry: &SkillEntry| match (&entry.path, &entry.name) {
            (Some(path), None) => Some(SkillSelector::Path(real(Path::new(path)))),
            (None, Some(name)) => Some(SkillSelector::Name(name.trim().to_owned())),
            _ => None,
        };
        Self(entries.iter().filter_map(|entry| Some((selector(entry)?, entry.enabled))).collect())
    }

    pub fn is_enabled(&self, skill: &SkillMetadata) -> bool {
        let matching =
            self.0.iter().rev().find(|(selector, _)| selector.matches(&skill.name, Path::new(&skill.path)));
        matching.is_none_or(|(_, enabled)| *enabled)
    }
}

/// Enables or disables a skill in the user's configuration.
pub(crate) fn write(config: &ConfigStore, selector: &SkillSelector, enabled: bool) -> Result<(), WriteError> {
    config.update(|table| {
        let mut entries = entries(table);
        entries.retain(|entry| selector_of(entry, config.home().path()).as_ref() != Some(selector));
        // An entry for its name would otherwise keep a skill disabled that is enabled by its path.
        let is_needed =
            !enabled || (matches!(selector, SkillSelector::Path(_)) && entries.iter().any(disables_name));
        if is_needed {
            entries.push(entry(selector, enabled));
        }
        put(table, entries)
    })
}

fn entries(table: &Table) -> Vec<Value> {
    let entries = table.get("skills").and_then(|skills| skills.get("config")).and_then(Value::as_array);
    entries.cloned().unwrap_or_default()
}

fn put(table: &mut Table, entries: Vec<Value>) -> Result<(), EditError> {
    if entries.is_empty() {
        if let Some(Value::Table(skills)) = table.get_mut("skills") {
            skills.remove("config");
            if skills.is_empty() {
                table.remove("skills");
            }
        }
        return Ok(());
    }
    let skills = table.entry("skills").or_insert_with(|| Value::Table(Table::new()));
    let skills = skills.as_table_mut().ok_or(EditError::ParentIsNoTable)?;
    skills.insert("config".to_owned(), Value::Array(entries));
    Ok(())
}

/// Parses an entry of the user's file, where paths are relative to the home.
fn selector_of(entry: &Value, home: &Path) -> Option<SkillSelector> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    match (text("path"), text("name")) {
        (Some(path), None) => Some(SkillSelector::Path(real(&home.join(path)))),
        (None, Some(name)) => Some(SkillSelector::Name(name.trim().to_owned())),
        _ => None,
    }
}

fn disables_name(entry: &Value) -> bool {
    entry.get("name").is_some() && entry.get("enabled").and_then(Value::as_bool) == Some(false)
}

fn entry(selector: &SkillSelector, enabled: bool) -> Value {
    let (key, value) = match selector {
        SkillSelector::Path(path) => ("path", path.to_string_lossy().into_owned()),
        SkillSelector::Name(name) => ("name", name.clone()),
    };
    let mut entry = Table::new();
    entry.insert(key.to_owned(), Value::String(value));
    entry.insert("enabled".to_owned(), Value::Boolean(enabled));
    Value::Table(entry)
}

/// Resolves links. The path of a deleted skill is returned unchanged.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
