//! Marks of loaded threads: which threads the processes that are alive have loaded.
//!
//! A mark is an empty file `servers/<run-id>.threads/<thread-id>`. It counts while the lock of its run is held, so a process
//! that is killed leaves nothing behind that counts.

use std::{fs, io, path::PathBuf};

use codicil_protocol::ThreadId;

use crate::{
    error::{Result, StoreError},
    layout,
    record::RunId,
    run_lock::{self, LiveRun, RunState},
    store::Store,
    work_pool::WorkLane,
};

/// The extension of the directory with the marks of a run.
pub(crate) const MARKS_EXTENSION: &str = "threads";

/// The mark of a thread that this process has loaded. Dropping it removes the mark.
#[derive(Debug)]
pub struct LoadedMark {
    path: PathBuf,
}

impl Drop for LoadedMark {
    fn drop(&mut self) {
        // A mark that stays counts until the process ends.
        let _ = fs::remove_file(&self.path);
    }
}

impl Store {
    /// Marks a thread as loaded by this process. `None` on file systems without locks.
    pub async fn mark_loaded(&self, id: &ThreadId) -> Result<Option<LoadedMark>> {
        // In a database, a thread has one owner.
        if self.shared.is_some() {
            return Ok(None);
        }
        let Some(run) = self.begin_run().await? else { return Ok(None) };
        let id = id.clone();
        self.run(WorkLane::Append, move |inner| {
            let dir = inner.layout.run_locks().join(format!("{run}.{MARKS_EXTENSION}"));
            layout::make_dir(&dir)?;
            let path = dir.join(&*id);
            match layout::create_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(StoreError::io("create", &path)(error))
                }
                _ => Ok(Some(LoadedMark { path })),
            }
        })
        .await
    }

    /// Returns another process that has loaded a thread.
    pub async fn other_writer(&self, id: &ThreadId) -> Result<Option<LiveRun>> {
        if self.shared.is_some() {
            return Ok(None);
        }
        let own = self.begin_run().await?;
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| {
            for entry in fs::read_dir(inner.layout.run_locks()).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let Some(run) =
                    name.to_str().and_then(|name| name.strip_suffix(MARKS_EXTENSION)?.strip_suffix('.'))
                else {
                    continue;
                };
                let run = RunId::from(run.to_owned());
                if own.as_ref() == Some(&run) || !entry.path().join(&*id).exists() {
                    continue;
                }
                match run_lock::state(&inner.layout, &run) {
                    RunState::Live(live) => return Ok(Some(live)),
                    // Left behind by a process that was killed.
                    RunState::Over => drop(fs::remove_dir_all(entry.path())),
                    RunState::Own => {}
                }
            }
            Ok(None)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_has_another_writer_while_its_mark_is_held() {
        let home = tempfile::tempdir().unwrap();
        let first = Store::open(home.path()).unwrap();
        let second = Store::open(home.path()).unwrap();
        let id = ThreadId::from("0199a213-81c0-7800-8aa1-bbab2a035a53");
        let mark = first.mark_loaded(&id).await.unwrap();
        assert!(first.other_writer(&id).await.unwrap().is_none());
        assert!(second.other_writer(&id).await.unwrap().is_some());
        drop(mark);
        assert!(second.other_writer(&id).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn the_marks_of_a_store_that_is_closed_do_not_count() {
        let home = tempfile::tempdir().unwrap();
        let first = Store::open(home.path()).unwrap();
        let second = Store::open(home.path()).unwrap();
        let id = ThreadId::from("0199a213-81c0-7800-8aa1-bbab2a035a53");
        let mark = first.mark_loaded(&id).await.unwrap().unwrap();
        std::mem::forget(mark);
        drop(first);
        assert!(second.other_writer(&id).await.unwrap().is_none());
    }
}
