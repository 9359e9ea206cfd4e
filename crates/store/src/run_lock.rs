//! Run locks: which turns belong to a process that is alive.
//!
//! A run is the time in which one store writes turns, usually the life of a server process. It holds an exclusive lock on
//! `servers/<run-id>.lock`, which the kernel releases however the process ends. Each `turn` record names its run, so a
//! reader of an unfinished turn can find out whether its process still works on it. Readers take shared locks, which
//! conflict with the lock of a live run only.

use std::{
    fmt,
    fs::{self, File, TryLockError},
    io::{self, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    clock,
    error::{Result, StoreError},
    layout::{self, HomeLayout},
    loaded_marks::MARKS_EXTENSION,
    record::RunId,
};

/// The number of attempts to create a lock that another process does not remove at once as a stale one.
const MAX_ATTEMPTS: usize = 8;
/// The time that a lock may outlive its process: a command that was being started when the process was killed holds a copy
/// of the descriptor until it executes.
const LEFTOVER_TIME: Duration = Duration::from_secs(1);
const LEFTOVER_PAUSE: Duration = Duration::from_millis(5);
const LOCK_SUFFIX: &str = ".lock";

/// The lock of a run. Dropping it ends the run and removes the file.
pub(crate) struct RunLock {
    pub id: RunId,
    path: PathBuf,
    _file: File,
}

/// Whether the process of a run is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// The run of this store.
    Own,
    /// A run of another store, in this process or another one.
    Live(LiveRun),
    Over,
}

/// The process of a live run, as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRun {
    pub run: RunId,
    pub pid: Option<u32>,
    /// The time at which the run began, in UTC.
    pub started_at: Option<String>,
}

impl fmt::Display for LiveRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, &self.started_at) {
            (Some(pid), Some(at)) => write!(f, "process {pid}, started {at}"),
            (Some(pid), None) => write!(f, "process {pid}"),
            (None, _) => write!(f, "the process of run {}", self.run),
        }
    }
}

/// The content of a lock file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct LockContent {
    pid: u32,
    started_at: String,
}

impl RunLock {
    /// Begins a run and removes the locks of runs that are over. `None` on file systems without locks: there, only one
    /// process can use a thread.
    pub fn begin(layout: &HomeLayout) -> Result<Option<Self>> {
        let dir = layout.run_locks();
        layout::make_dir(&dir)?;
        remove_stale(&dir);
        for _ in 0..MAX_ATTEMPTS {
            let id = RunId::from(Uuid::now_v7().to_string());
            let path = layout.run_lock(&id);
            let failed = || StoreError::io("lock", &path);
            let file = create(&path).map_err(StoreError::io("create", &path))?;
            match file.lock() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    let _ = fs::remove_file(&path);
                    return Ok(None);
                }
                Err(error) => return Err(failed()(error)),
            }
            // Between its creation and the lock, the file looks like that of a run that is over.
            if file.metadata().map_err(failed())?.nlink() > 0 {
                return Ok(Some(Self { id, path, _file: file }));
            }
        }
        Err(StoreError::Locked { path: dir })
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        // While the lock is held. What is left behind is removed by the next run.
        let _ = fs::remove_file(&self.path);
    }
}

fn create(path: &Path) -> io::Result<File> {
    let mut file = layout::create_file(path)?;
    let content = LockContent { pid: process::id(), started_at: clock::stamp(Timestamp::now()) };
    file.write_all(serde_json::to_string(&content)?.as_bytes())?;
    Ok(file)
}

/// Returns whether a run is alive. A run whose lock cannot be examined counts as over, as on file systems without locks.
pub(crate) fn state(layout: &HomeLayout, run: &RunId) -> RunState {
    // Ids come from files; those of this program are UUIDs.
    if Uuid::try_parse(run).is_err() {
        return RunState::Over;
    }
    let path = layout.run_lock(run);
    let deadline = Instant::now() + LEFTOVER_TIME;
    loop {
        match layout::open_regular(&path).map(|file| file.try_lock_shared()) {
            Ok(Err(TryLockError::WouldBlock)) => {}
            _ => return RunState::Over,
        }
        let content = fs::read(&path).ok().and_then(|content| serde_json::from_slice(&content).ok());
        let content: Option<LockContent> = content;
        let is_gone = content.as_ref().is_some_and(|content| is_gone(content.pid));
        if !is_gone || Instant::now() >= deadline {
            return RunState::Live(LiveRun {
                run: run.clone(),
                pid: content.as_ref().map(|content| content.pid),
                started_at: content.map(|content| content.started_at),
            });
        }
        thread::sleep(LEFTOVER_PAUSE);
    }
}

/// Returns whether there is no process with this id. A process in another container looks the same, so this alone does not
/// mean that a run is over.
fn is_gone(pid: u32) -> bool {
    Path::new("/proc/self").exists() && !Path::new(&format!("/proc/{pid}")).exists()
}

/// Removes the locks of runs that are over and their marks of loaded threads, each while it is locked, so that no run can
/// begin with it.
fn remove_stale(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_lock = path.to_str().is_some_and(|path| path.ends_with(LOCK_SUFFIX));
        let Some(file) = layout::open_regular(&path).ok().filter(|_| is_lock) else { continue };
        if file.try_lock_shared().is_ok() {
            let _ = fs::remove_dir_all(path.with_extension(MARKS_EXTENSION));
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_alive_until_its_lock_is_dropped() {
        let home = tempfile::tempdir().unwrap();
        let layout = HomeLayout::new(home.path().to_owned());
        let first = RunLock::begin(&layout).unwrap().unwrap();
        let second = RunLock::begin(&layout).unwrap().unwrap();
        let RunState::Live(found) = state(&layout, &first.id) else { panic!("the run is not alive") };
        assert_eq!((found.run.clone(), found.pid), (first.id.clone(), Some(process::id())));
        assert!(found.to_string().starts_with(&format!("process {}, started 2", process::id())), "{found}");
        let mode = fs::metadata(&first.path).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600);
        let id = first.id.clone();
        drop(first);
        assert_eq!(state(&layout, &id), RunState::Over);
        assert!(matches!(state(&layout, &second.id), RunState::Live(_)));
    }

    #[test]
    fn a_new_run_removes_the_locks_of_runs_that_are_over_and_no_others() {
        let home = tempfile::tempdir().unwrap();
        let layout = HomeLayout::new(home.path().to_owned());
        let live = RunLock::begin(&layout).unwrap().unwrap();
        let stale = layout.run_lock(&RunId::from(Uuid::now_v7().to_string()));
        let other = layout.run_locks().join("notes.txt");
        fs::write(&stale, "{}").unwrap();
        fs::write(&other, "mine").unwrap();
        let _second = RunLock::begin(&layout).unwrap().unwrap();
        assert!(live.path.exists() && other.exists() && !stale.exists());
    }

    #[test]
    fn a_lock_that_outlives_its_process_for_a_moment_is_over() {
        let home = tempfile::tempdir().unwrap();
        let layout = HomeLayout::new(home.path().to_owned());
        let mut child = process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let run = RunId::from(Uuid::now_v7().to_string());
        fs::create_dir(layout.run_locks()).unwrap();
        let content = LockContent { pid, started_at: clock::stamp(Timestamp::now()) };
        fs::write(layout.run_lock(&run), serde_json::to_string(&content).unwrap()).unwrap();
        let held = File::open(layout.run_lock(&run)).unwrap();
        held.lock().unwrap();
        let asked = thread::spawn(move || state(&layout, &run));
        drop(held);
        assert_eq!(asked.join().unwrap(), RunState::Over);
    }

    #[test]
    fn ids_that_are_not_those_of_runs_are_over() {
        let layout = HomeLayout::new("/nowhere".into());
        for id in ["", "../x", "run"] {
            assert_eq!(state(&layout, &RunId::from(id.to_owned())), RunState::Over);
        }
    }
}
