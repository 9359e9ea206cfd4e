//! The directories that the system watches, and the watches that need them.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    sync::Arc,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};

use super::{
    WatchError,
    mailbox::WatchMailbox,
    watch_plan::{DirectoryId, WatchPlan, WatchedDirectory},
};

/// All watched directories. No resource of the system is held while there are none.
pub(super) struct WatchedFolders {
    mailbox: Arc<WatchMailbox>,
    system: Option<RecommendedWatcher>,
    folders: HashMap<DirectoryId, WatchedFolder>,
    /// The directories by path, because the system's reports have paths.
    by_path: HashMap<PathBuf, DirectoryId>,
    /// Directories that were found to be replaced by others.
    stale: Vec<LostFolder>,
}

/// A directory that is no longer watched, and the watches that need another plan.
pub(super) struct LostFolder {
    pub place: DirectoryId,
    pub users: Vec<u64>,
}

/// A directory and the watches that need it. A watch may be listed more than once.
struct WatchedFolder {
    path: PathBuf,
    entries: HashMap<OsString, Vec<u64>>,
    whole: Vec<u64>,
}

impl WatchedFolders {
    pub fn new(mailbox: Arc<WatchMailbox>) -> Self {
        Self { mailbox, system: None, folders: HashMap::new(), by_path: HashMap::new(), stale: Vec::new() }
    }

    /// Watches all directories of a plan. If that fails, none has been added.
    pub fn join(&mut self, number: u64, plan: &WatchPlan) -> Result<(), WatchError> {
        for place in plan.places() {
            if let Err(error) = self.watch(place) {
                self.unwatch_unused(plan);
                return Err(error);
            }
        }
        for entry in &plan.entries {
            if let Some(folder) = self.folders.get_mut(&entry.place.id) {
                folder.entries.entry(entry.name.clone()).or_default().push(number);
            }
        }
        if let Some(folder) = plan.whole.as_ref().and_then(|place| self.folders.get_mut(&place.id)) {
            folder.whole.push(number);
        }
        Ok(())
    }

    /// Undoes one `join`.
    pub fn leave(&mut self, number: u64, plan: &WatchPlan) {
        for entry in &plan.entries {
            let Some(folder) = self.folders.get_mut(&entry.place.id) else { continue };
            if let Some(numbers) = folder.entries.get_mut(&entry.name) {
                remove_one(numbers, number);
                if numbers.is_empty() {
                    folder.entries.remove(&entry.name);
                }
            }
        }
        if let Some(folder) = plan.whole.as_ref().and_then(|place| self.folders.get_mut(&place.id)) {
            remove_one(&mut folder.whole, number);
        }
        self.unwatch_unused(plan);
    }

    /// Returns the watched directory at a path.
    pub fn at(&self, path: &Path) -> Option<DirectoryId> {
        self.by_path.get(path).copied()
    }

    /// Returns the watches that need this name in a directory, and those that need every name.
    pub fn interested(&self, place: DirectoryId, name: &OsStr) -> (Vec<u64>, Vec<u64>) {
        let Some(folder) = self.folders.get(&place) else { return Default::default() };
        (folder.entries.get(name).cloned().unwrap_or_default(), folder.whole.clone())
    }

    /// Removes a directory that is gone, and those below it.
    pub fn lose(&mut self, path: &Path) -> Vec<LostFolder> {
        let gone = self.by_path.iter().filter(|(other, _)| other.starts_with(path));
        let gone: Vec<_> = gone.map(|(_, place)| *place).collect();
        gone.into_iter().filter_map(|place| self.forget(place)).collect()
    }

    /// Returns the directories that were found to be gone while others were added.
    pub fn take_stale(&mut self) -> Vec<LostFolder> {
        std::mem::take(&mut self.stale)
    }

    /// Removes everything, because it is no longer known what the system watches.
    pub fn lose_all(&mut self) {
        self.folders.clear();
        self.by_path.clear();
        self.system = None;
    }

    fn watch(&mut self, place: &WatchedDirectory) -> Result<(), WatchError> {
        if self.folders.contains_key(&place.id) {
            return Ok(());
        }
        if let Some(before) = self.by_path.get(&place.path).copied() {
            let lost = self.forget(before);
            self.stale.extend(lost);
        }
        if self.system.is_none() {
            let mailbox = self.mailbox.clone();
            self.system = Some(notify::recommended_watcher(move |report| mailbox.report(report))?);
        }
        if let Some(system) = &mut self.system {
            system.watch(&place.path, RecursiveMode::NonRecursive)?;
        }
        let folder = WatchedFolder { path: place.path.clone(), entries: HashMap::new(), whole: Vec::new() };
        self.by_path.insert(place.path.clone(), place.id);
        self.folders.insert(place.id, folder);
        Ok(())
    }

    fn forget(&mut self, place: DirectoryId) -> Option<LostFolder> {
        let folder = self.folders.remove(&place)?;
        self.by_path.remove(&folder.path);
        if let Some(system) = &mut self.system {
            // The system has stopped watching a removed directory, and then returns an error.
            let _ = system.unwatch(&folder.path);
        }
        Some(LostFolder {
            place,
            users: folder.entries.into_values().flatten().chain(folder.whole).collect(),
        })
    }

    fn unwatch_unused(&mut self, plan: &WatchPlan) {
        for place in plan.places() {
            if self.folders.get(&place.id).is_some_and(WatchedFolder::is_unused) {
                self.forget(place.id);
            }
        }
        if self.folders.is_empty() {
            self.system = None;
        }
    }
}

impl WatchedFolder {
    fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.whole.is_empty()
    }
}

fn remove_one(numbers: &mut Vec<u64>, number: u64) {
    if let Some(at) = numbers.iter().position(|other| *other == number) {
        numbers.swap_remove(at);
    }
}
