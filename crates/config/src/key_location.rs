//! The locations of keys in a file, for error messages.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::KeyPath;

/// Returns the location of the value at a path.
pub(crate) fn of_value(text: &str, path: &KeyPath) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    descend(root.get_ref(), path.keys())
}

/// Returns the location of a value whose keys are joined by dots, as in error messages. If keys contain dots, the first match is
/// used.
pub(crate) fn of_joined_key(text: &str, joined: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    descend_joined(root.get_ref(), joined)
}

fn descend(table: &DeTable<'_>, keys: &[String]) -> Option<Range<usize>> {
    let (first, rest) = keys.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == first.as_str())?;
    match (rest, value.get_ref()) {
        ([], _) => Some(key.span()),
        (rest, DeValue::Table(below)) => descend(below, rest),
        (rest, DeValue::Array(items)) => {
            let (index, rest) = rest.split_first()?;
            let item = items.get(index.parse::<usize>().ok()?)?;
            match item.get_ref() {
                DeValue::Table(below) => descend(below, rest),
                _ => Some(item.span()),
            }
        }
        _ => None,
    }
}

fn descend_joined(table: &DeTable<'_>, joined: &str) -> Option<Range<usize>> {
    table.iter().find_map(|(key, value)| {
        let rest = joined.strip_prefix(key.get_ref().as_ref())?;
        match (rest, value.get_ref()) {
            ("", _) => Some(value.span()),
            (rest, DeValue::Table(below)) => descend_joined(below, rest.strip_prefix('.')?),
            _ => None,
        }
    })
}
