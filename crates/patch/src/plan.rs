//! The plan of a patch: all changes to the files, determined before any file is changed.

use std::path::{Path, PathBuf};

use crate::{
    error::PlanError,
    files::{FileEntry, ReadFiles},
    operation::Patch,
    planner,
};

/// The changes of one patch, one per file. Operations on the same file are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchPlan {
    pub changes: Vec<PlannedChange>,
}

impl PatchPlan {
    /// Reads the files that the patch names, relative to `cwd`, and matches the patch to them.
    pub fn new(patch: &Patch, cwd: &Path, files: &impl ReadFiles) -> Result<Self, PlanError> {
        Ok(Self { changes: planner::changes(patch, cwd, files)? })
    }

    /// Returns every path that will be written or removed, with symbolic links followed: what a policy must allow.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        self.changes.iter().flat_map(PlannedChange::sides).map(|side| side.place.as_path())
    }

    /// Returns the tool's result for the model: new, modified and deleted files, by their names in the patch.
    pub fn summary(&self) -> String {
        let changes: Vec<_> = self.changes.iter().filter_map(PlannedChange::summary).collect();
        let mut text = "Success. Updated the following files:\n".to_owned();
        // The files of one kind stay in the order of the patch.
        for kind in ['A', 'M', 'D'] {
            for (_, path) in changes.iter().filter(|(letter, _)| *letter == kind) {
                text.push_str(&format!("{kind} {path}\n"));
            }
        }
        text
    }
}

/// A file before and after the patch: without `from` it is new, without `to` it is deleted, with different paths it moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange {
    pub from: Option<ChangeSide>,
    pub to: Option<ChangeSide>,
}

impl PlannedChange {
    /// Returns both sides if the file moves.
    pub fn moved(&self) -> Option<(&ChangeSide, &ChangeSide)> {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) if from.place != to.place => Some((from, to)),
            _ => None,
        }
    }

    pub(crate) fn sides(&self) -> impl Iterator<Item = &ChangeSide> {
        self.from.iter().chain(&self.to)
    }

    /// Returns the letter of the change in a summary, and the name of the file in the patch.
    fn summary(&self) -> Option<(char, &str)> {
        match (&self.from, &self.to) {
            (None, Some(to)) => Some(('A', &to.given)),
            (Some(_), Some(to)) => Some(('M', &to.given)),
            (Some(from), None) => Some(('D', &from.given)),
            (None, None) => None,
        }
    }
}

/// A file before or after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSide {
    /// The path as in the patch.
    pub given: String,
    /// The absolute path, with symbolic links not followed.
    pub path: PathBuf,
    /// The path with symbolic links followed.
    pub place: PathBuf,
    pub entry: FileEntry,
}
