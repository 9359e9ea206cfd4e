//! The store of one home: creating, reading, listing, moving and deleting threads.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use codicil_protocol::{GitInfo, Thread, ThreadId};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    backend::{Backend, ThreadPlacement},
    error::{Result, StoreError},
    file_scanner::FileScanner,
    fork::{self, ForkPoint},
    home_keys::KeyCleaning,
    index::{BacklogProgress, ThreadIndex},
    layout::{self, FileName, HomeLayout, ThreadLocation},
    list::{ListQuery, ListedThread, ThreadPage},
    organization::OrganizationFile,
    record::{Record, RunId, ThreadMeta},
    record_batch::RecordBatch,
    run_lock::{self, RunLock, RunState},
    search::SearchIndexing,
    search_index::SearchIndex,
    shared::SharedThreads,
    summary::ThreadSummary,
    thread::{LoadedThread, StoredThread},
    thread_lines::{LineBlobs, ThreadLines, without_history},
    thread_log::{AppendedRecords, LogFile, ThreadLog},
    unfinished_turn::RequestOutcome,
    work_pool::{WorkLane, WorkPool},
};

/// The maximum number of times that a file is located again because it was moved while it was opened.
const MAX_MOVES: usize = 4;

/// The maximum number of times that a record is written again because another process has extended the file since it was
/// opened.
const MAX_OVERTAKEN: usize = 32;

/// Threads on disk. Clones share one index and one thread pool.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<StoreInner>,
    /// Set if the threads are in a database. The rest of the home is in files then, too.
    pub(crate) shared: Option<SharedThreads>,
}

pub(crate) struct StoreInner {
    pub layout: HomeLayout,
    pub index: Arc<ThreadIndex>,
    pub pool: WorkPool,
    pub key_cleaning: KeyCleaning,
    pub organization: OrganizationFile,
    pub search_index: SearchIndex,
    pub indexing: SearchIndexing,
    run: Mutex<StoreRun>,
}

/// The run of a store.
#[derive(Default)]
enum StoreRun {
    #[default]
    NotBegun,
    Begun(RunLock),
    /// The file system has no locks.
    Unsupported,
}

impl Drop for StoreInner {
    fn drop(&mut self) {
        self.stop_indexing();
        self.index.stop();
    }
}

impl Store {
    /// Opens the store of a home. Directories, index and files are opened when they are first needed. A home that does not exist
    /// is created with the first thread.
    pub fn open(home: impl Into<PathBuf>) -> Result<Self> {
        let home = std::path::absolute(home.into()).map_err(StoreError::io("find", Path::new(".")))?;
        if fs::metadata(&home).is_ok_and(|found| !found.is_dir()) {
            return Err(StoreError::io("use", &home)(io::ErrorKind::NotADirectory.into()));
        }
        let layout = HomeLayout::new(home);
        let index = Arc::new(ThreadIndex::new(layout.clone()));
        Ok(Self {
            shared: None,
            inner: Arc::new(StoreInner {
                layout,
                index,
                pool: WorkPool::new(),
                key_cleaning: KeyCleaning::default(),
                organization: OrganizationFile::default(),
                search_index: SearchIndex::default(),
                indexing: SearchIndexing::default(),
                run: Mutex::default(),
            }),
        })
    }

    /// Opens the store of a home whose threads are in a database.
    pub fn open_shared(home: impl Into<PathBuf>, backend: Arc<dyn Backend>) -> Result<Self> {
        let mut store = Self::open(home)?;
        store.shared = Some(SharedThreads::new(backend, store.inner.layout.clone()));
        Ok(store)
    }

    /// Returns the database with the threads; `None` if they are in files.
    pub fn backend(&self) -> Option<&Arc<dyn Backend>> {
        self.shared.as_ref().map(|shared| &shared.backend)
    }

    /// Returns whether this process may start effects for its threads.
    pub fn may_act(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.backend.may_act())
    }

    pub fn home(&self) -> &Path {
        self.inner.layout.home()
    }

    /// Returns the run of this store, for the `turn` records that it writes. The first call begins it: from then on until
    /// the store is closed or the process ends, other stores see it as alive. `None` on file systems without locks.
    pub async fn begin_run(&self) -> Result<Option<RunId>> {
        if let Some(shared) = &self.shared {
            return shared.backend.begin_run().await.map(Some);
        }
        if let StoreRun::Begun(lock) = &*self.inner.run.lock() {
            return Ok(Some(lock.id.clone()));
        }
        self.run(WorkLane::Append, |inner| {
            let mut run = inner.run.lock();
            if let StoreRun::NotBegun = &*run {
                *run = RunLock::begin(&inner.layout)?.map_or(StoreRun::Unsupported, StoreRun::Begun);
            }
            Ok(match &*run {
                StoreRun::Begun(lock) => Some(lock.id.clone()),
                StoreRun::NotBegun | StoreRun::Unsupported => None,
            })
        })
        .await
    }

    /// Returns whether a run is alive, and which process it is.
    pub async fn run_state(&self, run: &RunId) -> Result<RunState> {
        if let Some(shared) = &self.shared {
            return shared.backend.run_state(run).await;
        }
        if matches!(&*self.inner.run.lock(), StoreRun::Begun(own) if own.id == *run) {
            return Ok(RunState::Own);
        }
        let run = run.clone();
        self.run(WorkLane::Load, move |inner| Ok(run_lock::state(&inner.layout, &run))).await
    }

    /// Creates a thread. When this returns, its file exists with the first record.
    pub async fn create(&self, meta: ThreadMeta) -> Result<ThreadLog> {
        self.create_with(meta, Vec::new()).await
    }

    /// Creates a thread with its first records, its settings and project, in one write.
    pub async fn create_with(&self, meta: ThreadMeta, records: Vec<Record>) -> Result<ThreadLog> {
        self.create_at(meta, records, ThreadPlacement::default()).await
    }

    /// Creates a thread where it belongs. Fails with [`StoreError::Overtaken`] if another server has taken the parent since it
    /// was loaded.
    pub async fn create_at(
        &self,
        meta: ThreadMeta,
        records: Vec<Record>,
        placement: ThreadPlacement,
    ) -> Result<ThreadLog> {
        let now = Timestamp::now();
        let batch = RecordBatch::new(records.iter().map(|record| (now, record)), false)?;
        if let Some(shared) = &self.shared {
            return Ok(ThreadLog::shared(shared.create(&meta, now, &batch, placement).await?));
        }
        let file = self.run(WorkLane::Append, move |inner| LogFile::create(inner, &meta, &batch)).await?;
        Ok(ThreadLog::new(self.inner.clone(), file))
    }

    /// Opens a stored thread for appending, and removes a torn last line.
    pub async fn open_log(&self, id: &ThreadId) -> Result<ThreadLog> {
        if let Some(shared) = &self.shared {
            return Ok(ThreadLog::shared(shared.open_log(id, None).await?));
        }
        let id = id.clone();
        let inner = self.inner.clone();
        let open = move || inner.with_location(&id, |place| LogFile::open(&id, place));
        let file = self.inner.pool.run_locking(WorkLane::Append, open).await?;
        Ok(ThreadLog::new(self.inner.clone(), file))
    }

    /// Opens a thread for appending after the records that were read. The first append fails with
    /// [`StoreError::Overtaken`] if another writer has extended the conversation since then.
    pub async fn open_log_after(&self, thread: &StoredThread) -> Result<ThreadLog> {
        if let Some(shared) = &self.shared {
            return Ok(ThreadLog::shared(shared.open_log(thread.id(), Some(thread.next_ordinal)).await?));
        }
        let id = thread.id().clone();
        let end = thread.end;
        let inner = self.inner.clone();
        let open = move || inner.with_location(&id, |place| LogFile::open_after(&id, place, end));
        let file = self.inner.pool.run_locking(WorkLane::Append, open).await?;
        Ok(ThreadLog::new(self.inner.clone(), file))
    }

    /// Returns a thread with its turns, as needed by `thread/read`.
    pub async fn read(&self, id: &ThreadId) -> Result<StoredThread> {
        self.with_lines(id, without_history, ThreadLines::read).await
    }

    /// Returns a thread with its turns and the model's history, as needed by `thread/resume`.
    pub async fn load(&self, id: &ThreadId) -> Result<LoadedThread> {
        self.with_lines(id, |_| true, ThreadLines::load).await
    }

    /// Returns the list entry of a thread, archived or not. Unlike lists, this includes threads without a user message.
    pub async fn read_summary(&self, id: &ThreadId) -> Result<Thread> {
        Ok(self.read_listed(id).await?.thread)
    }

    /// Returns the list entry of a thread with what the user has read of it.
    pub async fn read_listed(&self, id: &ThreadId) -> Result<ListedThread> {
        if let Some(shared) = &self.shared {
            return shared.summary(id).await;
        }
        let id = id.clone();
        self.run(WorkLane::List, move |inner| Ok(inner.listed(inner.summary(&id)?))).await
    }

    /// Returns a page of threads that have a user message, newest first. It reflects all earlier appends through this store and
    /// all existing files.
    pub async fn list(&self, query: ListQuery) -> Result<ThreadPage> {
        if let Some(shared) = &self.shared {
            return shared.list(&query).await;
        }
        self.run(WorkLane::List, move |inner| {
            let rows = inner.index.list(&query)?;
            let mut threads = Vec::with_capacity(rows.rows.len());
            let mut read_states = BTreeMap::new();
            for ListedThread { thread, read_state } in rows.rows.into_iter().map(|row| inner.listed(row)) {
                read_states.extend(read_state.map(|read_state| (thread.id.to_string(), read_state)));
                threads.push(thread);
            }
            let next_cursor = rows.next.and_then(|cursor| cursor.text());
            let backwards_cursor = rows.backwards.and_then(|cursor| cursor.text());
            Ok(ThreadPage { threads, read_states, next_cursor, backwards_cursor })
        })
        .await
    }

    /// Returns the location of a thread's file. The path is empty for a thread in a database.
    pub async fn find(&self, id: &ThreadId) -> Result<ThreadLocation> {
        if let Some(shared) = &self.shared {
            return shared.find(id).await;
        }
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.locate(&id)).await
    }

    /// Sets the name of a thread, loaded or not, archived or not.
    pub async fn set_name(&self, id: &ThreadId, name: &str) -> Result<AppendedRecords> {
        self.append_beside(id, Record::Name { name: name.to_owned() }).await
    }

    /// Sets the repository state of a thread, loaded or not, archived or not.
    pub async fn set_git(&self, id: &ThreadId, git: Option<GitInfo>) -> Result<AppendedRecords> {
        self.append_beside(id, Record::Git { git }).await
    }

    /// Appends a record that does not concern the conversation: a name, a repository state or a goal. It is written at
    /// whatever end the file has, also while another process runs a turn.
    pub async fn append_beside(&self, id: &ThreadId, record: Record) -> Result<AppendedRecords> {
        let records = [record];
        for _ in 0..MAX_OVERTAKEN {
            match self.open_log(id).await?.append(&records).await {
                Err(StoreError::Overtaken { .. } | StoreError::Conflict { .. }) => continue,
                result => return result,
            }
        }
        self.open_log(id).await?.append(&records).await
    }

    /// Moves a thread to the archive. Returns its new location.
    pub async fn archive(&self, id: &ThreadId) -> Result<ThreadLocation> {
        if let Some(shared) = &self.shared {
            return shared.set_archived(id, true).await;
        }
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.archive(&id)).await
    }

    /// Restores a thread from the archive. Returns its new location.
    pub async fn unarchive(&self, id: &ThreadId) -> Result<ThreadLocation> {
        if let Some(shared) = &self.shared {
            return shared.set_archived(id, false).await;
        }
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.unarchive(&id)).await
    }

    /// Deletes a thread, archived or not. Later appends to it fail. Blobs are kept, because other threads may refer to them.
    pub async fn delete(&self, id: &ThreadId) -> Result<()> {
        if let Some(shared) = &self.shared {
            return shared.backend.delete(id).await;
        }
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| {
            inner.with_location(&id, |place| inner.delete(&id, &place.path))
        })
        .await
    }

    /// Returns the threads that the agent of this thread started, as far as they are in the index.
    pub async fn children(&self, id: &ThreadId) -> Result<Vec<ThreadId>> {
        if let Some(shared) = &self.shared {
            return shared.backend.children(id).await;
        }
        let id = id.clone();
        self.run(WorkLane::List, move |inner| inner.index.children(&id)).await
    }

    /// Returns the threads from `from` on with server requests that wait for an answer, sorted by id. A few of them may have
    /// been answered meanwhile.
    pub async fn threads_with_requests(&self, from: &str) -> Result<Vec<ThreadId>> {
        if let Some(shared) = &self.shared {
            return shared.backend.threads_with_requests(from).await;
        }
        let from = from.to_owned();
        self.run(WorkLane::List, move |inner| inner.index.with_requests(&from)).await
    }

    /// Returns what has become of a server request; `None` if the thread has never had it.
    pub async fn request_outcome(&self, id: &ThreadId, request: &str) -> Result<Option<RequestOutcome>> {
        let request = request.to_owned();
        self.with_lines(id, |_| false, move |lines| Ok(RequestOutcome::find(&lines.records(), &request)))
            .await
    }

    /// Creates a thread with the records of another one, and sets `meta.forked_from`. The copies are durable after the next sync
    /// of the log.
    pub async fn fork(&self, source: &ThreadId, point: ForkPoint, mut meta: ThreadMeta) -> Result<ThreadLog> {
        meta.forked_from = Some(source.clone());
        if let Some(shared) = &self.shared {
            return Ok(ThreadLog::shared(shared.fork(source, &point, &meta).await?));
        }
        let source = source.clone();
        let file =
            self.run(WorkLane::Load, move |inner| fork::fork(inner, &inner.locate(&source)?, &point, &meta));
        Ok(ThreadLog::new(self.inner.clone(), file.await?))
    }

    /// Rebuilds the index from all files. Returns the number of threads.
    pub async fn reindex(&self, progress: impl FnMut(BacklogProgress) + Send + 'static) -> Result<usize> {
        if self.shared.is_some() {
            return Err(StoreError::Database(
                "the threads are in a database, which needs no index".to_owned(),
            ));
        }
        self.run(WorkLane::List, move |inner| inner.index.rebuild(progress)).await
    }

    /// Writes pending changes to the index for other processes. Lists of this store do this themselves.
    pub async fn flush(&self) -> Result<()> {
        if self.shared.is_some() {
            return Ok(());
        }
        self.run(WorkLane::List, move |inner| inner.index.flush()).await
    }

    /// Ends the run, and background work after writing the index. Afterwards, appending still works and lists fail.
    pub async fn close(&self) -> Result<()> {
        if let Some(shared) = &self.shared {
            return shared.backend.close().await;
        }
        self.run(WorkLane::List, move |inner| {
            *inner.run.lock() = StoreRun::default();
            inner.stop_indexing();
            inner.index.close();
            inner.search_index.close();
            Ok(())
        })
        .await
    }

    pub(crate) async fn run<T, F>(&self, lane: WorkLane, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&Arc<StoreInner>) -> Result<T> + Send + 'static,
    {
        let inner = self.inner.clone();
        self.inner.pool.run(lane, move || work(&inner)).await
    }
}

impl StoreInner {
    /// Locates a thread by the time in its id, by the index, or by searching all directories.
    pub(crate) fn locate(&self, id: &ThreadId) -> Result<ThreadLocation> {
        let known = |id| {
            let row = self.index.get(id).ok()??;
            let path = self.layout.absolute(&row.dir).join(&row.file);
            Some(ThreadLocation { path, archived: row.archived })
        };
        let found = Some(id).filter(|id| layout::is_valid_id(id)).and_then(|id| {
            self.layout.find_by_time(id).or_else(|| known(id)).or_else(|| self.layout.search(id))
        });
        found.ok_or_else(|| StoreError::NotFound(id.clone()))
    }

    /// Splits the path of a thread's file into the directory relative to the home and the name.
    pub(crate) fn split(&self, path: &Path) -> Result<(String, String)> {
        let dir = path.parent().and_then(|dir| self.layout.relative(dir));
        let file = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
        dir.zip(file).ok_or_else(|| StoreError::NotAThread {
            path: path.to_owned(),
            reason: "it is not in the directories of threads",
        })
    }

    /// Adds a new file with copied records to the index, by scanning it.
    pub(crate) fn index_copy(&self, path: &Path) -> Result<()> {
        let (dir, file) = self.split(path)?;
        if let Some(name) = FileName::parse(&file) {
            self.index.created(FileScanner::new(&self.layout).scan(&dir, &file, &name, false)?);
        }
        Ok(())
    }

    pub(crate) fn register_directory(&self, dir: &Path) {
        if let Some(dir) = self.layout.relative(dir) {
            self.index.register_directory(&dir);
        }
    }

    /// Runs `work` with the location of a thread, again if the file is moved while it is opened.
    pub(crate) fn with_location<T>(
        &self,
        id: &ThreadId,
        mut work: impl FnMut(ThreadLocation) -> Result<T>,
    ) -> Result<T> {
        for _ in 0..MAX_MOVES {
            match work(self.locate(id)?) {
                Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => continue,
                result => return result,
            }
        }
        work(self.locate(id)?)
    }

    /// Returns a row as lists show it.
    pub(crate) fn listed(&self, row: ThreadSummary) -> ListedThread {
        let read_state = row.facts.read.state(&row.id);
        let section = row.facts.section.clone();
        let project_id = row.facts.project_id.clone();
        let mut thread = row.into_thread(&self.layout);
        self.label(&mut thread, section.as_ref(), project_id.as_deref());
        ListedThread { thread, read_state }
    }

    /// Reads the file of a thread.
    pub(crate) fn lines(&self, id: &ThreadId) -> Result<ThreadLines> {
        self.with_location(id, |place| {
            let bytes = layout::read_regular(&place.path).map_err(StoreError::io("read", &place.path))?;
            let name = place.path.file_name().and_then(|name| FileName::parse(name.to_str()?));
            let created_at = name.map_or(0, |name| name.created_at);
            let blobs = LineBlobs::Home(self.layout.clone());
            Ok(ThreadLines { id: id.clone(), place, created_at, bytes, blobs })
        })
    }

    fn summary(&self, id: &ThreadId) -> Result<ThreadSummary> {
        let place = self.locate(id)?;
        let (dir, file) = self.split(&place.path)?;
        let same_file = |row: &ThreadSummary| (&row.dir, &row.file) == (&dir, &file);
        if let Some(row) = self.index.get(id).ok().flatten().filter(same_file) {
            return Ok(row);
        }
        let row = self.with_location(id, |place| self.scan(id, &place))?;
        // The result does not depend on the index; the next list repairs it.
        let _ = self.index.put(&row);
        Ok(row)
    }

    fn scan(&self, id: &ThreadId, place: &ThreadLocation) -> Result<ThreadSummary> {
        let (dir, file) = self.split(&place.path)?;
        let name = FileName::parse(&file).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        FileScanner::new(&self.layout).scan(&dir, &file, &name, place.archived)
    }

    fn archive(&self, id: &ThreadId) -> Result<ThreadLocation> {
        let place = self.locate(id)?;
        let name = place.path.file_name().and_then(|name| name.to_str()).filter(|_| !place.archived);
        let name = name.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let path = self.layout.archived_path(name);
        self.relocate(id, &place.path, ThreadLocation { path, archived: true })
    }

    fn unarchive(&self, id: &ThreadId) -> Result<ThreadLocation> {
        let place = self.locate(id)?;
        let name = place.path.file_name().and_then(|name| name.to_str()).filter(|_| place.archived);
        let path = name.and_then(|name| self.layout.restored_path(name));
        let path = path.ok_or_else(|| StoreError::NotFound(id.clone()))?;
        self.relocate(id, &place.path, ThreadLocation { path, archived: false })
    }

    fn delete(&self, id: &ThreadId, path: &Path) -> Result<()> {
        let dir = path.parent().unwrap_or(self.layout.home());
        self.register_directory(dir);
        fs::remove_file(path).map_err(StoreError::io("delete", path))?;
        layout::sync_dir(dir)?;
        // Lists check that the file exists, so they omit the thread even if this fails.
        if let Err(error) = self.index.forget(id) {
            tracing::warn!(thread = %id, %error, "failed to remove a deleted thread from the index");
        }
        Ok(())
    }

    /// Moves a file atomically.
    fn relocate(&self, id: &ThreadId, from: &Path, to: ThreadLocation) -> Result<ThreadLocation> {
        let dirs = [from.parent(), to.path.parent()].map(|dir| dir.unwrap_or(self.layout.home()));
        layout::make_dir(dirs[1])?;
        dirs.iter().for_each(|dir| self.register_directory(dir));
        if to.path.exists() {
            return Err(StoreError::Exists(id.clone()));
        }
        fs::rename(from, &to.path).map_err(StoreError::io("move", from))?;
        for dir in dirs {
            layout::sync_dir(dir)?;
        }
        // Both directories have changed, so the next list finds the file even if this fails.
        if let Err(error) = self.scan(id, &to).and_then(|row| self.index.put(&row)) {
            tracing::warn!(thread = %id, %error, "failed to add a moved thread to the index");
        }
        Ok(to)
    }
}
