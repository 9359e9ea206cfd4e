//! Decides which directories must be watched to notice changes of a path.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// How many links are followed before a cycle is assumed.
const MAX_LINKS: usize = 32;

/// A directory with its identity: one that has several paths is watched once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WatchedDirectory {
    pub id: DirectoryId,
    pub path: PathBuf,
}

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct DirectoryId(u64, u64);

impl WatchedDirectory {
    /// Returns `None` unless the path is a directory.
    pub fn of(path: &Path) -> Option<Self> {
        let path = path.canonicalize().ok()?;
        let found = fs::metadata(&path).ok().filter(fs::Metadata::is_dir)?;
        Some(Self { id: DirectoryId(found.dev(), found.ino()), path })
    }
}

/// The directories and names that a watch of a path depends on now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WatchPlan {
    pub entries: Vec<DirectoryEntry>,
    /// The directory itself, if the path is one: changes of its children are reported.
    pub whole: Option<WatchedDirectory>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    pub place: WatchedDirectory,
    pub name: OsString,
    role: EntryRole,
}

/// Why a name in a directory is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryRole {
    /// The path itself, or the target of its links.
    Target,
    /// A missing directory above it. Once it exists, the path may exist as well.
    Ancestor,
}

impl WatchPlan {
    /// Returns the plan for where the path is now or would appear. For a link, both the link and its target are watched.
    pub fn of(path: &Path) -> Self {
        let mut entries = Vec::new();
        let mut next = Some(path.to_owned());
        while let Some(path) = next.take().filter(|_| entries.len() < MAX_LINKS) {
            let Some(entry) = nearest(&path) else { break };
            if entry.role == EntryRole::Target {
                let target = fs::read_link(entry.place.path.join(&entry.name)).ok();
                next = target.map(|target| entry.place.path.join(target));
            }
            entries.push(entry);
        }
        Self { entries, whole: WatchedDirectory::of(path) }
    }

    /// Returns whether a name in a directory is the path itself.
    pub fn is_target(&self, place: DirectoryId, name: &OsStr) -> bool {
        let stands = |entry: &DirectoryEntry| entry.place.id == place && entry.name == name;
        self.entries.iter().any(|entry| entry.role == EntryRole::Target && stands(entry))
    }

    /// Removes a directory that is no longer watched.
    pub fn without(&mut self, place: DirectoryId) {
        self.entries.retain(|entry| entry.place.id != place);
        self.whole.take_if(|whole| whole.id == place);
    }

    pub fn places(&self) -> impl Iterator<Item = &WatchedDirectory> {
        self.entries.iter().map(|entry| &entry.place).chain(&self.whole)
    }
}

/// Returns the entry of a path in its directory, or of its first missing parent.
fn nearest(path: &Path) -> Option<DirectoryEntry> {
    let mut path = path;
    let mut role = EntryRole::Target;
    loop {
        // The target of a link that ends in `..` has no name; the directory itself is watched.
        let parent = path.parent()?;
        let name = path.file_name()?;
        if let Some(place) = WatchedDirectory::of(parent) {
            return Some(DirectoryEntry { place, name: name.to_owned(), role });
        }
        path = parent;
        role = EntryRole::Ancestor;
    }
}

/// The state of a path, by which a change is noticed that the system did not report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathSnapshot {
    id: DirectoryId,
    /// The length and the time of the last change.
    content: Option<(u64, Option<SystemTime>)>,
}

impl PathSnapshot {
    /// Returns `None` if nothing is there.
    pub fn of(path: &Path) -> Option<Self> {
        // A dangling link exists as well.
        let found = fs::metadata(path).or_else(|_| fs::symlink_metadata(path)).ok()?;
        let id = DirectoryId(found.dev(), found.ino());
        // For a directory, only its creation and removal count; other changes are those of its children.
        let content = (!found.is_dir()).then(|| (found.len(), found.modified().ok()));
        Some(Self { id, content })
    }
}
