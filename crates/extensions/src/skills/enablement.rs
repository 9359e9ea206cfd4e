//! `[[skills.config]]`: which skills a person has turned off.
//!
//! An entry names a skill by its file or by its name. The last entry that fits decides; a skill that no
//! entry fits is on, so turning one on again takes its entry away.

use std::path::{Path, PathBuf};

use codicil_config::{ConfigStore, EditError, SkillEntry, WriteError};
use codicil_protocol::{SkillMetadata, SkillsConfigWriteParams};
use toml::{Table, Value};

/// Which skill is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SkillSelector {
    /// The real name of its `SKILL.md`.
    Path(PathBuf),
    Name(String),
}

impl SkillSelector {
    /// `None` unless exactly one of the two is given.
    pub fn of(params: &SkillsConfigWriteParams) -> Option<Self> {
        let name = params.name.as_deref().map(str::trim).filter(|name| !name.is_empty());
        match (&params.path, name) {
            (Some(path), None) => Some(Self::Path(real(path))),
            (None, Some(name)) => Some(Self::Name(name.to_owned())),
            _ => None,
        }
    }

    fn fits(&self, name: &str, path: &Path) -> bool {
        match self {
            Self::Path(selected) => selected == path,
            Self::Name(selected) => selected == name,
        }
    }
}

/// The entries in force, strongest last.
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

    pub fn is_on(&self, skill: &SkillMetadata) -> bool {
        let fitting =
            self.0.iter().rev().find(|(selector, _)| selector.fits(&skill.name, Path::new(&skill.path)));
        fitting.is_none_or(|(_, on)| *on)
    }
}

/// Changes the user's file so that the skill is on or off.
pub(crate) fn write(config: &ConfigStore, selector: &SkillSelector, enabled: bool) -> Result<(), WriteError> {
    config.update(|table| {
        let mut entries = entries(table);
        entries.retain(|entry| selector_of(entry, config.home().path()).as_ref() != Some(selector));
        // An entry for a name would keep a skill off that is turned on by its path.
        let is_needed =
            !enabled || (matches!(selector, SkillSelector::Path(_)) && entries.iter().any(turns_name_off));
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

/// In the file as it is written, a relative path counts from the home.
fn selector_of(entry: &Value, home: &Path) -> Option<SkillSelector> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    match (text("path"), text("name")) {
        (Some(path), None) => Some(SkillSelector::Path(real(&home.join(path)))),
        (None, Some(name)) => Some(SkillSelector::Name(name.trim().to_owned())),
        _ => None,
    }
}

fn turns_name_off(entry: &Value) -> bool {
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

/// A skill that is gone keeps the name it had.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
