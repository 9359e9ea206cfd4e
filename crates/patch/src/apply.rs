//! Applies a plan, all of it or nothing.
//!
//! Everything that can fail is done first: directories are created, and new contents are written to temporary files. Only
//! then do files change, each by one rename; if one fails, the earlier ones are undone. A reader sees each file either
//! unchanged or completely changed.
//!
//! The paths of a plan have no symbolic links, and the policy has allowed these paths. A link that is created in one of them
//! afterwards makes the patch fail; it is never followed.

use std::{collections::BTreeSet, io, path::PathBuf};

use thiserror::Error;

use crate::{
    files::{FileMode, FollowLinks, WriteFiles, is_link_error},
    plan::{ChangeSide, PatchPlan},
    transaction::PatchTransaction,
};

/// Whether to wait for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The system writes the changes later.
    #[default]
    Cached,
    /// The changes survive a power failure once [`apply`] has returned.
    Synced,
}

/// Why a plan was not applied. The files are unchanged, except after [`ApplyError::NotRestored`].
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
    /// A step and its undoing failed, so that some changes may remain.
    #[error("cannot change `{}`: {source}; and cannot restore `{}`: {undo}", path.display(), stuck.display())]
    NotRestored { path: PathBuf, source: io::Error, stuck: PathBuf, undo: io::Error },
}

/// Applies the changes of a plan. Fails if the files have changed since it was created.
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

/// A failed step and the path it was for.
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

/// Checks that the files have not changed since planning, which may be an hour ago if the user was asked.
fn check<F: WriteFiles>(
    plan: &PatchPlan,
    files: &F,
    transaction: &mut PatchTransaction<'_, F>,
) -> Result<(), ApplyError> {
    let emptied: BTreeSet<_> =
        plan.changes.iter().flat_map(|change| &change.from).map(|side| &side.place).collect();
    for side in plan.changes.iter().flat_map(|change| &change.from) {
        let now = transaction.look(&side.place)?;
        if now.as_ref() != Some(&side.entry) || leads_elsewhere(side, files) {
            return Err(ApplyError::Changed(side.given.clone()));
        }
    }
    for side in plan.changes.iter().flat_map(|change| &change.to) {
        let is_new = !emptied.contains(&side.place);
        if (is_new && transaction.exists(&side.place)?) || leads_elsewhere(side, files) {
            return Err(ApplyError::Changed(side.given.clone()));
        }
    }
    Ok(())
}

/// Returns whether a link in the path was changed, so that it no longer leads to the allowed place.
fn leads_elsewhere(side: &ChangeSide, files: &impl WriteFiles) -> bool {
    let leads_there = |follow| files.resolve(&side.path, follow).is_ok_and(|place| place == side.place);
    !leads_there(FollowLinks::Nothing) && !leads_there(FollowLinks::Links)
}

fn stage<F: WriteFiles>(
    plan: &PatchPlan,
    files: &F,
    transaction: &mut PatchTransaction<'_, F>,
) -> Result<(), StepFailure> {
    let written: BTreeSet<_> =
        plan.changes.iter().flat_map(|change| &change.to).map(|side| &side.place).collect();
    for change in &plan.changes {
        let Some(to) = &change.to else { continue };
        let is_same =
            change.from.as_ref().is_some_and(|from| from.place == to.place && from.entry == to.entry);
        if !is_same {
            let like = change.from.as_ref().map(|from| attribute_source(from, files)).transpose()?;
            transaction.write(&to.place, &to.entry.content, like.as_deref())?;
        }
    }
    // After the writes, so that a moved file exists at its new path before the old one is removed.
    let removed = plan.changes.iter().filter_map(|change| change.from.as_ref());
    for from in removed.filter(|from| !written.contains(&from.place)) {
        transaction.remove(&from.place)?;
    }
    Ok(())
}

/// Returns the file whose mode and owner a changed file gets. For a link it is the link's target, because a moved link
/// becomes a file with the target's content.
fn attribute_source(from: &ChangeSide, files: &impl WriteFiles) -> Result<PathBuf, StepFailure> {
    if from.entry.mode != FileMode::Link {
        return Ok(from.place.clone());
    }
    let followed = files.resolve(&from.place, FollowLinks::Links);
    followed.map_err(|source| StepFailure { path: from.path.clone(), source })
}
