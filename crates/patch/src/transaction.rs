//! Steps that are prepared first, then performed in order, and undone if one of them fails.
//!
//! Each directory is opened once, without following links, and stays open to the end. Checks, steps and undoing all use
//! these open directories, so replacing one by a link redirects none of them.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use crate::{
    apply::{Durability, StepFailure},
    disk::temporary_name,
    files::{FileEntry, FileIdentity, FilePlace, WriteFiles},
};

/// How many directories one patch may use. Each needs a descriptor until the patch is applied.
const MOST_DIRECTORIES: usize = 256;

/// How many names for a temporary file are tried if a file of that name exists.
const MOST_NAMES: usize = 16;

type TransactionPlace<F> = FilePlace<<F as WriteFiles>::Directory>;

/// The prepared and performed steps of one patch.
pub(crate) struct PatchTransaction<'a, F: WriteFiles> {
    files: &'a F,
    durability: Durability,
    /// The open directories by path.
    directories: BTreeMap<PathBuf, F::Directory>,
    /// The file at each path when it was checked.
    seen: BTreeMap<PathBuf, Option<FileIdentity>>,
    steps: Vec<TransactionStep<F>>,
    /// The steps that undo those performed so far, to be run from last to first.
    undo: Vec<UndoStep<F>>,
    /// Temporary files and backups, which must not outlive the transaction.
    temporary: Vec<TransactionPlace<F>>,
}

enum TransactionStep<F: WriteFiles> {
    Put { temporary: TransactionPlace<F>, written: FileIdentity, place: TransactionPlace<F> },
    Remove { place: TransactionPlace<F> },
}

enum UndoStep<F: WriteFiles> {
    RemoveDirectory(TransactionPlace<F>),
    Remove(TransactionPlace<F>),
    Restore { backup: TransactionPlace<F>, place: TransactionPlace<F> },
}

impl<'a, F: WriteFiles> PatchTransaction<'a, F> {
    pub(crate) fn new(files: &'a F, durability: Durability) -> Self {
        Self {
            files,
            durability,
            directories: BTreeMap::new(),
            seen: BTreeMap::new(),
            steps: Vec::new(),
            undo: Vec::new(),
            temporary: Vec::new(),
        }
    }

    /// Returns the file at a path. The step that changes it fails if another file is there by then.
    pub(crate) fn look(&mut self, path: &Path) -> Result<Option<FileEntry>, StepFailure> {
        if !self.exists(path)? {
            return Ok(None);
        }
        match self.place(path)? {
            Some(place) => attempt(path, self.files.look_at(&place)),
            None => Ok(None),
        }
    }

    /// Returns whether anything is at a path. The step that changes it fails if that has changed by then.
    pub(crate) fn exists(&mut self, path: &Path) -> Result<bool, StepFailure> {
        let found = match self.place(path)? {
            Some(place) => attempt(path, self.files.identity(&place))?,
            None => None,
        };
        self.seen.insert(path.to_owned(), found);
        Ok(found.is_some())
    }

    /// Prepares a file: creates its directories, and writes its content to a temporary file with the mode and owner of
    /// `like`.
    pub(crate) fn write(
        &mut self,
        path: &Path,
        content: &[u8],
        like: Option<&Path>,
    ) -> Result<(), StepFailure> {
        let like = match like {
            Some(like) => Some(self.existing_place(like)?),
            None => None,
        };
        let (parent, name) = split(path)?;
        let directory = self.make_directories(parent)?;
        let place = FilePlace { directory, name, path: path.to_owned() };
        let (temporary, written) =
            self.beside(&place, |files, temporary| files.create(temporary, content, like.as_ref()))?;
        if self.durability == Durability::Synced {
            attempt(path, self.files.sync(&temporary))?;
        }
        self.steps.push(TransactionStep::Put { temporary, written, place });
        Ok(())
    }

    pub(crate) fn remove(&mut self, path: &Path) -> Result<(), StepFailure> {
        let place = self.existing_place(path)?;
        self.steps.push(TransactionStep::Remove { place });
        Ok(())
    }

    /// Performs the steps. On failure the caller rolls back.
    pub(crate) fn commit(&mut self) -> Result<(), StepFailure> {
        let steps = std::mem::take(&mut self.steps);
        for (index, step) in steps.iter().enumerate() {
            // Nothing can fail after the last step, so it need not be undone.
            let is_last = index + 1 == steps.len();
            match step {
                TransactionStep::Put { temporary, written, place } => {
                    self.check_identity(temporary, Some(*written))?;
                    self.perform_put(temporary, place, is_last)?;
                }
                TransactionStep::Remove { place } => self.perform_removal(place, is_last)?,
            }
        }
        if self.durability == Durability::Synced {
            for step in &steps {
                let (TransactionStep::Put { place, .. } | TransactionStep::Remove { place }) = step;
                // The files are in place; a directory that cannot be synced is not a reason to undo that.
                let _ = self.files.sync_directory(&place.directory);
            }
        }
        Ok(())
    }

    /// Undoes the performed steps. Continues after a failure, and returns the first one.
    pub(crate) fn roll_back(&mut self) -> Option<StepFailure> {
        let mut failure = None;
        while let Some(undo) = self.undo.pop() {
            let (place, done) = match &undo {
                UndoStep::RemoveDirectory(place) => {
                    // Temporary files would keep the directory from being empty. Files of other processes stay.
                    self.clean();
                    (place, self.files.remove_directory(place))
                }
                UndoStep::Remove(place) => (place, self.files.remove(place)),
                UndoStep::Restore { backup, place } => (place, self.files.rename(backup, place)),
            };
            if let Err(source) = done {
                failure.get_or_insert(StepFailure { path: place.path.clone(), source });
                self.keep_backup(&undo);
            }
        }
        self.clean();
        failure
    }

    /// Keeps a backup that could not be restored: it is the only copy of the file.
    fn keep_backup(&mut self, undo: &UndoStep<F>) {
        if let UndoStep::Restore { backup, .. } = undo {
            self.temporary.retain(|place| place.path != backup.path);
        }
    }

    /// Removes temporary files and backups.
    pub(crate) fn clean(&mut self) {
        for place in self.temporary.drain(..) {
            // Most have been renamed and do not exist any more.
            let _ = self.files.remove(&place);
        }
    }

    fn perform_put(
        &mut self,
        temporary: &TransactionPlace<F>,
        place: &TransactionPlace<F>,
        is_last: bool,
    ) -> Result<(), StepFailure> {
        let seen = self.check_unchanged(place)?;
        let undo = match seen {
            _ if is_last => None,
            None => Some(UndoStep::Remove(place.clone())),
            Some(_) => {
                let (backup, ()) = self.beside(place, |files, backup| files.duplicate(place, backup))?;
                Some(UndoStep::Restore { backup, place: place.clone() })
            }
        };
        attempt(&place.path, self.files.rename(temporary, place))?;
        self.undo.extend(undo);
        Ok(())
    }

    fn perform_removal(&mut self, place: &TransactionPlace<F>, is_last: bool) -> Result<(), StepFailure> {
        self.check_unchanged(place)?;
        if is_last {
            return attempt(&place.path, self.files.remove(place));
        }
        let (backup, ()) = self.beside(place, |files, backup| files.rename(place, backup))?;
        self.undo.push(UndoStep::Restore { backup, place: place.clone() });
        Ok(())
    }

    /// Checks that the file at a path is the one that was compared with the plan.
    fn check_unchanged(&self, place: &TransactionPlace<F>) -> Result<Option<FileIdentity>, StepFailure> {
        let seen = self.seen.get(&place.path).copied().flatten();
        self.check_identity(place, seen).map(|()| seen)
    }

    fn check_identity(
        &self,
        place: &TransactionPlace<F>,
        expected: Option<FileIdentity>,
    ) -> Result<(), StepFailure> {
        if attempt(&place.path, self.files.identity(place))? == expected {
            return Ok(());
        }
        let source = io::Error::other("another process changed it while the patch was being applied");
        Err(StepFailure { path: place.path.clone(), source })
    }

    /// Opens a directory, and creates it and its parents if they are missing.
    fn make_directories(&mut self, path: &Path) -> Result<F::Directory, StepFailure> {
        let mut missing = Vec::new();
        let mut existing = None;
        for ancestor in path.ancestors() {
            existing = self.open(ancestor)?;
            if existing.is_some() {
                break;
            }
            missing.push(ancestor);
        }
        let not_found = || StepFailure { path: path.to_owned(), source: io::ErrorKind::NotFound.into() };
        let mut directory = existing.ok_or_else(not_found)?;
        for path in missing.into_iter().rev() {
            self.check_room(path)?;
            let place = FilePlace { directory, name: split(path)?.1, path: path.to_owned() };
            directory = attempt(path, self.files.create_directory(&place))?;
            self.undo.push(UndoStep::RemoveDirectory(place));
            self.directories.insert(path.to_owned(), directory.clone());
        }
        Ok(directory)
    }

    fn existing_place(&mut self, path: &Path) -> Result<TransactionPlace<F>, StepFailure> {
        let not_found = || StepFailure { path: path.to_owned(), source: io::ErrorKind::NotFound.into() };
        self.place(path)?.ok_or_else(not_found)
    }

    /// Returns the place of a path, or `None` if its directory does not exist.
    fn place(&mut self, path: &Path) -> Result<Option<TransactionPlace<F>>, StepFailure> {
        let (parent, name) = split(path)?;
        let directory = self.open(parent)?;
        Ok(directory.map(|directory| FilePlace { directory, name, path: path.to_owned() }))
    }

    fn open(&mut self, path: &Path) -> Result<Option<F::Directory>, StepFailure> {
        if let Some(directory) = self.directories.get(path) {
            return Ok(Some(directory.clone()));
        }
        self.check_room(path)?;
        let directory = attempt(path, self.files.open_directory(path))?;
        if let Some(directory) = &directory {
            self.directories.insert(path.to_owned(), directory.clone());
        }
        Ok(directory)
    }

    fn check_room(&self, path: &Path) -> Result<(), StepFailure> {
        if self.directories.len() < MOST_DIRECTORIES {
            return Ok(());
        }
        let limit = format!("a patch changes files in at most {MOST_DIRECTORIES} directories; split it");
        Err(StepFailure { path: path.to_owned(), source: io::Error::other(limit) })
    }

    /// Creates a temporary file in the same directory, so that a rename never crosses file systems.
    fn beside<T>(
        &mut self,
        place: &TransactionPlace<F>,
        make: impl Fn(&F, &TransactionPlace<F>) -> io::Result<T>,
    ) -> Result<(TransactionPlace<F>, T), StepFailure> {
        for _ in 0..MOST_NAMES {
            let name = temporary_name();
            let path = place.path.with_file_name(&name);
            let temporary = FilePlace { directory: place.directory.clone(), name: name.into(), path };
            if attempt(&place.path, self.files.identity(&temporary))?.is_some() {
                continue;
            }
            // Recorded even if creating it fails, because a part may have been written.
            self.temporary.push(temporary.clone());
            let made = attempt(&place.path, make(self.files, &temporary))?;
            return Ok((temporary, made));
        }
        Err(StepFailure { path: place.path.clone(), source: io::ErrorKind::AlreadyExists.into() })
    }
}

fn split(path: &Path) -> Result<(&Path, std::ffi::OsString), StepFailure> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name.to_owned())),
        _ => Err(StepFailure { path: path.to_owned(), source: io::ErrorKind::IsADirectory.into() }),
    }
}

fn attempt<T>(path: &Path, done: io::Result<T>) -> Result<T, StepFailure> {
    done.map_err(|source| StepFailure { path: path.to_owned(), source })
}
