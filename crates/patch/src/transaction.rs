//! Steps that are prepared first, then taken in order, and taken back if one of them fails.

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    apply::{Durability, Failure},
    files::WriteFiles,
};

pub(crate) struct Transaction<'a, F> {
    files: &'a F,
    durability: Durability,
    steps: Vec<Step>,
    /// What takes back the steps taken so far, the last one first.
    undo: Vec<Undo>,
    /// Names of ours that must not outlive the transaction.
    temporary: Vec<PathBuf>,
}

enum Step {
    Put { temporary: PathBuf, place: PathBuf },
    Remove { place: PathBuf },
}

enum Undo {
    RemoveDirectory(PathBuf),
    Remove(PathBuf),
    Restore { backup: PathBuf, place: PathBuf },
}

impl<'a, F: WriteFiles> Transaction<'a, F> {
    pub(crate) fn new(files: &'a F, durability: Durability) -> Self {
        Self { files, durability, steps: Vec::new(), undo: Vec::new(), temporary: Vec::new() }
    }

    /// Prepares a file: its directories exist and its content is on the disk, under another name.
    pub(crate) fn write(&mut self, place: &Path, content: &[u8], like: Option<&Path>) -> Result<(), Failure> {
        self.make_directories(place)?;
        let temporary = self.beside(place, |files, path| files.create(path, content, like))?;
        if self.durability == Durability::Synced {
            self.attempt(&temporary, self.files.sync(&temporary))?;
        }
        self.steps.push(Step::Put { temporary, place: place.to_owned() });
        Ok(())
    }

    pub(crate) fn remove(&mut self, place: &Path) {
        self.steps.push(Step::Remove { place: place.to_owned() });
    }

    /// Takes the steps. On failure the caller rolls back.
    pub(crate) fn commit(&mut self) -> Result<(), Failure> {
        let steps = std::mem::take(&mut self.steps);
        for (index, step) in steps.iter().enumerate() {
            // Nothing can fail after the last step, so it need not be taken back.
            let is_last = index + 1 == steps.len();
            match step {
                Step::Put { temporary, place } => self.put(temporary, place, is_last)?,
                Step::Remove { place } => self.take_away(place, is_last)?,
            }
        }
        if self.durability == Durability::Synced {
            for step in &steps {
                let (Step::Put { place, .. } | Step::Remove { place }) = step;
                // The files are in place; a directory that cannot be synced is no reason to undo that.
                let _ = place.parent().map(|directory| self.files.sync(directory));
            }
        }
        Ok(())
    }

    /// Takes back what was done. Goes on after a failure, and returns the first one.
    pub(crate) fn roll_back(&mut self) -> Option<Failure> {
        let mut failure = None;
        while let Some(undo) = self.undo.pop() {
            let (path, done) = match &undo {
                Undo::RemoveDirectory(path) => {
                    // Our own leftovers would keep it from being empty; others' files are theirs.
                    self.clean();
                    (path, self.files.remove_directory(path))
                }
                Undo::Remove(path) => (path, self.files.remove(path)),
                Undo::Restore { backup, place } => (place, self.files.rename(backup, place)),
            };
            if let Err(source) = done {
                failure.get_or_insert(Failure { path: path.clone(), source });
                self.keep_backup(&undo);
            }
        }
        self.clean();
        failure
    }

    /// A backup that could not be put back is all that is left of the file.
    fn keep_backup(&mut self, undo: &Undo) {
        if let Undo::Restore { backup, .. } = undo {
            self.temporary.retain(|path| path != backup);
        }
    }

    /// Removes temporary files and backups.
    pub(crate) fn clean(&mut self) {
        for path in self.temporary.drain(..) {
            // Most have been renamed into place, and are not there any more.
            let _ = self.files.remove(&path);
        }
    }

    fn put(&mut self, temporary: &Path, place: &Path, is_last: bool) -> Result<(), Failure> {
        let exists = self.attempt(place, self.files.exists(place))?;
        let undo = match (is_last, exists) {
            (true, _) => None,
            (false, false) => Some(Undo::Remove(place.to_owned())),
            (false, true) => {
                let backup = self.beside(place, |files, path| files.duplicate(place, path))?;
                Some(Undo::Restore { backup, place: place.to_owned() })
            }
        };
        self.attempt(place, self.files.rename(temporary, place))?;
        self.undo.extend(undo);
        Ok(())
    }

    fn take_away(&mut self, place: &Path, is_last: bool) -> Result<(), Failure> {
        if is_last {
            return self.attempt(place, self.files.remove(place));
        }
        let backup = self.beside(place, |files, path| files.rename(place, path))?;
        self.undo.push(Undo::Restore { backup, place: place.to_owned() });
        Ok(())
    }

    fn make_directories(&mut self, place: &Path) -> Result<(), Failure> {
        let mut missing = Vec::new();
        for directory in place.ancestors().skip(1) {
            if self.attempt(directory, self.files.exists(directory))? {
                break;
            }
            missing.push(directory.to_owned());
        }
        for directory in missing.into_iter().rev() {
            self.attempt(&directory, self.files.create_directory(&directory))?;
            self.undo.push(Undo::RemoveDirectory(directory));
        }
        Ok(())
    }

    /// Makes a file with a name of ours in the same directory, so that a rename can never cross file systems.
    fn beside(
        &mut self,
        place: &Path,
        make: impl Fn(&F, &Path) -> io::Result<()>,
    ) -> Result<PathBuf, Failure> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = place.with_file_name(format!(".codicil-{}-{number}.tmp", std::process::id()));
            // Left behind by a process of the same number that was killed.
            if self.files.exists(&path).is_ok_and(|exists| exists) {
                continue;
            }
            // Also when making it fails: it may have been half written.
            self.temporary.push(path.clone());
            return self.attempt(place, make(self.files, &path)).map(|()| path);
        }
    }

    fn attempt<T>(&self, path: &Path, done: io::Result<T>) -> Result<T, Failure> {
        done.map_err(|source| Failure { path: path.to_owned(), source })
    }
}
