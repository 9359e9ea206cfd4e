//! Copies skills, which are folders with a `SKILL.md`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    ImportError,
    config_place::{ConfigPlace, read, write},
    instructions::rename_agent,
};

/// Maximum depth of a skill. Mounts could make a folder contain itself.
const MAX_DEPTH: usize = 16;

/// The name of a copy that is not complete. Hidden folders are no skills.
const UNFINISHED: &str = ".importing";

/// Returns the skills that do not exist here yet, with their destinations.
pub(super) fn missing(place: &ConfigPlace) -> Result<Vec<(PathBuf, PathBuf)>, ImportError> {
    let target = place.skills_directory();
    let folders =
        children(&place.agent_directory().join("skills"))?.into_iter().filter(|child| child.kind.is_dir());
    let pairs = folders.map(|child| (child.path, target.join(child.name)));
    Ok(pairs.filter(|(_, to)| fs::symlink_metadata(to).is_err()).collect())
}

pub(super) fn import(place: &ConfigPlace) -> Result<(), ImportError> {
    missing(place)?.into_iter().try_for_each(|(from, to)| copy_skill(&from, &to))
}

/// Copies a skill. If that fails, the skill does not exist here, so the next import copies it again.
fn copy_skill(from: &Path, to: &Path) -> Result<(), ImportError> {
    let unfinished = to.with_file_name(UNFINISHED);
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(ImportError::io(&unfinished)(error));
        }
        _ => copy(from, &unfinished, MAX_DEPTH)?,
    }
    fs::rename(&unfinished, to).map_err(ImportError::io(to))
}

/// Copies a folder without its symbolic links, whose targets may be outside, and differ from the new place.
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
        Some(text) => write(to, &rename_agent(&text)),
        None => fs::copy(from, to).map(drop).map_err(ImportError::io(from)),
    }
}

/// An entry of a directory.
pub(super) struct DirectoryChild {
    pub name: std::ffi::OsString,
    pub path: PathBuf,
    pub kind: fs::FileType,
}

/// Returns the entries of a directory sorted by name; none if it cannot be read.
pub(super) fn children(folder: &Path) -> Result<Vec<DirectoryChild>, ImportError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let child = |entry: fs::DirEntry| {
        Ok(DirectoryChild { name: entry.file_name(), path: entry.path(), kind: entry.file_type()? })
    };
    let children: io::Result<Vec<_>> = entries.map(|entry| child(entry?)).collect();
    let mut children = children.map_err(ImportError::io(folder))?;
    children.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(children)
}
