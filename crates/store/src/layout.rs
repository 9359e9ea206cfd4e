//! The directories and files of a home: their names, and how they are created and opened.
//!
//! The name of a thread's file contains its local time of creation and its id, as in the reference server:
//! `sessions/2026/11/15/rollout-2026-11-15T20-00-00-<id>.jsonl`. Archived files are directly in `archived_sessions`.
//! Everything is readable by its owner only.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use codicil_protocol::ThreadId;
use jiff::{Timestamp, ToSpan, civil::Date};

use crate::{
    clock,
    error::{Result, StoreError},
    file_end::WriteOnce,
    record::RunId,
};

/// The directory of threads that are not archived, relative to the home.
pub const SESSIONS: &str = "sessions";
/// The directory of archived threads.
pub const ARCHIVED: &str = "archived_sessions";

/// The maximum length of an id, so that file names stay within the limits of file systems.
const MAX_ID: usize = 128;
/// The beginning of the name of a file that is being created.
const UNFINISHED_PREFIX: &str = ".new-";
const LOCAL_TIME_LEN: usize = "2026-11-15T20-00-00".len();

/// The paths of one home.
#[derive(Clone, Debug)]
pub struct HomeLayout {
    home: PathBuf,
}

/// The file of a thread, and whether it is archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadLocation {
    pub path: PathBuf,
    pub archived: bool,
}

/// The parsed name of a thread's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    pub id: ThreadId,
    /// Unix seconds, from the id if it contains a time, so that all files of a thread agree.
    pub created_at: i64,
}

impl HomeLayout {
    pub fn new(home: PathBuf) -> Self {
        Self { home }
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    pub fn index(&self) -> PathBuf {
        self.home.join("codicil_index.sqlite")
    }

    /// Returns the directory of blobs.
    /// Returns the index of messages.
    pub fn search_index(&self) -> PathBuf {
        self.home.join("codicil_search.sqlite")
    }

    /// Returns the file with the sections and projects.
    pub fn organization(&self) -> PathBuf {
        self.home.join("organization.json")
    }

    pub fn blobs(&self) -> PathBuf {
        self.home.join("blobs")
    }

    pub fn blob(&self, hash: &str) -> PathBuf {
        let prefix = hash.get(..2).unwrap_or("00");
        self.blobs().join(prefix).join(hash)
    }

    /// Returns the directory of run locks.
    pub fn run_locks(&self) -> PathBuf {
        self.home.join("servers")
    }

    pub fn run_lock(&self, run: &RunId) -> PathBuf {
        self.run_locks().join(format!("{run}.lock"))
    }

    pub fn absolute(&self, relative: &str) -> PathBuf {
        self.home.join(relative)
    }

    /// Returns the directory of the keys of requests that create, move or delete threads.
    pub fn keys(&self) -> PathBuf {
        self.home.join("request_keys")
    }

    /// Returns the path relative to the home, as stored in the index; `None` for paths outside the home.
    pub fn relative(&self, path: &Path) -> Option<String> {
        path.strip_prefix(&self.home).ok()?.to_str().map(str::to_owned)
    }

    /// Returns the path of a new thread's file.
    pub fn new_path(&self, id: &ThreadId, created: Timestamp) -> PathBuf {
        let local = clock::local(created);
        self.day(local.date()).join(format!("rollout-{}-{id}.jsonl", local.strftime("%Y-%m-%dT%H-%M-%S")))
    }

    /// Returns the path to which an archived file is restored.
    pub fn restored_path(&self, name: &str) -> Option<PathBuf> {
        let date = clock::parse_local(local_part(name)?).map(clock::local)?.date();
        Some(self.day(date).join(name))
    }

    pub fn archived_path(&self, name: &str) -> PathBuf {
        self.home.join(ARCHIVED).join(name)
    }

    fn day(&self, date: Date) -> PathBuf {
        self.home.join(SESSIONS).join(date.strftime("%Y/%m/%d").to_string())
    }

    /// Finds the file of a thread from the time in its id: first the exact path, then the archive, then the directories of
    /// the adjacent days, because the time zone may have changed. Does not find threads whose ids contain no time.
    pub fn find_by_time(&self, id: &ThreadId) -> Option<ThreadLocation> {
        let created = clock::id_time(id)?;
        let exact = self.new_path(id, created);
        if exact.is_file() {
            return Some(ThreadLocation { path: exact, archived: false });
        }
        let archived = self.archived_path(exact.file_name()?.to_str()?);
        if archived.is_file() {
            return Some(ThreadLocation { path: archived, archived: true });
        }
        let date = clock::local(created).date();
        [0, -1, 1]
            .into_iter()
            .filter_map(|days| date.checked_add(days.days()).ok())
            .find_map(|date| find_in(&self.day(date), id))
            .map(|path| ThreadLocation { path, archived: false })
    }

    /// Finds the file of a thread by searching all directories.
    pub fn search(&self, id: &ThreadId) -> Option<ThreadLocation> {
        let archived = find_in(&self.home.join(ARCHIVED), id);
        let archived = archived.map(|path| ThreadLocation { path, archived: true });
        find_below(&self.home.join(SESSIONS), id, 3)
            .map(|path| ThreadLocation { path, archived: false })
            .or(archived)
    }
}

impl FileName {
    /// Returns `None` for names that are not those of threads.
    pub fn parse(name: &str) -> Option<Self> {
        let local = local_part(name)?;
        let id = name.get("rollout-".len() + LOCAL_TIME_LEN + 1..)?.strip_suffix(".jsonl")?;
        let id = is_valid_id(id).then(|| ThreadId::from(id))?;
        let created = clock::id_time(&id).or_else(|| clock::parse_local(local))?;
        Some(Self { id, created_at: created.as_millisecond().div_euclid(1000) })
    }
}

fn local_part(name: &str) -> Option<&str> {
    name.strip_prefix("rollout-")?.get(..LOCAL_TIME_LEN)
}

/// Returns whether an id can be part of a path. Ids come from clients, so only harmless characters are allowed.
pub fn is_valid_id(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

fn find_in(dir: &Path, id: &ThreadId) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?;
    entries.flatten().find_map(|entry| {
        let name = FileName::parse(entry.file_name().to_str()?)?;
        (name.id == *id).then(|| entry.path())
    })
}

fn find_below(dir: &Path, id: &ThreadId, depth: u32) -> Option<PathBuf> {
    if depth == 0 {
        return find_in(dir, id);
    }
    let entries = fs::read_dir(dir).ok()?;
    let mut dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dirs.find_map(|entry| find_below(&entry.path(), id, depth - 1))
}

/// Creates a directory and its parents with mode 0700. Returns whether it was missing.
pub fn make_dir(dir: &Path) -> Result<bool> {
    if dir.is_dir() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(StoreError::io("create", dir))?;
    Ok(true)
}

/// Creates a file, which must not exist, with mode 0600.
pub fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().create_new(true).append(true).mode(0o600).open(path)
}

/// Creates a file, which must not exist, with mode 0600 and this content. The content is written under another name first,
/// so that no process ever sees a part of it.
pub fn write_new_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let unfinished = path.with_file_name(format!("{UNFINISHED_PREFIX}{name}"));
    let written = create_truncated(&unfinished)
        .and_then(|mut file| file.write_all_once(content))
        .and_then(|()| give_name(&unfinished, path));
    // A renamed file is gone already; a leftover of a process that was killed is replaced by the next attempt.
    let _ = fs::remove_file(&unfinished);
    written
}

/// Gives a finished file its name, unless that is taken.
fn give_name(unfinished: &Path, path: &Path) -> io::Result<()> {
    match fs::hard_link(unfinished, path) {
        // File systems without hard links.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied) =>
        {
            if path.exists() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            fs::rename(unfinished, path)
        }
        result => result,
    }
}

fn create_truncated(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)
}

/// Opens a regular file for reading. Anything else, such as a named pipe or a device, is an error and never blocks.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_with(OpenOptions::new().read(true), path)
}

/// Opens a regular file with the given options. Without `O_NONBLOCK`, opening a named pipe would block until another process
/// writes to it; the flag has no effect on regular files.
pub fn open_regular_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.file_type() {
        kind if kind.is_file() => Ok(file),
        kind if kind.is_dir() => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Reads a regular file.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let mut bytes = Vec::with_capacity(file.metadata().map_or(0, |found| found.len() as usize));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the entries of a directory durable.
pub fn sync_dir(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::io("sync", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_contains_the_id_and_the_time() {
        let id = ThreadId::from("019a8914-3a00-7000-8000-000000000001");
        let created = clock::id_time(&id).unwrap();
        let path = HomeLayout::new("/home/x".into()).new_path(&id, created);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(FileName::parse(name), Some(FileName { id, created_at: created.as_second() }));
    }

    #[test]
    fn ids_without_a_time_take_that_of_the_name() {
        let name = FileName::parse("rollout-2026-11-15T20-00-00-thr_9.jsonl").unwrap();
        assert_eq!(&*name.id, "thr_9");
        assert_eq!(name.created_at, clock::parse_local("2026-11-15T20-00-00").unwrap().as_second());
    }

    #[test]
    fn other_names_are_not_threads() {
        for name in [
            "rollout-2026-11-15T20-00-00-.jsonl",
            "rollout-2026-11-15T20-00-00-a.json",
            "rollout-2026-11-15-a.jsonl",
            "notes.jsonl",
            "rollout-2026-11-15T20-00-00-..%2f.jsonl",
            "rollout-ééééééééééééééééééé-a.jsonl",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn ids_cannot_leave_the_home() {
        for id in ["", "../x", "a/b", "a\0b", "a.b", &"x".repeat(129)] {
            assert!(!is_valid_id(id), "{id}");
        }
        assert!(is_valid_id("thr_9") && is_valid_id("019a8914-3a00-7000-8000-000000000001"));
    }
}
