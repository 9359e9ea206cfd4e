//! Which files the index may be missing: a look at the directories, cheap enough to take before each list.
//!
//! A directory whose time of change is the one it had when the index was complete for it holds no new,
//! lost or renamed file. So a look costs one `stat` for each directory, not for each file. Only the
//! directories that changed are read. Growing files do not change their directory: what this process
//! appends it notes itself, and before its first append to a directory it touches that directory, so that
//! the next process looks at its files again should this one be killed with notes unwritten.

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

/// Years, months, days.
const DEPTH: usize = 3;
/// A directory that changed less than this ago may change again without its time showing it: file systems
/// count time in steps.
const SETTLED: Duration = Duration::from_millis(100);

/// A file that the index has to read.
#[derive(Clone, Debug)]
pub struct FoundFile {
    pub dir: String,
    pub file: String,
    pub name: FileName,
    pub archived: bool,
    /// What the index knows of it and found outdated.
    pub replaces: Option<FileStamp>,
}

impl FoundFile {
    /// Its place in a list by creation.
    pub fn cursor(&self) -> ListCursor {
        ListCursor { at: self.name.created_at, id: self.name.id.clone() }
    }

    pub fn by_creation(&self, other: &Self) -> Ordering {
        (self.name.created_at, &self.name.id).cmp(&(other.name.created_at, &other.name.id))
    }
}

/// What a look at the directories brought.
pub struct TreeScan {
    pub look: ScanId,
    pub found: Vec<FoundFile>,
    pub gone: Vec<GoneEntry>,
}

/// Something that the index knows and the disk does not.
pub enum GoneEntry {
    Dir(String),
    File { dir: String, file: String },
}

impl GoneEntry {
    pub fn take_out(&self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Self::Dir(dir) => rows::remove_dir(connection, dir),
            Self::File { dir, file } => rows::remove_file(connection, dir, file),
        }
    }
}

/// What is known of the directories.
#[derive(Default)]
pub struct DirectoryTree {
    dirs: BTreeMap<String, TreeDirectory>,
}

/// Which look at the directories found something; others may be under way at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanId(u64);

impl ScanId {
    /// Never one that a tree of this process has seen before, so that a late reader cannot confuse them.
    fn next() -> Self {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        Self(LOOKS.fetch_add(1, atomic::Ordering::Relaxed))
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
    /// Its files are being read; `settled` says whether to trust `mtime` afterwards.
    Reading { look: ScanId, settled: bool },
    /// The index is complete for it as of `mtime`.
    Clean,
}

/// The directories that this process writes to. The index never says on disk that it is complete for
/// them, because it may not be at the moment when this process dies.
#[derive(Default)]
pub struct ActiveDirectories(Mutex<HashSet<String>>);

impl ActiveDirectories {
    /// Call before the first change in a directory.
    pub fn enter(&self, layout: &HomeLayout, dir: &str) {
        if !self.holds(dir) {
            self.0.lock().insert(dir.to_owned());
            let touched =
                File::open(layout.absolute(dir)).and_then(|dir| dir.set_modified(SystemTime::now()));
            if let Err(error) = touched {
                tracing::debug!(dir, %error, "cannot touch a directory of threads");
            }
        }
    }

    fn holds(&self, dir: &str) -> bool {
        self.0.lock().contains(dir)
    }
}

impl DirectoryTree {
    /// Begins with what an earlier process left in the index.
    pub fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let clean = rows::clean_dirs(connection)?.into_iter();
        let dirs = clean
            .map(|(path, mtime)| (path, TreeDirectory { mtime, state: DirectoryState::Clean }))
            .collect();
        Ok(Self { dirs })
    }

    /// Looks at every directory. The caller takes out of the index what is gone, reads what was found and
    /// then calls [`DirectoryTree::finish`].
    pub fn look(&mut self, layout: &HomeLayout, connection: &Connection) -> rusqlite::Result<TreeScan> {
        let mut seen = TreeScan { look: ScanId::next(), found: Vec::new(), gone: Vec::new() };
        let mut todo: Vec<String> = [SESSIONS, ARCHIVED].map(str::to_owned).into();
        todo.extend(self.dirs.keys().filter(|dir| *dir != SESSIONS && *dir != ARCHIVED).cloned());
        while let Some(dir) = todo.pop() {
            let path = layout.absolute(&dir);
            match fs::metadata(&path).map(|found| summary::nanoseconds(&found)) {
                Ok(mtime) if self.is_current(&dir, mtime) => {}
                Ok(mtime) => {
                    let settled = is_settled(mtime);
                    match fs::read_dir(&path) {
                        Ok(entries) => todo.extend(self.new_dirs(seen.read(&dir, entries, connection)?)),
                        Err(error) => {
                            self.cannot_look(dir, &error);
                            continue;
                        }
                    }
                    let state = DirectoryState::Reading { look: seen.look, settled };
                    self.dirs.insert(dir, TreeDirectory { mtime, state });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    seen.gone.extend(self.dirs.remove(&dir).map(|_| GoneEntry::Dir(dir)));
                }
                Err(error) => self.cannot_look(dir, &error),
            }
        }
        Ok(seen)
    }

    /// A directory that was read within moments of its change may have changed again.
    fn is_current(&self, dir: &str, mtime: i64) -> bool {
        self.dirs.get(dir).is_some_and(|known| match known.state {
            DirectoryState::Unknown | DirectoryState::Reading { settled: false, .. } => false,
            DirectoryState::Reading { settled: true, .. } | DirectoryState::Clean => known.mtime == mtime,
        })
    }

    fn new_dirs(&self, subdirs: Vec<String>) -> impl Iterator<Item = String> {
        subdirs.into_iter().filter(|subdir| !self.dirs.contains_key(subdir))
    }

    /// It is tried again each time: a change of permissions does not show in the time. What the index
    /// knows from better times stays.
    fn cannot_look(&mut self, dir: String, error: &io::Error) {
        if self.dirs.insert(dir.clone(), TreeDirectory::default()).is_none() {
            tracing::warn!(dir, %error, "cannot look for threads");
        }
    }

    /// Everything found has been read: the index is complete for those directories. Returns what may be
    /// said on disk about them.
    pub fn finish(&mut self, done: ScanId, active: &ActiveDirectories) -> Vec<(String, i64)> {
        let mut clean = Vec::new();
        for (path, dir) in &mut self.dirs {
            match dir.state {
                DirectoryState::Reading { look, settled: true } if look == done => {
                    dir.state = DirectoryState::Clean;
                    clean.push((path.clone(), dir.mtime));
                }
                DirectoryState::Reading { look, settled: false } if look == done => {
                    dir.state = DirectoryState::Unknown
                }
                _ => {}
            }
        }
        clean.retain(|(path, _)| !active.holds(path));
        clean
    }

    /// Not everything found could be read: those directories are looked at again next time.
    pub fn abandon(&mut self, failed: ScanId) {
        for dir in self.dirs.values_mut() {
            if matches!(dir.state, DirectoryState::Reading { look, .. } if look == failed) {
                dir.state = DirectoryState::Unknown;
            }
        }
    }
}

impl TreeScan {
    /// Compares a directory with the index. Returns the directories in it.
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
