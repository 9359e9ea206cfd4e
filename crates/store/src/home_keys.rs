//! The keys of requests that create, move or delete threads, and so have no thread's file to stand in.
//!
//! Each key is a small file in the home, named after the hash of the key, with at most two lines:
//!
//! 1. the intent: the digest of the params and, for a request that creates a thread, the id that the thread gets;
//! 2. the result.
//!
//! The intent is written before the effect and the result before the response. A process that is killed between the two
//! leaves an intent, and the repetition of the request completes it: the thread with this id exists, or is created now; a
//! thread that is archived or deleted already stays so. A result that was never stored was never sent.
//!
//! The file is locked as long as a request is carried out, so that a repetition waits, on the same server or on another
//! one with the same home. The lock ends with the process. Files are kept for a day after the result.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_protocol::ThreadId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time;

use crate::{
    backend::BackendKey,
    error::{Result, StoreError},
    file_end::WriteOnce,
    layout,
    store::{Store, StoreInner},
    work_pool::WorkLane,
};

/// The time for which a key is kept.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The time between two removals of old keys.
const CLEAN_EVERY: Duration = Duration::from_secs(60 * 60);
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What a request with a key is about to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyIntent {
    /// The hash of method and params.
    pub digest: String,
    /// The id of the thread that the request creates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    /// Whether that thread is only in memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ephemeral: bool,
}

/// The lock of a key. No other request with this key is carried out meanwhile.
pub struct HomeKeyLock {
    place: KeyPlace,
    intent: Option<KeyIntent>,
    result: Option<Box<RawValue>>,
}

/// Where a key is stored.
enum KeyPlace {
    File(KeyFile),
    Shared(Box<dyn BackendKey>),
}

/// The locked file of a key.
struct KeyFile {
    inner: Arc<StoreInner>,
    file: Arc<File>,
    path: PathBuf,
}

/// When old keys were last removed.
#[derive(Debug, Default)]
pub(crate) struct KeyCleaning(Mutex<Option<Instant>>);

impl Store {
    /// Locks a key, given by its hash. Waits as long as another request with this key is carried out.
    pub async fn lock_key(&self, key: &str) -> Result<HomeKeyLock> {
        if !layout::is_valid_id(key) {
            return Err(StoreError::InvalidId(key.to_owned()));
        }
        if let Some(shared) = &self.shared {
            let key = shared.backend.lock_key(key).await?;
            let intent = key.intent().and_then(|intent| serde_json::from_str(intent).ok());
            let result = key.result().and_then(|result| RawValue::from_string(result.to_owned()).ok());
            return Ok(HomeKeyLock { place: KeyPlace::Shared(key), intent, result });
        }
        let path = self.inner.layout.keys().join(key);
        let mut pause = FIRST_PAUSE;
        loop {
            let inner = self.inner.clone();
            let path = path.clone();
            match self.inner.pool.run(WorkLane::Append, move || HomeKeyLock::open(inner, path)).await? {
                Some(lock) => return Ok(lock),
                None => time::sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl HomeKeyLock {
    /// Returns the intent of an earlier attempt.
    pub fn intent(&self) -> Option<&KeyIntent> {
        self.intent.as_ref()
    }

    /// Returns the result of the request, if it was carried out.
    pub fn result(&self) -> Option<&RawValue> {
        self.result.as_deref()
    }

    /// Stores the intent. Replaces what an earlier attempt has left.
    pub async fn begin(&mut self, intent: KeyIntent) -> Result<()> {
        // Writing it again could lose the id of a thread that the earlier attempt has created.
        if self.result.is_none() && self.intent.as_ref() == Some(&intent) {
            return Ok(());
        }
        let line = serde_json::to_string(&intent)?;
        self.result = None;
        match &mut self.place {
            KeyPlace::File(file) => file.write(line, WriteFrom::Start).await?,
            KeyPlace::Shared(key) => key.begin(line).await?,
        }
        self.intent = Some(intent);
        Ok(())
    }

    /// Stores the result and unlocks the key.
    pub async fn finish(self, result: &RawValue) -> Result<()> {
        let result = result.get().to_owned();
        match self.place {
            KeyPlace::File(file) => file.write(result, WriteFrom::End).await,
            KeyPlace::Shared(key) => key.finish(result).await,
        }
    }

    /// Forgets the key, because the request has failed without an effect.
    pub async fn forget(self) {
        let removed = match self.place {
            KeyPlace::File(file) => file.remove().await,
            KeyPlace::Shared(key) => key.forget().await,
        };
        if let Err(error) = removed {
            tracing::warn!("failed to remove the key of a failed request: {error}");
        }
    }
}

impl KeyFile {
    async fn remove(&self) -> Result<()> {
        let path = self.path.clone();
        let remove = move || fs::remove_file(&path).map_err(StoreError::io("delete", &path));
        self.inner.pool.run(WorkLane::Append, remove).await
    }

    async fn write(&self, line: String, from: WriteFrom) -> Result<()> {
        let file = self.file.clone();
        let path = self.path.clone();
        let write = move || {
            let failed = || StoreError::io("write", &path);
            let mut file = &*file;
            if from == WriteFrom::Start {
                file.set_len(0).map_err(failed())?;
            }
            file.seek(SeekFrom::End(0)).map_err(failed())?;
            file.write_all_once(format!("{line}\n").as_bytes()).map_err(failed())
        };
        self.inner.pool.run(WorkLane::Append, write).await
    }
}

impl HomeKeyLock {
    /// Opens and locks the file; `None` if the lock is held, or if the file was removed meanwhile.
    fn open(inner: Arc<StoreInner>, path: PathBuf) -> Result<Option<Self>> {
        let dir = inner.layout.keys();
        layout::make_dir(&dir)?;
        inner.key_cleaning.clean(&dir);
        let failed = || StoreError::io("open", &path);
        let mut options = OpenOptions::new();
        options.create(true).read(true).write(true).truncate(false).mode(0o600);
        let file = layout::open_regular_with(&mut options, &path).map_err(failed())?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => {
                return Err(StoreError::io("lock", &path)(error));
            }
            _ => {}
        }
        if !is_same_file(&file, &path) {
            return Ok(None);
        }
        let mut text = String::new();
        (&file).read_to_string(&mut text).map_err(StoreError::io("read", &path))?;
        let (intent, result) = read_lines(&text);
        // A torn line was never acted upon.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed())?;
        }
        let place = KeyPlace::File(KeyFile { inner, file: Arc::new(file), path });
        Ok(Some(Self { place, intent, result }))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteFrom {
    Start,
    End,
}

/// Reads the intent and the result. A line without its newline is torn.
fn read_lines(text: &str) -> (Option<KeyIntent>, Option<Box<RawValue>>) {
    let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    let intent = lines.next().and_then(|line| serde_json::from_str(line).ok());
    let result = lines.next().filter(|_| intent.is_some());
    (intent, result.and_then(|line| RawValue::from_string(line.to_owned()).ok()))
}

/// Returns whether the path still leads to this file. Old keys are removed under their lock.
fn is_same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(opened), Ok(named)) => (opened.dev(), opened.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

impl KeyCleaning {
    /// Removes old keys, at most once an hour.
    fn clean(&self, dir: &Path) {
        {
            let mut last = self.0.lock();
            if last.is_some_and(|last| last.elapsed() < CLEAN_EVERY) {
                return;
            }
            *last = Some(Instant::now());
        }
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|found| found.modified());
            let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > KEPT));
            if is_old
                && let Ok(file) = layout::open_regular(&entry.path())
                && file.try_lock().is_ok()
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
