//! Skills: folders with a `SKILL.md`, copied as they are.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    ImportError,
    place::{ConfigPlace, read, write},
    wording::reworded,
};

/// How deep a skill is copied; there is no end to what links and mounts can do.
const MAX_DEPTH: usize = 16;

/// The folders that are not there yet, with where they go.
pub(super) fn missing(place: &ConfigPlace) -> Result<Vec<(PathBuf, PathBuf)>, ImportError> {
    let target = place.skills();
    let folders = children(&place.agent().join("skills"))?.into_iter().filter(|child| child.kind.is_dir());
    let pairs = folders.map(|child| (child.path, target.join(child.name)));
    Ok(pairs.filter(|(_, to)| fs::symlink_metadata(to).is_err()).collect())
}

pub(super) fn import(place: &ConfigPlace) -> Result<(), ImportError> {
    missing(place)?.into_iter().try_for_each(|(from, to)| copy(&from, &to, MAX_DEPTH))
}

/// Links are left out: they may lead anywhere, and elsewhere from the new place.
fn copy(from: &Path, to: &Path, depth: usize) -> Result<(), ImportError> {
    fs::create_dir_all(to).map_err(ImportError::io(to))?;
    for child in children(from)? {
        let target = to.join(&child.name);
        if child.kind.is_dir() && depth > 0 {
            copy(&child.path, &target, depth - 1)?;
        } else if child.kind.is_file() {
            copy_file(&child.path, &target)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<(), ImportError> {
    let is_description = from.file_name().is_some_and(|name| name == "SKILL.md");
    match is_description.then(|| read(from)).transpose()?.flatten() {
        Some(text) => write(to, &reworded(&text)),
        None => fs::copy(from, to).map(drop).map_err(ImportError::io(from)),
    }
}

/// Something in a directory.
pub(super) struct DirectoryChild {
    pub name: std::ffi::OsString,
    pub path: PathBuf,
    pub kind: fs::FileType,
}

/// What a directory holds, by name; nothing when it is not there.
pub(super) fn children(folder: &Path) -> Result<Vec<DirectoryChild>, ImportError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let child = |entry: fs::DirEntry| {
        Ok(DirectoryChild { name: entry.file_name(), path: entry.path(), kind: entry.file_type()? })
    };
    let children: std::io::Result<Vec<_>> = entries.map(|entry| child(entry?)).collect();
    let mut children = children.map_err(ImportError::io(folder))?;
    children.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(children)
}
