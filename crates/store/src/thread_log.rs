//! Appending to a thread's file.
//!
//! A batch of records is one `write` to a file opened for appending, under the file's lock, so that two processes never
//! interleave lines or use an ordinal twice. The file is opened for each batch and closed again. This costs some
//! microseconds per batch. In return, any number of idle threads hold no descriptors, an archived file is found at its new
//! path, and there is no cache of open files.
//!
//! Every append states the end of the file that it expects, and with it the ordinal of its first record. If another writer
//! has extended the conversation meanwhile, the append fails with [`StoreError::Overtaken`] and changes nothing.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use codicil_metrics::{METRICS, labels::AppendEnd};
use codicil_protocol::{GitInfo, ThreadGoal, ThreadId};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    backend::{Epoch, ThreadHome},
    blobs, clock,
    error::{Result, StoreError},
    facts::{FactChange, is_fact},
    file_end::{self, FileTail, WriteOnce},
    index::SummaryChange,
    layout::{self, ThreadLocation},
    record::{GOAL, KEY, POSITION, Record, ThreadMeta},
    record_batch::{RecordBatch, encode, write_meta},
    record_line::{LineHead, RecordKind},
    record_lines::RecordLines,
    record_parts::{ExtraRecord, GitRecord, GoalRecord, NameRecord, decode, extra_kind},
    shared::SharedLog,
    store::StoreInner,
    summary::{FileStamp, ThreadSummary},
    work_pool::WorkLane,
};

/// The writer of a thread's records. Holds no open file while idle.
pub struct ThreadLog {
    place: LogPlace,
}

/// Where the lines of a thread are written.
enum LogPlace {
    File { inner: Arc<StoreInner>, file: Arc<LogFile> },
    Shared(SharedLog),
}

pub(crate) struct LogFile {
    id: ThreadId,
    state: Mutex<LogState>,
}

/// The result of an append.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendedRecords {
    /// The ordinals of the appended records.
    pub ordinals: Range<u64>,
    /// The time of the first of them.
    pub at: Timestamp,
    /// Records of other writers that precede the appended ones and that this log has not seen before.
    pub adopted: Vec<AdoptedRecord>,
}

/// A record of another writer that leaves the conversation as it is, so that its position does not matter.
#[derive(Clone, Debug, PartialEq)]
pub enum AdoptedRecord {
    Name(String),
    Git(Option<GitInfo>),
    Goal(Option<ThreadGoal>),
    Fact {
        ordinal: u64,
        change: FactChange,
    },
    /// The key of a request, beside one of the others.
    Key,
    /// A place from which the positions of messages continue.
    Position,
}

struct LogState {
    place: ThreadLocation,
    /// The end of the file that the next append expects. A different length means that another process has written.
    tail: FileTail,
    /// Records of other writers that precede `tail` and that no append has returned.
    adopted: Vec<AdoptedRecord>,
    /// Whether the thread is known to have a user message.
    previewed: bool,
    /// The blobs and directories that the next sync makes durable, besides the records.
    blobs: Vec<PathBuf>,
    dirs: Vec<PathBuf>,
}

impl ThreadLog {
    pub(crate) fn new(inner: Arc<StoreInner>, file: LogFile) -> Self {
        Self { place: LogPlace::File { inner, file: Arc::new(file) } }
    }

    pub(crate) fn shared(log: SharedLog) -> Self {
        Self { place: LogPlace::Shared(log) }
    }

    pub fn id(&self) -> &ThreadId {
        match &self.place {
            LogPlace::File { file, .. } => &file.id,
            LogPlace::Shared(log) => log.id(),
        }
    }

    /// Returns the path of the file when this log last used it. Empty for a thread in a database.
    pub fn path(&self) -> PathBuf {
        match &self.place {
            LogPlace::File { file, .. } => file.path(),
            LogPlace::Shared(_) => PathBuf::new(),
        }
    }

    /// Returns where the workspace of the thread is.
    pub fn home(&self) -> &ThreadHome {
        match &self.place {
            LogPlace::File { .. } => &ThreadHome::Here,
            LogPlace::Shared(log) => log.home(),
        }
    }

    /// Returns the number of the thread's owner; `None` for files, whose lock is the fence.
    pub fn epoch(&self) -> Option<Epoch> {
        match &self.place {
            LogPlace::File { .. } => None,
            LogPlace::Shared(log) => Some(log.epoch()),
        }
    }

    /// Returns the ordinal that the next record gets, unless records of other writers are adopted first.
    pub fn next_ordinal(&self) -> u64 {
        match &self.place {
            LogPlace::File { file, .. } => file.lock().tail.next_ordinal,
            LogPlace::Shared(log) => log.next_ordinal(),
        }
    }

    fn wants_preview(&self) -> bool {
        match &self.place {
            LogPlace::File { file, .. } => !file.lock().previewed,
            LogPlace::Shared(log) => !log.is_previewed(),
        }
    }

    /// Returns whether no other process has changed the file since this log last used it. Compares only its length.
    pub async fn is_current(&self) -> bool {
        let (inner, file) = match &self.place {
            LogPlace::File { inner, file } => (inner, file.clone()),
            LogPlace::Shared(log) => return log.is_current().await,
        };
        let compare = move || {
            let state = file.lock();
            Ok(std::fs::metadata(&state.place.path).is_ok_and(|found| found.len() == state.tail.len))
        };
        inner.pool.run(WorkLane::Append, compare).await.unwrap_or(false)
    }

    /// Appends records, all or none. When this returns, the kernel has them, so they survive the end of this process. Callers
    /// wait for each append before the next. Fails with [`StoreError::Overtaken`] if another writer has extended the
    /// conversation since this log was opened or last written; so do all later appends. Fails with [`StoreError::Conflict`] if
    /// another writer has written a record that these ones depend on; they can be made again and appended.
    pub async fn append(&mut self, records: &[Record]) -> Result<AppendedRecords> {
        if records.is_empty() {
            return Ok(self.nothing_appended());
        }
        let now = Timestamp::now();
        let records = records.iter().map(|record| (now, record));
        let batch = RecordBatch::new(records, self.wants_preview())?;
        self.write(batch).await
    }

    /// Appends records with given times, all or none.
    pub async fn append_dated(&mut self, records: &[(Timestamp, Record)]) -> Result<AppendedRecords> {
        if records.is_empty() {
            return Ok(self.nothing_appended());
        }
        let records = records.iter().map(|(at, record)| (*at, record));
        let batch = RecordBatch::new(records, self.wants_preview())?;
        self.write(batch).await
    }

    fn nothing_appended(&self) -> AppendedRecords {
        let next = self.next_ordinal();
        AppendedRecords { ordinals: next..next, at: Timestamp::now(), adopted: Vec::new() }
    }

    async fn write(&self, batch: RecordBatch) -> Result<AppendedRecords> {
        let started = Instant::now();
        let appended = match &self.place {
            LogPlace::File { inner, file } => {
                let (inner, file) = (inner.clone(), file.clone());
                let pool = inner.clone();
                pool.pool.run_locking(WorkLane::Append, move || file.append(&inner, &batch)).await
            }
            LogPlace::Shared(log) => log.append(&batch).await,
        };
        METRICS.append_seconds.observe(started.elapsed());
        METRICS.appends.inc(match &appended {
            Ok(_) => AppendEnd::Stored,
            Err(StoreError::Overtaken { .. } | StoreError::Conflict { .. }) => AppendEnd::Overtaken,
            Err(_) => AppendEnd::Failed,
        });
        appended
    }

    /// Makes all appended records durable. Appending can continue meanwhile.
    pub fn sync(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        // An append to a database is durable.
        let written = match &self.place {
            LogPlace::File { inner, file } => Some((inner.clone(), file.clone())),
            LogPlace::Shared(_) => None,
        };
        async move {
            match written {
                Some((inner, file)) => inner.pool.run(WorkLane::Sync, move || file.sync()).await,
                None => Ok(()),
            }
        }
    }
}

impl LogFile {
    /// Creates the file of a new thread with its first records, which contain no message and no name.
    pub(crate) fn create(inner: &Arc<StoreInner>, meta: &ThreadMeta, batch: &RecordBatch) -> Result<Self> {
        let log = Self::write_first(inner, meta, Timestamp::now(), batch)?;
        inner.index.created(log.new_row(inner, meta, batch)?);
        Ok(log)
    }

    /// Creates the file of an imported thread with its first records.
    pub(crate) fn import(
        inner: &Arc<StoreInner>,
        meta: &ThreadMeta,
        began: Timestamp,
        batch: &RecordBatch,
    ) -> Result<Self> {
        let log = Self::write_first(inner, meta, began, batch)?;
        inner.index_copy(&log.path())?;
        Ok(log)
    }

    /// Creates a file with the first records of a thread, without its row in the index.
    fn write_first(
        inner: &Arc<StoreInner>,
        meta: &ThreadMeta,
        began: Timestamp,
        batch: &RecordBatch,
    ) -> Result<Self> {
        let mut blobs = Vec::new();
        let log = Self::write_new(inner, &meta.id, began, |bytes| {
            write_meta(bytes, meta, began)?;
            bytes.extend(encode(batch, 1, |content| {
                blobs::save(&inner.layout, content.as_bytes(), &mut blobs)
            })?);
            Ok(1 + batch.len())
        })?;
        log.lock().blobs = blobs;
        Ok(log)
    }

    /// Creates a file with the lines that `fill` writes and counts. A process that is killed leaves the whole file or none.
    /// The time in the id, if there is one, takes precedence over `began`.
    pub(crate) fn write_new(
        inner: &Arc<StoreInner>,
        id: &ThreadId,
        began: Timestamp,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<u64>,
    ) -> Result<Self> {
        if !layout::is_valid_id(id) {
            return Err(StoreError::InvalidId(id.to_string()));
        }
        let path = inner.layout.new_path(id, clock::id_time(id).unwrap_or(began));
        let dir = path.parent().unwrap_or(inner.layout.home());
        let mut bytes = Vec::new();
        let next_ordinal = fill(&mut bytes)?;
        let new_dir = layout::make_dir(dir)?;
        inner.register_directory(dir);
        layout::write_new_file(&path, &bytes).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists(id.clone()),
            _ => StoreError::io("create", &path)(error),
        })?;
        let dirs = if new_dir { ancestors(dir, inner.layout.home()) } else { vec![dir.to_owned()] };
        let tail = FileTail { len: bytes.len() as u64, next_ordinal };
        let place = ThreadLocation { path, archived: false };
        let adopted = Vec::new();
        let state = LogState { place, tail, adopted, previewed: false, blobs: Vec::new(), dirs };
        Ok(Self { id: id.clone(), state: Mutex::new(state) })
    }

    fn new_row(&self, inner: &StoreInner, meta: &ThreadMeta, batch: &RecordBatch) -> Result<ThreadSummary> {
        let state = self.lock();
        let (dir, file) = inner.split(&state.place.path)?;
        let created = layout::FileName::parse(&file).map_or(0, |name| name.created_at);
        let mut row = ThreadSummary::new(meta, dir, file, created);
        let change = batch.change_from(1);
        row.model = change.model.unwrap_or_default();
        for (ordinal, event) in change.facts {
            row.facts.apply(ordinal, &event);
        }
        row.stamp = FileStamp::read(&state.place.path).unwrap_or_default();
        Ok(row)
    }

    /// Opens the file of an existing thread, repairs its end and expects it there.
    pub(crate) fn open(id: &ThreadId, place: ThreadLocation) -> Result<Self> {
        Self::open_at(id, place, |tail, _| tail)
    }

    /// Opens the file of a thread that was read before. The first append expects the end that was read.
    pub(crate) fn open_after(id: &ThreadId, place: ThreadLocation, read: ReadEnd) -> Result<Self> {
        Self::open_at(id, place, |tail, len| {
            let ReadEnd { tail: expected, len: read_len } = read;
            // An unchanged file has at most been repaired. Ordinals that are out of order are never used again.
            if len == read_len {
                FileTail { next_ordinal: tail.next_ordinal.max(expected.next_ordinal), ..tail }
            } else {
                expected
            }
        })
    }

    /// Opens a file. `expect` gets its repaired end and the length that it had before.
    fn open_at(
        id: &ThreadId,
        place: ThreadLocation,
        expect: impl FnOnce(FileTail, u64) -> FileTail,
    ) -> Result<Self> {
        let failed = || StoreError::io("open", &place.path);
        let file = open_for_append(&place.path).map_err(failed())?;
        lock(&file, &place.path)?;
        let len = file.metadata().map_err(failed())?.len();
        let tail = expect(file_end::repair(&file, &place.path)?, len);
        let state = LogState {
            place,
            tail,
            adopted: Vec::new(),
            previewed: false,
            blobs: Vec::new(),
            dirs: Vec::new(),
        };
        Ok(Self { id: id.clone(), state: Mutex::new(state) })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.lock().place.path.clone()
    }

    fn append(&self, inner: &Arc<StoreInner>, batch: &RecordBatch) -> Result<AppendedRecords> {
        let mut state = self.lock();
        let file = self.open_again(inner, &mut state)?;
        let path = state.place.path.clone();
        let failed = || StoreError::io("append to", &path);
        lock(&file, &path)?;
        self.adopt(&file, &mut state)?;
        if state.adopted.iter().any(|record| batch.depends_on(record)) {
            let adopted = std::mem::take(&mut state.adopted);
            return Err(StoreError::Conflict { thread: self.id.clone(), adopted });
        }
        let tail = state.tail;
        let blobs = &mut state.blobs;
        let save = |content: String| blobs::save(&inner.layout, content.as_bytes(), blobs);
        let bytes = encode(batch, tail.next_ordinal, save)?;
        let (dir, name) = inner.split(&path)?;
        inner.index.register_directory(&dir);
        if let Err(error) = (&file).write_all_once(&bytes) {
            // If this fails too, the next append removes the torn end.
            let _ = file.set_len(tail.len);
            return Err(failed()(error));
        }
        let next_ordinal = tail.next_ordinal + batch.len();
        state.tail = FileTail { len: tail.len + bytes.len() as u64, next_ordinal };
        let stamp = file.metadata().map(|found| FileStamp::of(&found)).unwrap_or_default();
        let change = SummaryChange { stamp, ..batch.change_from(tail.next_ordinal) };
        state.previewed |= change.preview.is_some();
        inner.index.changed(&self.id, &dir, &name, state.place.archived, change);
        let at = batch.first_time().unwrap_or_else(Timestamp::now);
        let adopted = std::mem::take(&mut state.adopted);
        Ok(AppendedRecords { ordinals: tail.next_ordinal..next_ordinal, at, adopted })
    }

    /// Compares the end of the locked file with the expected one, and moves the expectation behind records of other
    /// writers that do not concern the conversation. Reads nothing if the length is the expected one.
    fn adopt(&self, file: &File, state: &mut LogState) -> Result<()> {
        let path = &state.place.path;
        let expected = state.tail;
        if file.metadata().map_err(StoreError::io("append to", path))?.len() == expected.len {
            return Ok(());
        }
        let overtaken = || StoreError::Overtaken { thread: self.id.clone(), expected: expected.next_ordinal };
        let found = file_end::repair(file, path)?;
        let added = found.len.checked_sub(expected.len).ok_or_else(overtaken)?;
        let mut bytes = vec![0; usize::try_from(added).unwrap_or_default()];
        file.read_exact_at(&mut bytes, expected.len).map_err(StoreError::io("read", path))?;
        let lines = RecordLines::of(&bytes);
        let adopted: Option<Vec<_>> = lines.heads().map(|(_, head)| AdoptedRecord::read(head)).collect();
        let adopted = adopted.filter(|_| lines.warnings.total == 0).ok_or_else(overtaken)?;
        let next_ordinal = expected.next_ordinal.max(found.next_ordinal);
        state.tail = FileTail { next_ordinal, ..found };
        state.adopted.extend(adopted);
        Ok(())
    }

    /// Opens the file, which is located again if it was archived or restored meanwhile.
    fn open_again(&self, inner: &StoreInner, state: &mut LogState) -> Result<File> {
        match open_for_append(&state.place.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => inner.with_location(&self.id, |place| {
                let file = open_for_append(&place.path).map_err(StoreError::io("append to", &place.path))?;
                state.place = place;
                Ok(file)
            }),
            result => result.map_err(StoreError::io("append to", &state.place.path)),
        }
    }

    fn sync(&self) -> Result<()> {
        let (path, blobs, dirs) = {
            let mut state = self.lock();
            let blobs = std::mem::take(&mut state.blobs);
            let dirs = std::mem::take(&mut state.dirs);
            (state.place.path.clone(), blobs, dirs)
        };
        let started = Instant::now();
        let synced = blobs::sync(&blobs)
            // The kernel also reports earlier write errors on a descriptor that is opened now.
            .and_then(|()| {
                layout::open_regular(&path)
                    .and_then(|file| file.sync_data())
                    .map_err(StoreError::io("sync", &path))
            })
            .and_then(|()| dirs.iter().try_for_each(|dir| layout::sync_dir(dir)));
        METRICS.fsync_seconds.observe(started.elapsed());
        if synced.is_err() {
            let mut state = self.lock();
            state.blobs.extend(blobs);
            state.dirs.extend(dirs);
        }
        synced
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, LogState> {
        self.state.lock()
    }
}

/// The end of a file when its thread was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadEnd {
    /// The end of the last whole line, and the ordinal after the highest one.
    pub tail: FileTail,
    /// The number of bytes that were read, including a torn line.
    pub len: u64,
}

impl AdoptedRecord {
    /// Reads a record; `None` if it concerns the conversation.
    pub(crate) fn read(head: LineHead<'_>) -> Option<Self> {
        match head.kind {
            // Its text is not in the line.
            _ if head.blobs => None,
            RecordKind::Name => decode::<NameRecord>(head).map(|it| Self::Name(it.name)),
            RecordKind::Git => decode::<GitRecord>(head).map(|it| Self::Git(it.git)),
            RecordKind::Extra if extra_kind(head).as_deref() == Some(GOAL) => {
                decode::<ExtraRecord<GoalRecord>>(head).map(|it| Self::Goal(it.data.goal))
            }
            RecordKind::Extra if extra_kind(head).as_deref() == Some(KEY) => Some(Self::Key),
            RecordKind::Extra if extra_kind(head).as_deref() == Some(POSITION) => Some(Self::Position),
            RecordKind::Extra if extra_kind(head).as_deref().is_some_and(is_fact) => {
                decode(head).map(|change| Self::Fact { ordinal: head.ordinal, change })
            }
            _ => None,
        }
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    layout::open_regular_with(OpenOptions::new().read(true).append(true), path)
}

/// Locks the file until it is closed. Writers hold the lock for one write, and
/// [`WorkPool::run_locking`](crate::work_pool::WorkPool::run_locking) waits for it. On network file systems without locks,
/// only one process can use a thread.
fn lock(file: &File, path: &Path) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => {
            Err(StoreError::io("lock", path)(error))
        }
        _ => Ok(()),
    }
}

fn ancestors(dir: &Path, home: &Path) -> Vec<PathBuf> {
    dir.ancestors().take_while(|dir| dir.starts_with(home)).map(Path::to_owned).collect()
}
