//! Profiles: named sets of settings, one of which may be chosen with `profile`.
//!
//! A chosen profile counts more than any file and less than the flags of the command line. Chosen by the
//! `config` of a thread it counts more than those as well: that thread asked for it by name.

use toml::{Table, Value};

use crate::{
    error::{ConfigError, ConfigProblem},
    layers::merge,
};

/// The three parts of a configuration, as far as profiles matter.
pub(crate) struct ConfigParts<'p> {
    pub files: Table,
    pub flags: &'p Table,
    pub thread: &'p Table,
}

/// Adds the parts up, with the chosen profile in its place.
pub(crate) fn merge_with_profile(parts: ConfigParts<'_>) -> Result<Table, ConfigError> {
    let ConfigParts { mut files, flags, thread } = parts;
    let profile = chosen(&files, flags, thread)?;
    if let Some(ChosenProfile { table, by_thread: false }) = &profile {
        merge(&mut files, table);
    }
    merge(&mut files, flags);
    if let Some(ChosenProfile { table, by_thread: true }) = &profile {
        merge(&mut files, table);
    }
    merge(&mut files, thread);
    Ok(files)
}

struct ChosenProfile {
    table: Table,
    by_thread: bool,
}

fn chosen(files: &Table, flags: &Table, thread: &Table) -> Result<Option<ChosenProfile>, ConfigError> {
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
        _ => Ok(Some(ChosenProfile { table, by_thread })),
    }
}

fn definition<'t>(part: &'t Table, name: &str) -> Option<&'t Table> {
    part.get("profiles")?.as_table()?.get(name)?.as_table()
}
