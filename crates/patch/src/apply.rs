//! Applying a plan: all of it or nothing.
//!
//! Everything that can fail is done first, beside the files: directories are made, new contents written to
//! temporary files. Only then do files change, each by one rename, and a failure in between takes back those
//! before it. A reader sees each file as it was or as it will be, never a part.
//!
//! Places are free of links when the plan is made, and a policy agrees to these places. A link that appears
//! on the way to one of them afterwards makes the patch fail; it is never followed.

use std::{collections::BTreeSet, io, path::PathBuf};

use thiserror::Error;

use crate::{
    files::{FileMode, FollowLinks, WriteFiles, is_link_error},
    plan::{ChangeSide, PatchPlan},
    transaction::PatchTransaction,
};

/// How long to wait for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The system writes when it likes.
    #[default]
    Cached,
    /// The changes survive a power cut once [`apply`] has returned.
    Synced,
}

/// Why the files are as they were before.
#[derive(Debug, Error)]
pub enum ApplyError {
    #[error("`{0}` changed since the patch was read; read it again and make a new patch")]
    Changed(String),
    #[error(
        "cannot change `{}`: a symbolic link has appeared on its path since the patch was read; read the file again and make a new patch",
        .0.display()
    )]
    LinkOnPath(PathBuf),
    #[error("cannot change `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The one case in which something may be left half done.
    #[error("cannot change `{}`: {source}; and cannot restore `{}`: {undo}", path.display(), stuck.display())]
    NotRestored { path: PathBuf, source: io::Error, stuck: PathBuf, undo: io::Error },
}

/// Makes the changes of a plan. The files must be as they were when it was made.
pub fn apply(plan: &PatchPlan, files: &impl WriteFiles, durability: Durability) -> Result<(), ApplyError> {
    let mut transaction = PatchTransaction::new(files, durability);
    check(plan, files, &mut transaction)?;
    let done = stage(plan, files, &mut transaction).and_then(|()| transaction.commit());
    match done {
        Ok(()) => {
            transaction.clean();
            Ok(())
        }
        Err(failure) => match transaction.roll_back() {
            None => Err(failure.into()),
            Some(StepFailure { path: stuck, source: undo }) => {
                let StepFailure { path, source } = failure;
                Err(ApplyError::NotRestored { path, source, stuck, undo })
            }
        },
    }
}

/// A step that did not work, and on what.
#[derive(Debug)]
pub(crate) struct StepFailure {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

impl From<StepFailure> for ApplyError {
    fn from(StepFailure { path, source }: StepFailure) -> Self {
        if is_link_error(&source) { Self::LinkOnPath(path) } else { Self::Io { path, source } }
    }
}

/// Between planning and applying a person may have thought for an hour.
fn check<F: WriteFiles>(
    plan: &PatchPlan,
    files: &F,
    transaction: &mut PatchTransaction<'_, F>,
) -> Result<(), ApplyError> {
    let emptied: BTreeSet<_> =
        plan.changes.iter().flat_map(|change| &change.from).map(|s| &s.place).collect();
    for side in plan.changes.iter().flat_map(|change| &change.from) {
        let now = transaction.look(&side.place)?;
        if now.as_ref() != Some(&side.entry) || moved_away(side, files) {
            return Err(ApplyError::Changed(side.given.clone()));
        }
    }
    for side in plan.changes.iter().flat_map(|change| &change.to) {
        let is_new = !emptied.contains(&side.place);
        if (is_new && transaction.see(&side.place)?) || moved_away(side, files) {
            return Err(ApplyError::Changed(side.given.clone()));
        }
    }
    Ok(())
}

/// Whether a link on the way has been changed, so that the path no longer leads to the place agreed to.
fn moved_away(side: &ChangeSide, files: &impl WriteFiles) -> bool {
    let leads_there = |follow| files.resolve(&side.path, follow).is_ok_and(|place| place == side.place);
    !leads_there(FollowLinks::Nothing) && !leads_there(FollowLinks::Links)
}

fn stage<F: WriteFiles>(
    plan: &PatchPlan,
    files: &F,
    transaction: &mut PatchTransaction<'_, F>,
) -> Result<(), StepFailure> {
    let written: BTreeSet<_> = plan.changes.iter().flat_map(|change| &change.to).map(|s| &s.place).collect();
    for change in &plan.changes {
        let Some(to) = &change.to else { continue };
        let is_same =
            change.from.as_ref().is_some_and(|from| from.place == to.place && from.entry == to.entry);
        if !is_same {
            let like = change.from.as_ref().map(|from| model(from, files)).transpose()?;
            transaction.write(&to.place, &to.entry.content, like.as_deref())?;
        }
    }
    // After the writes, so that a moved file is in its new place before it leaves the old one.
    let removed = plan.changes.iter().filter_map(|change| change.from.as_ref());
    for from in removed.filter(|from| !written.contains(&from.place)) {
        transaction.remove(&from.place)?;
    }
    Ok(())
}

/// The file whose mode and owner a changed file gets. For a link it is the one that the link leads to: a
/// moved link becomes a file with that content.
fn model(from: &ChangeSide, files: &impl WriteFiles) -> Result<PathBuf, StepFailure> {
    if from.entry.mode != FileMode::Link {
        return Ok(from.place.clone());
    }
    let followed = files.resolve(&from.place, FollowLinks::Links);
    followed.map_err(|source| StepFailure { path: from.path.clone(), source })
}
