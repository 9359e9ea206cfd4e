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
    layout::{ARCHIVED, FileName, Layout, SESSIONS},
    list::Cursor,
    summary::{self, FileStamp},
};

/// Years, months, days.
const DEPTH: usize = 3;
/// A directory that changed less than this ago may change again without its time showing it: file systems
/// count time in steps.
const SETTLED: Duration = Duration::from_millis(100);

/// A file that the index has to read.
#[derive(Clone, Debug)]
pub struct Found {
    pub dir: String,
    pub file: String,
    pub name: FileName,
    pub archived: bool,
    /// What the index knows of it and found outdated.
    pub replaces: Option<FileStamp>,
}

impl Found {
    /// Its place in a list by creation.
    pub fn cursor(&self) -> Cursor {
        Cursor { at: self.name.created_at, id: self.name.id.clone() }
    }

    pub fn by_creation(&self, other: &Self) -> Ordering {
        (self.name.created_at, &self.name.id).cmp(&(other.name.created_at, &other.name.id))
    }
}

/// What a look at the directories brought.
pub struct Seen {
    pub look: Look,
    pub found: Vec<Found>,
    pub gone: Vec<Gone>,
}

/// Something that the index knows and the disk does not.
pub enum Gone {
    Dir(String),
    File { dir: String, file: String },
}

impl Gone {
    pub fn take_out(&self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Self::Dir(dir) => rows::remove_dir(connection, dir),
            Self::File { dir, file } => rows::remove_file(connection, dir, file),
        }
    }
}

/// What is known of the directories.
#[derive(Default)]
pub struct Tree {
    dirs: BTreeMap<String, Dir>,
}

/// Which look at the directories found something; others may be under way at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look(u64);

impl Look {
    /// Never one that a tree of this process has seen before, so that a late reader cannot confuse them.
    fn next() -> Self {
        static LOOKS: AtomicU64 = AtomicU64::new(0);
        Self(LOOKS.fetch_add(1, atomic::Ordering::Relaxed))
    }
}

#[derive(Clone, Copy, Default)]
struct Dir {
    mtime: i64,
    state: State,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Never read, or read too soon after it changed.
    #[default]
    Unknown,
    /// Its files are being read; `settled` says whether to trust `mtime` afterwards.
    Reading { look: Look, settled: bool },
    /// The index is complete for it as of `mtime`.
    Clean,
}

/// The directories that this process writes to. The index never says on disk that it is complete for
/// them, because it may not be at the moment when this process dies.
#[derive(Default)]
pub struct Active(Mutex<HashSet<String>>);

impl Active {
    /// Call before the first change in a directory.
    pub fn enter(&self, layout: &Layout, dir: &str) {
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

impl Tree {
    /// Begins with what an earlier process left in the index.
    pub fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let clean = rows::clean_dirs(connection)?.into_iter();
        let dirs = clean.map(|(path, mtime)| (path, Dir { mtime, state: State::Clean })).collect();
        Ok(Self { dirs })
    }

    /// Looks at every directory. The caller takes out of the index what is gone, reads what was found and
    /// then calls [`Tree::finish`].
    pub fn look(&mut self, layout: &Layout, connection: &Connection) -> rusqlite::Result<Seen> {
        let mut seen = Seen { look: Look::next(), found: Vec::new(), gone: Vec::new() };
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
                    let state = State::Reading { look: seen.look, settled };
                    self.dirs.insert(dir, Dir { mtime, state });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    seen.gone.extend(self.dirs.remove(&dir).map(|_| Gone::Dir(dir)));
                }
                Err(error) => self.cannot_look(dir, &error),
            }
        }
        Ok(seen)
    }

    /// A directory that was read within moments of its change may have changed again.
    fn is_current(&self, dir: &str, mtime: i64) -> bool {
        self.dirs.get(dir).is_some_and(|known| match known.state {
            State::Unknown | State::Reading { settled: false, .. } => false,
            State::Reading { settled: true, .. } | State::Clean => known.mtime == mtime,
        })
    }

    fn new_dirs(&self, subdirs: Vec<String>) -> impl Iterator<Item = String> {
        subdirs.into_iter().filter(|subdir| !self.dirs.contains_key(subdir))
    }

    /// It is tried again each time: a change of permissions does not show in the time. What the index
    /// knows from better times stays.
    fn cannot_look(&mut self, dir: String, error: &io::Error) {
        if self.dirs.insert(dir.clone(), Dir::default()).is_none() {
            tracing::warn!(dir, %error, "cannot look for threads");
        }
    }

    /// Everything found has been read: the index is complete for those directories. Returns what may be
    /// said on disk about them.
    pub fn finish(&mut self, done: Look, active: &Active) -> Vec<(String, i64)> {
        let mut clean = Vec::new();
        for (path, dir) in &mut self.dirs {
            match dir.state {
                State::Reading { look, settled: true } if look == done => {
                    dir.state = State::Clean;
                    clean.push((path.clone(), dir.mtime));
                }
                State::Reading { look, settled: false } if look == done => dir.state = State::Unknown,
                _ => {}
            }
        }
        clean.retain(|(path, _)| !active.holds(path));
        clean
    }

    /// Not everything found could be read: those directories are looked at again next time.
    pub fn abandon(&mut self, failed: Look) {
        for dir in self.dirs.values_mut() {
            if matches!(dir.state, State::Reading { look, .. } if look == failed) {
                dir.state = State::Unknown;
            }
        }
    }
}

impl Seen {
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
                    self.found.push(Found { dir: dir.to_owned(), file, name, archived, replaces });
                }
            } else if may_hold_dirs(dir) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                subdirs.push(format!("{dir}/{file}"));
            }
        }
        self.gone.extend(known.into_keys().map(|file| Gone::File { dir: dir.to_owned(), file }));
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
