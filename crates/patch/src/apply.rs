//! Applying a plan: all of it or nothing.
//!
//! Everything that can fail is done first, beside the files: directories are made, new contents written to
//! temporary files. Only then do files change, each by one rename, and a failure in between takes back those
//! before it. A reader sees each file as it was or as it will be, never a part.

use std::{collections::BTreeSet, io, path::PathBuf};

use thiserror::Error;

use crate::{
    files::{Follow, WriteFiles},
    plan::{Plan, Side},
    transaction::Transaction,
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
    #[error("cannot change `{}`: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The one case in which something may be left half done.
    #[error("cannot change `{}`: {source}; and cannot restore `{}`: {undo}", path.display(), stuck.display())]
    NotRestored { path: PathBuf, source: io::Error, stuck: PathBuf, undo: io::Error },
}

/// Makes the changes of a plan. The files must be as they were when it was made.
pub fn apply(plan: &Plan, files: &impl WriteFiles, durability: Durability) -> Result<(), ApplyError> {
    check(plan, files)?;
    let mut transaction = Transaction::new(files, durability);
    let done = stage(plan, &mut transaction).and_then(|()| transaction.commit());
    match done {
        Ok(()) => {
            transaction.clean();
            Ok(())
        }
        Err(Failure { path, source }) => match transaction.roll_back() {
            None => Err(ApplyError::Io { path, source }),
            Some(Failure { path: stuck, source: undo }) => {
                Err(ApplyError::NotRestored { path, source, stuck, undo })
            }
        },
    }
}

/// A step that did not work, and on what.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) path: PathBuf,
    pub(crate) source: io::Error,
}

/// Between planning and applying a person may have thought for an hour.
fn check(plan: &Plan, files: &impl WriteFiles) -> Result<(), ApplyError> {
    let emptied: BTreeSet<_> =
        plan.changes.iter().flat_map(|change| &change.from).map(|s| &s.place).collect();
    for side in plan.changes.iter().flat_map(|change| &change.from) {
        let now = files.look(&side.place).map_err(|source| failed(side, source))?;
        if now.as_ref() != Some(&side.entry) || moved_away(side, files) {
            return Err(ApplyError::Changed(side.given.clone()));
        }
    }
    for side in plan.changes.iter().flat_map(|change| &change.to) {
        let is_new = !emptied.contains(&side.place);
        if is_new && files.exists(&side.place).map_err(|source| failed(side, source))? {
            return Err(ApplyError::Changed(side.given.clone()));
        }
        if moved_away(side, files) {
            return Err(ApplyError::Changed(side.given.clone()));
        }
    }
    Ok(())
}

/// Whether a link on the way has been changed, so that the path no longer leads to the place agreed to.
fn moved_away(side: &Side, files: &impl WriteFiles) -> bool {
    let leads_there = |follow| files.resolve(&side.path, follow).is_ok_and(|place| place == side.place);
    !leads_there(Follow::Nothing) && !leads_there(Follow::Links)
}

fn failed(side: &Side, source: io::Error) -> ApplyError {
    ApplyError::Io { path: side.path.clone(), source }
}

fn stage(plan: &Plan, transaction: &mut Transaction<'_, impl WriteFiles>) -> Result<(), Failure> {
    let written: BTreeSet<_> = plan.changes.iter().flat_map(|change| &change.to).map(|s| &s.place).collect();
    for change in &plan.changes {
        let Some(to) = &change.to else { continue };
        let is_same =
            change.from.as_ref().is_some_and(|from| from.place == to.place && from.entry == to.entry);
        if !is_same {
            let like = change.from.as_ref().map(|from| from.place.as_path());
            transaction.write(&to.place, &to.entry.content, like)?;
        }
    }
    // After the writes, so that a moved file is in its new place before it leaves the old one.
    let removed = plan.changes.iter().filter_map(|change| change.from.as_ref());
    for from in removed.filter(|from| !written.contains(&from.place)) {
        transaction.remove(&from.place);
    }
    Ok(())
}
