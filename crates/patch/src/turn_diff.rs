//! The diff of a turn: the changes of its patches, in a format that `git apply` accepts.
//!
//! Each file is stored as it was before its first patch and compared with its current state. So changes that cancel each
//! other disappear, and changes that commands make to the same files are included.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use crate::{
    blob::{blob_id, is_binary},
    file_diff::FileDiff,
    files::{FileEntry, FileMode, ReadFiles, is_link_error},
    paths::relative,
    plan::PatchPlan,
};

/// The size of the largest file whose text is stored and shown. Larger ones are only named in a diff.
const LARGEST_SHOWN: usize = 4 * 1024 * 1024;

/// The files that the patches of one turn change.
#[derive(Clone, Debug)]
pub struct TurnDiff {
    root: PathBuf,
    /// The first version of each file by resolved path, `None` if it did not exist.
    before: BTreeMap<PathBuf, Option<FileVersion>>,
    /// The first path of each moved file, by its current path.
    moves: BTreeMap<PathBuf, PathBuf>,
}

impl TurnDiff {
    /// Returns an empty diff with paths relative to `root`: the directory of the repository, or the working directory
    /// outside of one.
    pub fn new(root: &Path) -> Self {
        // Resolved paths have no links, so the root must not have any either.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root, before: BTreeMap::new(), moves: BTreeMap::new() }
    }

    /// Records a plan that has been applied.
    pub fn record(&mut self, plan: &PatchPlan) {
        for from in plan.changes.iter().filter_map(|change| change.from.as_ref()) {
            self.before
                .entry(from.place.clone())
                .or_insert_with(|| Some(FileVersion::new(from.entry.clone())));
        }
        for to in plan.changes.iter().filter_map(|change| change.to.as_ref()) {
            // A replaced file has been recorded above.
            self.before.entry(to.place.clone()).or_insert(None);
        }
        for (from, to) in plan.changes.iter().filter_map(|change| change.moved()) {
            let origin = self.moves.remove(&from.place).unwrap_or_else(|| from.place.clone());
            self.moves.insert(to.place.clone(), origin);
        }
    }

    /// Returns the diff from the beginning of the turn to now, or `None` without a difference.
    pub fn diff(&self, files: &impl ReadFiles) -> io::Result<Option<String>> {
        let now = self.now(files)?;
        let mut sections = BTreeMap::new();
        let mut renamed = BTreeSet::new();
        for (to, from) in &self.moves {
            if let Some(section) = self.rename(from, to, &now) {
                renamed.extend([from, to]);
                sections.insert(relative(&self.root, to), section.to_string());
            }
        }
        for (place, before) in &self.before {
            let after = now.get(place.as_path()).and_then(Option::as_ref);
            if before.as_ref() != after && !renamed.contains(place) {
                let path = relative(&self.root, place);
                let section = FileDiff {
                    from: &path,
                    to: &path,
                    before: before.as_ref(),
                    after,
                    is_plain_rename: false,
                };
                sections.insert(path.clone(), section.to_string());
            }
        }
        let diff: String = sections.into_values().collect();
        Ok((!diff.is_empty()).then_some(diff))
    }

    fn now(&self, files: &impl ReadFiles) -> io::Result<BTreeMap<&Path, Option<FileVersion>>> {
        let look = |place: &PathBuf| match files.look(place) {
            Ok(entry) => Ok(entry.map(FileVersion::new)),
            // Something else has replaced the file.
            Err(error) if is_not_a_file(&error) => Ok(None),
            Err(error) => Err(error),
        };
        self.before.keys().map(|place| Ok((place.as_path(), look(place)?))).collect()
    }

    /// Returns the diff of a move, or `None` if there is a file at the old path or was one at the new path.
    fn rename(&self, from: &Path, to: &Path, now: &BTreeMap<&Path, Option<FileVersion>>) -> Option<String> {
        let (Some(before), None) = (self.before.get(from)?, now.get(from)?) else { return None };
        let (None, Some(after)) = (self.before.get(to)?, now.get(to)?) else { return None };
        if before.mode == FileMode::Link {
            return None;
        }
        let diff = FileDiff {
            from: &relative(&self.root, from),
            to: &relative(&self.root, to),
            before: Some(before),
            after: Some(after),
            is_plain_rename: before.id == after.id,
        };
        Some(diff.to_string())
    }
}

fn is_not_a_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput) || is_link_error(error)
}

/// A file at the beginning or the end of the turn.
#[derive(Clone, Debug)]
pub(crate) struct FileVersion {
    pub(crate) id: String,
    pub(crate) mode: FileMode,
    /// The text, or `None` if the file is binary or too large.
    pub(crate) text: Option<Vec<u8>>,
}

impl FileVersion {
    fn new(entry: FileEntry) -> Self {
        let id = blob_id(&entry.content);
        let is_shown = entry.content.len() <= LARGEST_SHOWN && !is_binary(&entry.content);
        Self { id, mode: entry.mode, text: is_shown.then_some(entry.content) }
    }
}

impl PartialEq for FileVersion {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.mode == other.mode
    }
}
