//! Applies the operations of a patch in order to a model of the files, so that a later one sees the effects of an earlier
//! one.

use std::{
    cell::Cell,
    io,
    path::{Path, PathBuf},
};

use crate::{
    error::PlanError,
    files::{FileEntry, FileMode, FollowLinks, ReadFiles, is_link_error},
    operation::{Patch, PatchOperation, PatchSection},
    paths::absolute,
    plan::{ChangeSide, PlannedChange},
    rewrite::rewrite,
    work::{LARGEST_PLAN, MOST_LINES, WorkBudget},
};

pub(crate) fn changes(
    patch: &Patch,
    cwd: &Path,
    files: &impl ReadFiles,
) -> Result<Vec<PlannedChange>, PlanError> {
    let mut planner =
        PatchPlanner { cwd, files, changes: Vec::new(), bytes_read: Cell::new(0), work: WorkBudget::new() };
    for operation in &patch.operations {
        match operation {
            PatchOperation::Add { path, content } => planner.add(path, content)?,
            PatchOperation::Delete { path } => planner.delete(path)?,
            PatchOperation::Update { path, move_to, sections } => {
                planner.update(path, move_to.as_deref(), sections)?;
            }
        }
    }
    Ok(planner.changes)
}

struct PatchPlanner<'a, F> {
    cwd: &'a Path,
    files: &'a F,
    changes: Vec<PlannedChange>,
    /// The size of all files read so far.
    bytes_read: Cell<u64>,
    work: WorkBudget,
}

/// The file at a path after the operations so far.
enum FoundFile {
    /// The result of the change with this index.
    Planned(usize),
    /// The patch has removed or moved it.
    Gone,
    OnDisk(FileEntry),
    /// There is no file.
    Missing,
}

impl<F: ReadFiles> PatchPlanner<'_, F> {
    /// Adds a file. If it exists, the change is an update, so that an approval shows what is replaced.
    fn add(&mut self, given: &str, content: &str) -> Result<(), PlanError> {
        let side = ChangeSide { entry: FileEntry::regular(content), ..self.written(given)? };
        match self.find(&side)? {
            FoundFile::Planned(index) => {
                if let Some(to) = self.planned(index) {
                    to.entry.content = side.entry.content;
                }
            }
            FoundFile::OnDisk(entry) => {
                let to = ChangeSide {
                    entry: FileEntry { mode: entry.mode, ..side.entry.clone() },
                    ..side.clone()
                };
                self.changes.push(PlannedChange { from: Some(ChangeSide { entry, ..side }), to: Some(to) });
            }
            FoundFile::Gone => self.add_again(side),
            FoundFile::Missing => self.changes.push(PlannedChange { from: None, to: Some(side) }),
        }
        Ok(())
    }

    /// Adds a file at a path that the patch has cleared. If it deleted the file, the change becomes an update; if it moved
    /// the file, this is a new one.
    fn add_again(&mut self, side: ChangeSide) {
        let deleted = self.changes.iter_mut().find(|change| {
            change.to.is_none() && change.from.as_ref().is_some_and(|from| from.place == side.place)
        });
        match deleted {
            Some(change) => {
                let mode = change.from.as_ref().map(|from| from.entry.mode);
                let mode = mode.filter(|mode| *mode != FileMode::Link).unwrap_or(side.entry.mode);
                change.to = Some(ChangeSide { entry: FileEntry { mode, ..side.entry }, ..side });
            }
            None => self.changes.push(PlannedChange { from: None, to: Some(side) }),
        }
    }

    fn delete(&mut self, given: &str) -> Result<(), PlanError> {
        let side = self.side(given, FollowLinks::Nothing)?;
        match self.find(&side)? {
            FoundFile::Planned(index) => {
                if let Some(change) = self.changes.get_mut(index) {
                    change.to = None;
                }
                // A file that the patch itself has created leaves no change.
                self.changes.retain(|change| change.from.is_some() || change.to.is_some());
            }
            FoundFile::OnDisk(entry) => {
                self.changes.push(PlannedChange { from: Some(ChangeSide { entry, ..side }), to: None });
            }
            FoundFile::Gone | FoundFile::Missing => return Err(PlanError::Missing(given.to_owned())),
        }
        Ok(())
    }

    fn update(
        &mut self,
        given: &str,
        move_to: Option<&str>,
        sections: &[PatchSection],
    ) -> Result<(), PlanError> {
        let side = self.written(given)?;
        let index = match self.find(&side)? {
            FoundFile::Planned(index) => index,
            FoundFile::OnDisk(entry) => {
                let from = ChangeSide { entry, ..side };
                self.changes.push(PlannedChange { from: Some(from.clone()), to: Some(from) });
                self.changes.len() - 1
            }
            FoundFile::Gone | FoundFile::Missing => return Err(PlanError::Missing(given.to_owned())),
        };
        if let Some(to) = self.changes.get_mut(index).and_then(|change| change.to.as_mut()) {
            to.entry.content = rewrite(given, &to.entry.content, sections, &self.work)?;
        }
        match move_to {
            Some(target) => self.move_file(index, given, target),
            None => Ok(()),
        }
    }

    fn move_file(&mut self, index: usize, given: &str, target: &str) -> Result<(), PlanError> {
        let target = self.side(target, FollowLinks::Nothing)?;
        let is_free = match self.find(&target)? {
            // The target is the file itself, perhaps by another name: it does not move.
            FoundFile::Planned(other) if other == index => return Ok(()),
            FoundFile::Gone => true,
            FoundFile::Missing => !self.exists(&target)?,
            FoundFile::Planned(_) | FoundFile::OnDisk(_) => false,
        };
        if !is_free {
            return Err(PlanError::Occupied { from: given.to_owned(), to: target.given });
        }
        self.replace_target_by_link(index, given)?;
        if let Some(to) = self.planned(index) {
            *to = ChangeSide { entry: to.entry.clone(), ..target };
        }
        Ok(())
    }

    /// Makes a change apply to a link instead of its target, because moving a link does not change its target.
    fn replace_target_by_link(&mut self, index: usize, given: &str) -> Result<(), PlanError> {
        let link = self.side(given, FollowLinks::Nothing)?;
        let is_followed = |from: &ChangeSide| from.path == link.path && from.place != link.place;
        let from = self.changes.get(index).and_then(|change| change.from.as_ref());
        if from.is_some_and(is_followed)
            && let Some(entry) = self.look(&link)?
            && let Some(change) = self.changes.get_mut(index)
        {
            change.from = Some(ChangeSide { entry, ..link });
        }
        Ok(())
    }

    fn planned(&mut self, index: usize) -> Option<&mut ChangeSide> {
        self.changes.get_mut(index)?.to.as_mut()
    }

    fn find(&self, side: &ChangeSide) -> Result<FoundFile, PlanError> {
        if let Some(found) = self.find_planned(side) {
            return Ok(found);
        }
        Ok(self.look(side)?.map_or(FoundFile::Missing, FoundFile::OnDisk))
    }

    fn look(&self, side: &ChangeSide) -> Result<Option<FileEntry>, PlanError> {
        let found = self.files.look(&side.place).map_err(|error| refuse_place(error, side))?;
        let content = found.as_ref().map_or(&[][..], |entry| &entry.content);
        if content.len() > MOST_LINES && content.iter().filter(|&&byte| byte == b'\n').count() > MOST_LINES {
            return Err(PlanError::TooLarge(side.given.clone()));
        }
        self.bytes_read.set(self.bytes_read.get() + content.len() as u64);
        if self.bytes_read.get() > LARGEST_PLAN {
            return Err(PlanError::TooMuchContent);
        }
        Ok(found)
    }

    fn find_planned(&self, side: &ChangeSide) -> Option<FoundFile> {
        // Resolved paths have one spelling each, and comparing their bytes is much faster than their components.
        let place = side.place.as_os_str();
        let is_here =
            |end: &Option<ChangeSide>| end.as_ref().is_some_and(|end| end.place.as_os_str() == place);
        if let Some(index) = self.changes.iter().position(|change| is_here(&change.to)) {
            return Some(FoundFile::Planned(index));
        }
        self.changes.iter().any(|change| is_here(&change.from)).then_some(FoundFile::Gone)
    }

    fn exists(&self, side: &ChangeSide) -> Result<bool, PlanError> {
        self.files.exists(&side.place).map_err(|error| refuse_place(error, side))
    }

    /// Returns the file that writing to a path changes: the target of a link, unless the patch has removed the link.
    fn written(&self, given: &str) -> Result<ChangeSide, PlanError> {
        let side = self.side(given, FollowLinks::Nothing)?;
        if self.find_planned(&side).is_some() { Ok(side) } else { self.side(given, FollowLinks::Links) }
    }

    fn side(&self, given: &str, follow: FollowLinks) -> Result<ChangeSide, PlanError> {
        let path = absolute(self.cwd, given);
        let side = ChangeSide {
            given: given.to_owned(),
            path,
            place: PathBuf::new(),
            entry: FileEntry::regular(""),
        };
        let place = self.files.resolve(&side.path, follow).map_err(|error| refuse(error, &side))?;
        Ok(ChangeSide { place, ..side })
    }
}

/// Converts the error for a resolved path, which had no links when it was resolved.
fn refuse_place(source: io::Error, side: &ChangeSide) -> PlanError {
    if is_link_error(&source) { PlanError::LinkOnPath(side.given.clone()) } else { refuse(source, side) }
}

fn refuse(source: io::Error, side: &ChangeSide) -> PlanError {
    let given = side.given.clone();
    match source.kind() {
        io::ErrorKind::IsADirectory => PlanError::Directory(given),
        io::ErrorKind::InvalidInput => PlanError::Special(given),
        io::ErrorKind::FileTooLarge => PlanError::TooLarge(given),
        _ => PlanError::Io { path: side.path.clone(), source },
    }
}
