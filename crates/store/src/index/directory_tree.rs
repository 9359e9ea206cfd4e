//! Scanning the directories for files that are missing from the index, cheaply enough to do it before each list.
//!
//! A directory whose modification time has not changed since the index was complete for it contains no new, removed or
//! renamed files. So a scan costs one `stat` per directory, not per file, and only changed directories are read. Appending to
//! a file does not change its directory: a process records its own appends, and touches a directory before its first append
//! there. If it is killed with unwritten changes, the next process reads the files of that directory again.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, File},
    io,
    sync::atomic::{self, AtomicU64},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use rusqlite::Connection;

use crate::{
    index::rows,
    layout::{ARCHIVED, FileName, HomeLayout, SESSIONS},
    list::ListCursor,
    summary::{self, FileStamp},
};

/// The depth of the tree: years, months, days.
const DEPTH: usize = 3;
/// The resolution of file times. A directory that changed more recently can change again without a new time.
const SETTLED: Duration = Duration::from_millis(100);

/// A file that is to be read into the index.
#[derive(Clone, Debug)]
pub struct FoundFile {
    pub dir: String,
    pub file: String,
    pub name: FileName,
    pub archived: bool,
    /// The outdated stamp of the file in the index.
    pub replaces: Option<FileStamp>,
}

impl FoundFile {
    /// Returns the position of the file in a list sorted by creation.
    pub fn cursor(&self) -> ListCursor {
        ListCursor { at: self.name.created_at, rank: None, id: self.name.id.clone() }
    }

    pub fn by_creation(&self, other: &Self) -> Ordering {
        (self.name.created_at, &self.name.id).cmp(&(other.name.created_at, &other.name.id))
    }
}

/// The result of a scan.
pub struct TreeScan {
    pub id: ScanId,
    pub found: Vec<FoundFile>,
    pub gone: Vec<GoneEntry>,
}

/// An entry of the index that no longer exists on disk.
pub enum GoneEntry {
    Dir(String),
    File { dir: String, file: String },
}

impl GoneEntry {
    pub fn remove_from(&self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Self::Dir(dir) => rows::remove_dir(connection, dir),
            Self::File { dir, file } => rows::remove_file(connection, dir, file),
        }
    }
}

/// The known directories and their states.
#[derive(Default)]
pub struct DirectoryTree {
    dirs: BTreeMap<String, TreeDirectory>,
}

/// The id of a scan. Several can be in progress at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanId(u64);

impl ScanId {
    /// Returns an id that is unique within this process, so that a late reader cannot confuse scans.
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, atomic::Ordering::Relaxed))
    }
}

#[derive(Clone, Copy, Default)]
struct TreeDirectory {
    mtime: i64,
    state: DirectoryState,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum DirectoryState {
    /// Never read, or read too soon after it changed.
    #[default]
    Unknown,
    /// The files are being read. `settled` is whether `mtime` can be trusted afterwards.
    Reading { scan: ScanId, settled: bool },
    /// The index is complete for it as of `mtime`.
    Clean,
}

/// The directories to which this process writes. The index is never marked as complete for them on disk, because this
/// process can be killed before it has written all changes.
#[derive(Default)]
pub struct ActiveDirectories(Mutex<HashSet<String>>);

impl ActiveDirectories {
    /// Registers a directory. Must be called before the first change in it.
    pub fn register_directory(&self, layout: &HomeLayout, dir: &str) {
        if !self.contains(dir) {
            self.0.lock().insert(dir.to_owned());
            let touched =
                File::open(layout.absolute(dir)).and_then(|dir| dir.set_modified(SystemTime::now()));
            if let Err(error) = touched {
                tracing::debug!(dir, %error, "failed to touch a directory of threads");
            }
        }
    }

    fn contains(&self, dir: &str) -> bool {
        self.0.lock().contains(dir)
    }
}

impl DirectoryTree {
    /// Loads the state that an earlier process stored in the index.
    pub fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let clean = rows::clean_dirs(connection)?.into_iter();
        let dirs = clean
            .map(|(path, mtime)| (path, TreeDirectory { mtime, state: DirectoryState::Clean }))
            .collect();
        Ok(Self { dirs })
    }

    /// Scans all directories. The caller removes missing entries from the index, reads the found files and then calls
    /// [`DirectoryTree::finish`].
    pub fn scan(&mut self, layout: &HomeLayout, connection: &Connection) -> rusqlite::Result<TreeScan> {
        let mut scan = TreeScan { id: ScanId::next(), found: Vec::new(), gone: Vec::new() };
        let mut todo: Vec<String> = [SESSIONS, ARCHIVED].map(str::to_owned).into();
        todo.extend(self.dirs.keys().filter(|dir| *dir != SESSIONS && *dir != ARCHIVED).cloned());
        while let Some(dir) = todo.pop() {
            let path = layout.absolute(&dir);
            match fs::metadata(&path).map(|found| summary::nanoseconds(&found)) {
                Ok(mtime) if self.is_current(&dir, mtime) => {}
                Ok(mtime) => {
                    let settled = is_settled(mtime);
                    match fs::read_dir(&path) {
                        Ok(entries) => todo.extend(self.new_dirs(scan.read(&dir, entries, connection)?)),
                        Err(error) => {
                            self.mark_unreadable(dir, &error);
                            continue;
                        }
                    }
                    let state = DirectoryState::Reading { scan: scan.id, settled };
                    self.dirs.insert(dir, TreeDirectory { mtime, state });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    scan.gone.extend(self.dirs.remove(&dir).map(|_| GoneEntry::Dir(dir)));
                }
                Err(error) => self.mark_unreadable(dir, &error),
            }
        }
        Ok(scan)
    }

    /// Returns whether the index is up to date for a directory. One that was read shortly after its change may have changed
    /// again.
    fn is_current(&self, dir: &str, mtime: i64) -> bool {
        self.dirs.get(dir).is_some_and(|known| match known.state {
            DirectoryState::Unknown | DirectoryState::Reading { settled: false, .. } => false,
            DirectoryState::Reading { settled: true, .. } | DirectoryState::Clean => known.mtime == mtime,
        })
    }

    fn new_dirs(&self, subdirs: Vec<String>) -> impl Iterator<Item = String> {
        subdirs.into_iter().filter(|subdir| !self.dirs.contains_key(subdir))
    }

    /// Marks a directory that cannot be read. It is tried again with each scan, because a change of permissions does not change
    /// the time. Its entries in the index are kept.
    fn mark_unreadable(&mut self, dir: String, error: &io::Error) {
        if self.dirs.insert(dir.clone(), TreeDirectory::default()).is_none() {
            tracing::warn!(dir, %error, "cannot scan a directory for threads");
        }
    }

    /// Marks the index as complete for the directories of a scan, whose files have all been read. Returns the directories that
    /// can be marked on disk.
    pub fn finish(&mut self, done: ScanId, active: &ActiveDirectories) -> Vec<(String, i64)> {
        let mut clean = Vec::new();
        for (path, dir) in &mut self.dirs {
            match dir.state {
                DirectoryState::Reading { scan, settled: true } if scan == done => {
                    dir.state = DirectoryState::Clean;
                    clean.push((path.clone(), dir.mtime));
                }
                DirectoryState::Reading { scan, settled: false } if scan == done => {
                    dir.state = DirectoryState::Unknown
                }
                _ => {}
            }
        }
        clean.retain(|(path, _)| !active.contains(path));
        clean
    }

    /// Marks the directories of a scan whose files could not all be read, so that they are scanned again.
    pub fn abandon(&mut self, failed: ScanId) {
        for dir in self.dirs.values_mut() {
            if matches!(dir.state, DirectoryState::Reading { scan, .. } if scan == failed) {
                dir.state = DirectoryState::Unknown;
            }
        }
    }
}

impl TreeScan {
    /// Compares a directory with the index. Returns its subdirectories.
    fn read(
        &mut self,
        dir: &str,
        entries: fs::ReadDir,
        connection: &Connection,
    ) -> rusqlite::Result<Vec<String>> {
        let mut known: HashMap<_, _> = rows::files_in(connection, dir)?.into_iter().collect();
        let mut subdirs = Vec::new();
        for entry in entries.flatten() {
            let Ok(file) = entry.file_name().into_string() else { continue };
            if let Some(name) = FileName::parse(&file) {
                let replaces = known.remove(&file);
                if replaces.is_none() || FileStamp::read(&entry.path()) != replaces {
                    let archived = dir == ARCHIVED;
                    self.found.push(FoundFile { dir: dir.to_owned(), file, name, archived, replaces });
                }
            } else if may_hold_dirs(dir) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                subdirs.push(format!("{dir}/{file}"));
            }
        }
        self.gone.extend(known.into_keys().map(|file| GoneEntry::File { dir: dir.to_owned(), file }));
        Ok(subdirs)
    }
}

fn may_hold_dirs(dir: &str) -> bool {
    dir.starts_with(SESSIONS) && dir.split('/').count() <= DEPTH
}

fn is_settled(mtime: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(mtime);
    age > i64::try_from(SETTLED.as_nanos()).unwrap_or(i64::MAX)
}
