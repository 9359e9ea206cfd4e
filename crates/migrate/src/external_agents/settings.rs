//! Converts settings to our configuration, and adds them to it.

use std::path::Path;

use codicil_config::{ConfigStore, edit_text};
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::{
    ImportError,
    config_place::{ConfigPlace, read, write},
};

/// Returns the settings of the other agent that our configuration has an equivalent for.
pub(super) fn wanted(place: &ConfigPlace) -> Result<Table, ImportError> {
    let Some(settings) = read_object(&place.settings_file())? else { return Ok(Table::new()) };
    let mut wanted = Table::new();
    let set = environment(settings.get("env"));
    if !set.is_empty() {
        let mut policy = Table::new();
        policy.insert("inherit".to_owned(), Value::String("core".to_owned()));
        policy.insert("set".to_owned(), Value::Table(set));
        wanted.insert("shell_environment_policy".to_owned(), Value::Table(policy));
    }
    if settings.get("sandbox").and_then(|sandbox| sandbox.get("enabled")) == Some(&Json::Bool(true)) {
        wanted.insert("sandbox_mode".to_owned(), Value::String("workspace-write".to_owned()));
    }
    Ok(wanted)
}

/// Returns the variables whose values are scalars.
fn environment(env: Option<&Json>) -> Table {
    let members = env.and_then(Json::as_object).into_iter().flatten();
    let text = |value: &Json| match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(flag) => Some(flag.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    };
    members.filter_map(|(name, value)| Some((name.clone(), Value::String(text(value)?)))).collect()
}

/// Reads a file with a JSON object; `None` if it does not exist.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Json>>, ImportError> {
    let Some(text) = read(path)? else { return Ok(None) };
    match serde_json::from_str(&text)? {
        Json::Object(members) => Ok(Some(members)),
        _ => Err(ImportError::NoObject),
    }
}

/// Reads our configuration.
pub(super) fn existing(place: &ConfigPlace) -> Result<Table, ImportError> {
    read(&place.config_file())?.unwrap_or_default().parse().map_err(ImportError::Toml)
}

/// Returns whether adding `wanted` would change the configuration.
pub(super) fn lacks(existing: &Table, wanted: &Table) -> bool {
    let mut extended = existing.clone();
    add(&mut extended, wanted);
    extended != *existing
}

/// Adds missing keys, at every depth. An MCP server is added as a whole, or not at all.
fn add(table: &mut Table, wanted: &Table) {
    for (key, value) in wanted {
        match (table.get_mut(key), value) {
            (None, value) => {
                table.insert(key.clone(), value.clone());
            }
            (Some(Value::Table(existing)), Value::Table(servers)) if key == "mcp_servers" => {
                for (name, server) in servers {
                    existing.entry(name.clone()).or_insert_with(|| server.clone());
                }
            }
            (Some(Value::Table(existing)), Value::Table(more)) => add(existing, more),
            (Some(_), _) => {}
        }
    }
}

/// Adds to our configuration. The user's own file is changed through the store, which validates it and locks
/// out other processes.
pub(super) fn import(place: &ConfigPlace, config: &ConfigStore, wanted: Table) -> Result<(), ImportError> {
    if wanted.is_empty() || !lacks(&existing(place)?, &wanted) {
        return Ok(());
    }
    if let ConfigPlace::Home { .. } = place {
        return Ok(config.update(|table| {
            add(table, &wanted);
            Ok(())
        })?);
    }
    let path = place.config_file();
    let text = read(&path)?.unwrap_or_default();
    write(&path, &edit_text(&path, &text, |table| add(table, &wanted))?)
}
