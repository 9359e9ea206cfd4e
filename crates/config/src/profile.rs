//! Profiles: named sets of settings, of which one can be selected with `profile`.
//!
//! The selected profile takes precedence over all files and is overridden by the flags of the command line. If the `config` of a
//! thread selects it, it takes precedence over the flags too.

use toml::{Table, Value};

use crate::{
    error::{ConfigError, ConfigProblem},
    layers::merge,
};

/// The parts of a configuration between which a profile is applied.
pub(crate) struct ConfigParts<'p> {
    pub files: Table,
    pub flags: &'p Table,
    pub thread: &'p Table,
}

/// Merges the parts and the selected profile.
pub(crate) fn merge_with_profile(parts: ConfigParts<'_>) -> Result<Table, ConfigError> {
    let ConfigParts { mut files, flags, thread } = parts;
    let profile = selected(&files, flags, thread)?;
    if let Some(SelectedProfile { table, by_thread: false }) = &profile {
        merge(&mut files, table);
    }
    merge(&mut files, flags);
    if let Some(SelectedProfile { table, by_thread: true }) = &profile {
        merge(&mut files, table);
    }
    merge(&mut files, thread);
    Ok(files)
}

struct SelectedProfile {
    table: Table,
    by_thread: bool,
}

fn selected(files: &Table, flags: &Table, thread: &Table) -> Result<Option<SelectedProfile>, ConfigError> {
    let by_thread = thread.contains_key("profile");
    let name = [thread, flags, files].into_iter().find_map(|part| part.get("profile"));
    let name = match name {
        None => return Ok(None),
        Some(Value::String(name)) => name,
        Some(_) => return Err(ConfigError::Value(ConfigProblem::new("profile", "expected a string"))),
    };
    let mut table = Table::new();
    let definitions = [files, flags, thread].into_iter().filter_map(|part| definition(part, name));
    let found = definitions.map(|definition| merge(&mut table, definition)).count();
    match found {
        0 => Err(ConfigError::UnknownProfile(name.clone())),
        _ => Ok(Some(SelectedProfile { table, by_thread })),
    }
}

fn definition<'t>(part: &'t Table, name: &str) -> Option<&'t Table> {
    part.get("profiles")?.as_table()?.get(name)?.as_table()
}
