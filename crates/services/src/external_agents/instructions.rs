//! Standing instructions: `CLAUDE.md` becomes `AGENTS.md`.

use std::path::PathBuf;

use super::{
    ImportError,
    place::{ConfigPlace, read, write},
    wording::reworded,
};

/// The file to copy, if there is something in it and nothing where it would go.
pub(super) fn source(place: &ConfigPlace) -> Result<Option<PathBuf>, ImportError> {
    if has_text(&place.instructions())? {
        return Ok(None);
    }
    for source in place.sources() {
        if has_text(&source)? {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

fn has_text(path: &std::path::Path) -> Result<bool, ImportError> {
    Ok(read(path)?.is_some_and(|text| !text.trim().is_empty()))
}

pub(super) fn import(place: &ConfigPlace) -> Result<(), ImportError> {
    let Some(source) = source(place)? else { return Ok(()) };
    match read(&source)? {
        Some(text) => write(&place.instructions(), &reworded(&text)),
        None => Ok(()),
    }
}
