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
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{self, AtomicU64},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

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
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(dir.to_owned());
            let touched =
                File::open(layout.absolute(dir)).and_then(|dir| dir.set_modified(SystemTime::now()));
            if let Err(error) = touched {
                tracing::debug!(dir, %error, "cannot touch a directory of threads");
            }
        }
    }

    fn holds(&self, dir: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(dir)
    }
}

impl Tree {
    /// Begins with what an earlier process left in the index.
    pub fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let clean = rows::clean_dirs(connection)?.into_iter();
        let dirs = clean.map(|(path, mtime)| (path, Dir { mtime, state: State::Clean })).collect();
        Ok(Self { dirs })
    }

    /// Looks at every directory, takes out of the index what is gone, and returns what it has to read.
    /// The caller reads these files and then calls [`Tree::finish`]. `None` when no directory changed.
    pub fn look(
        &mut self,
        layout: &Layout,
        connection: &Connection,
    ) -> rusqlite::Result<Option<(Look, Vec<Found>)>> {
        let look = Look::next();
        let mut changed = false;
        let mut found = Vec::new();
        let mut todo: Vec<String> = [SESSIONS, ARCHIVED].map(str::to_owned).into();
        todo.extend(self.dirs.keys().filter(|dir| *dir != SESSIONS && *dir != ARCHIVED).cloned());
        while let Some(dir) = todo.pop() {
            let path = layout.absolute(&dir);
            match fs::metadata(&path) {
                Ok(now) if self.is_current(&dir, summary::nanoseconds(&now)) => {}
                Ok(now) => {
                    changed = true;
                    let subdirs = self.read(&dir, &path, (look, &now), connection, &mut found)?;
                    todo.extend(subdirs.into_iter().filter(|subdir| !self.dirs.contains_key(subdir)));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.forget(&dir, connection)?,
                Err(error) => tracing::warn!(path = %path.display(), %error, "cannot look at threads"),
            }
        }
        Ok(changed.then_some((look, found)))
    }

    fn is_current(&self, dir: &str, mtime: i64) -> bool {
        self.dirs.get(dir).is_some_and(|known| match known.state {
            State::Unknown => false,
            State::Reading { .. } | State::Clean => known.mtime == mtime,
        })
    }

    fn forget(&mut self, dir: &str, connection: &Connection) -> rusqlite::Result<()> {
        match self.dirs.remove(dir) {
            Some(_) => rows::remove_dir(connection, dir),
            None => Ok(()),
        }
    }

    /// Compares a directory with the index. Returns the directories in it.
    fn read(
        &mut self,
        dir: &str,
        path: &Path,
        now: (Look, &fs::Metadata),
        connection: &Connection,
        found: &mut Vec<Found>,
    ) -> rusqlite::Result<Vec<String>> {
        let (look, now) = now;
        let mtime = summary::nanoseconds(now);
        let settled = is_settled(mtime);
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                // It is tried again each time: a change of permissions does not show in the time.
                if self.dirs.insert(dir.to_owned(), Dir::default()).is_none() {
                    tracing::warn!(path = %path.display(), %error, "cannot list threads");
                }
                return Ok(Vec::new());
            }
        };
        let mut known: HashMap<_, _> = rows::files_in(connection, dir)?.into_iter().collect();
        let mut subdirs = Vec::new();
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if let Some(parsed) = FileName::parse(&name) {
                let replaces = known.remove(&name);
                if replaces.is_some() && FileStamp::read(&entry.path()) == replaces {
                    continue;
                }
                let archived = dir == ARCHIVED;
                found.push(Found { dir: dir.to_owned(), file: name, name: parsed, archived, replaces });
            } else if may_hold_dirs(dir) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                subdirs.push(format!("{dir}/{name}"));
            }
        }
        for file in known.into_keys() {
            rows::remove_file(connection, dir, &file)?;
        }
        self.dirs.insert(dir.to_owned(), Dir { mtime, state: State::Reading { look, settled } });
        Ok(subdirs)
    }

    /// Everything found has been read: the index is complete for those directories.
    pub fn finish(&mut self, done: Look, connection: &Connection, active: &Active) -> rusqlite::Result<()> {
        for (path, dir) in &mut self.dirs {
            let State::Reading { look, settled } = dir.state else { continue };
            if look != done {
                continue;
            }
            dir.state = if settled { State::Clean } else { State::Unknown };
            if settled && !active.holds(path) {
                rows::set_dir(connection, path, Some(dir.mtime))?;
            }
        }
        Ok(())
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

fn may_hold_dirs(dir: &str) -> bool {
    dir.starts_with(SESSIONS) && dir.split('/').count() <= DEPTH
}

fn is_settled(mtime: i64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(mtime);
    age > i64::try_from(SETTLED.as_nanos()).unwrap_or(i64::MAX)
}
