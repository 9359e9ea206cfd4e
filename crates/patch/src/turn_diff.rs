//! The sum of a turn: what its patches made of the files, as one diff that `git apply` understands.
//!
//! A file is remembered as it was when first touched and compared with what is there now, so changes that
//! cancel each other disappear, and changes that commands make to the same files are included.

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

/// Larger files are named in a diff and not shown; nor are they kept.
const LARGEST_SHOWN: usize = 4 * 1024 * 1024;

/// Collects what the patches of one turn touch.
#[derive(Clone, Debug)]
pub struct TurnDiff {
    root: PathBuf,
    /// By place; `None` for what did not exist.
    before: BTreeMap<PathBuf, Option<FileVersion>>,
    /// From the place a file has now to the one it had at first.
    moves: BTreeMap<PathBuf, PathBuf>,
}

impl TurnDiff {
    /// Paths will be shown relative to `root`: the repository's directory, or the working directory outside
    /// of one.
    pub fn new(root: &Path) -> Self {
        // Places are free of links, so the root has to be as well.
        let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
        Self { root, before: BTreeMap::new(), moves: BTreeMap::new() }
    }

    /// Takes note of a plan that has been applied.
    pub fn record(&mut self, plan: &PatchPlan) {
        for from in plan.changes.iter().filter_map(|change| change.from.as_ref()) {
            self.before
                .entry(from.place.clone())
                .or_insert_with(|| Some(FileVersion::new(from.entry.clone())));
        }
        for to in plan.changes.iter().filter_map(|change| change.to.as_ref()) {
            // A file that is replaced has been seen as the beginning of a change above.
            self.before.entry(to.place.clone()).or_insert(None);
        }
        for (from, to) in plan.changes.iter().filter_map(|change| change.moved()) {
            let origin = self.moves.remove(&from.place).unwrap_or_else(|| from.place.clone());
            self.moves.insert(to.place.clone(), origin);
        }
    }

    /// The diff from the beginning of the turn to now; `None` when there is nothing to tell.
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
            // Whatever has taken the file's place, the file is gone.
            Err(error) if is_not_a_file(&error) => Ok(None),
            Err(error) => Err(error),
        };
        self.before.keys().map(|place| Ok((place.as_path(), look(place)?))).collect()
    }

    /// A move is shown as one when nothing else came of either end.
    fn rename(&self, from: &Path, to: &Path, now: &BTreeMap<&Path, Option<FileVersion>>) -> Option<String> {
        let (Some(before), None) = (self.before.get(from)?, now.get(from)?) else { return None };
        let (None, Some(after)) = (self.before.get(to)?, now.get(to)?) else { return None };
        let (from, to) = (relative(&self.root, from), relative(&self.root, to));
        (before.mode != FileMode::Link).then(|| {
            let is_plain_rename = before.id == after.id;
            let (before, after) = (Some(before), Some(after));
            FileDiff { from: &from, to: &to, before, after, is_plain_rename }.to_string()
        })
    }
}

fn is_not_a_file(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput) || is_link_error(error)
}

/// A file at one end of the turn.
#[derive(Clone, Debug)]
pub(crate) struct FileVersion {
    pub(crate) id: String,
    pub(crate) mode: FileMode,
    /// `None` when it is not text, or too much of it.
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
