//! Settings: what they mean in our configuration, and adding it there.

use std::path::Path;

use codicil_config::{ConfigStore, edit_text};
use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::{
    ImportError,
    place::{ConfigPlace, read, write},
};

/// What the other agent's settings say that ours can say too.
pub(super) fn wanted(place: &ConfigPlace) -> Result<Table, ImportError> {
    let Some(settings) = read_object(&place.settings())? else { return Ok(Table::new()) };
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

/// Variables with values that a shell has.
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

/// A file that holds a JSON object; `None` when there is none.
pub(super) fn read_object(path: &Path) -> Result<Option<Map<String, Json>>, ImportError> {
    let Some(text) = read(path)? else { return Ok(None) };
    match serde_json::from_str(&text)? {
        Json::Object(members) => Ok(Some(members)),
        _ => Err(ImportError::NoObject),
    }
}

/// Our configuration as it is.
pub(super) fn existing(place: &ConfigPlace) -> Result<Table, ImportError> {
    read(&place.config())?.unwrap_or_default().parse().map_err(ImportError::Toml)
}

/// Whether something would be added.
pub(super) fn lacks(existing: &Table, wanted: &Table) -> bool {
    let mut with = existing.clone();
    add(&mut with, wanted);
    with != *existing
}

/// Adds what is not there, at every depth. An MCP server is there or not, as a whole.
fn add(table: &mut Table, wanted: &Table) {
    for (key, value) in wanted {
        match (table.get_mut(key), value) {
            (None, value) => {
                table.insert(key.clone(), value.clone());
            }
            (Some(Value::Table(there)), Value::Table(servers)) if key == "mcp_servers" => {
                for (name, server) in servers {
                    there.entry(name.clone()).or_insert_with(|| server.clone());
                }
            }
            (Some(Value::Table(there)), Value::Table(more)) => add(there, more),
            (Some(_), _) => {}
        }
    }
}

/// Adds to our configuration. The user's own is changed as every other change of it is: checked, and in
/// turn with other processes.
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
    let path = place.config();
    let text = read(&path)?.unwrap_or_default();
    write(&path, &edit_text(&path, &text, |table| add(table, &wanted))?)
}
