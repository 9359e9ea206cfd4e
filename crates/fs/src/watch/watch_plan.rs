//! Which directories have to be watched so that changes of a path are seen.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Links that are followed before a loop is assumed.
const MAX_LINKS: usize = 32;

/// A directory, told apart by what it is: one that can be reached by several paths is watched once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedDirectory {
    pub id: DirectoryId,
    pub path: PathBuf,
}

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DirectoryId(u64, u64);

impl WatchedDirectory {
    /// `None` unless there is a directory.
    pub fn of(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let found = fs::metadata(&path).ok().filter(fs::Metadata::is_dir)?;
        Some(Self { id: DirectoryId(found.dev(), found.ino()), path })
    }
}

/// What a watch of a path depends on at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchPlan {
    pub entries: Vec<DirectoryEntry>,
    /// The directory itself, when the path leads to one: its children count.
    pub whole: Option<WatchedDirectory>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    pub place: WatchedDirectory,
    pub name: OsString,
    means: WatchMeans,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchMeans {
    /// The path itself, or the file at the end of its links.
    Target,
    /// Something above it that is missing. What matters is whether the path is there once this is.
    Ancestor,
}

impl WatchPlan {
    /// Where the path is now or would appear. A link is watched at both ends.
    pub fn of(path: &Path) -> Self {
        let mut entries = Vec::new();
        let mut next = Some(path.to_owned());
        while let Some(path) = next.take().filter(|_| entries.len() < MAX_LINKS) {
            let Some(entry) = nearest(&path) else { break };
            if entry.means == WatchMeans::Target {
                let target = fs::read_link(entry.place.path.join(&entry.name)).ok();
                next = target.map(|target| entry.place.path.join(target));
            }
            entries.push(entry);
        }
        Self { entries, whole: WatchedDirectory::of(path) }
    }

    /// Whether a name in a directory stands for the path itself.
    pub fn is_target(&self, place: DirectoryId, name: &OsStr) -> bool {
        let stands = |entry: &DirectoryEntry| entry.place.id == place && entry.name == name;
        self.entries.iter().any(|entry| entry.means == WatchMeans::Target && stands(entry))
    }

    /// Leaves out a directory that is not watched any more.
    pub fn without(&mut self, place: DirectoryId) {
        self.entries.retain(|entry| entry.place.id != place);
        self.whole.take_if(|whole| whole.id == place);
    }

    pub fn places(&self) -> impl Iterator<Item = &WatchedDirectory> {
        self.entries.iter().map(|entry| &entry.place).chain(&self.whole)
    }
}

/// The entry of a path in its directory or, if that is missing, of the first part of it that is.
fn nearest(path: &Path) -> Option<DirectoryEntry> {
    let mut path = path;
    let mut means = WatchMeans::Target;
    loop {
        // A target of a link that ends in `..` has no name; what it leads to is watched as a whole.
        let (parent, name) = (path.parent()?, path.file_name()?);
        if let Some(place) = WatchedDirectory::of(parent) {
            return Some(DirectoryEntry { place, name: name.to_owned(), means });
        }
        (path, means) = (parent, WatchMeans::Ancestor);
    }
}

/// What tells that a path is not what it was, when nobody saw it change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathSnapshot {
    id: DirectoryId,
    /// Length and time of the last change.
    content: Option<(u64, Option<SystemTime>)>,
}

impl PathSnapshot {
    /// `None` when nothing is there.
    pub fn of(path: &Path) -> Option<Self> {
        // A link that leads nowhere is still something.
        let found = fs::metadata(path).or_else(|_| fs::symlink_metadata(path)).ok()?;
        let id = DirectoryId(found.dev(), found.ino());
        // Of a directory, other changes than its coming and going are those of its children.
        let content = (!found.is_dir()).then(|| (found.len(), found.modified().ok()));
        Some(Self { id, content })
    }
}
