//! The index of all threads, for lists, filters, searches and lookups by id, in one SQLite file.
//!
//! The files are authoritative: an append is on disk before its change is recorded here, and rows that differ from their
//! files are read again. All functions block; the store calls them on blocking threads. The lock of the database is held for
//! one query, one batch of rows or one scan of the directories at a time.
//!
//! `changes` holds the changes of appends, `directory_tree` finds files that are missing from the index, `backlog` queues
//! them, `ingest` reads them, and `listing` runs queries.

mod backlog;
mod changes;
mod database;
mod directory_tree;
mod ingest;
mod labels;
mod listing;
mod query;
mod rows;
mod verify;

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use codicil_protocol::ThreadId;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

pub use backlog::BacklogProgress;
pub use changes::{GitChange, SummaryChange};
pub use labels::IndexedFile;
pub use query::RowPage;
pub use verify::{IndexRows, differences, differing_fields};

use crate::{
    error::{Result, StoreError, is_busy},
    file_scanner::FileScanner,
    index::{
        backlog::IndexBacklog,
        changes::{ChangeNote, PendingChanges, TakenChanges},
        database::IndexDb,
        directory_tree::{ActiveDirectories, DirectoryTree},
    },
    layout::{FileName, HomeLayout},
    summary::ThreadSummary,
    work_pool::LOCK_TIME,
};

/// The delay between attempts to use an index that another process has locked.
const PAUSE: Duration = Duration::from_millis(5);

/// The index of one home.
pub struct ThreadIndex {
    layout: HomeLayout,
    state: Mutex<IndexState>,
    changes: PendingChanges,
    backlog: IndexBacklog,
    active: ActiveDirectories,
    /// The background threads, which [`ThreadIndex::close`] joins.
    threads: Mutex<ThreadTable>,
}

#[derive(Default)]
struct IndexState {
    open: Option<OpenIndex>,
    /// The number of times that an unusable index was replaced.
    replaced: usize,
    /// The last time that another process kept the index locked for [`LOCK_TIME`].
    given_up: Option<Instant>,
    closed: bool,
}

struct OpenIndex {
    db: IndexDb,
    tree: DirectoryTree,
}

#[derive(Default)]
struct ThreadTable {
    writer: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl ThreadIndex {
    /// Returns an index whose file is opened when it is first needed.
    pub fn new(layout: HomeLayout) -> Self {
        Self {
            layout,
            state: Mutex::default(),
            changes: PendingChanges::default(),
            backlog: IndexBacklog::default(),
            active: ActiveDirectories::default(),
            threads: Mutex::default(),
        }
    }

    /// Registers a directory before this process changes it.
    pub fn register_directory(&self, dir: &str) {
        self.active.register_directory(&self.layout, dir);
    }

    /// Records a new thread.
    pub fn created(self: &Arc<Self>, row: ThreadSummary) {
        self.changes.created(row);
        self.start_writer();
    }

    /// Records an append to the file of a thread.
    pub fn changed(
        self: &Arc<Self>,
        id: &ThreadId,
        dir: &str,
        file: &str,
        archived: bool,
        change: SummaryChange,
    ) {
        self.changes.changed(id, dir, file, archived, change);
        self.start_writer();
    }

    /// Returns the row of a thread, if the index has it and it agrees with the file.
    pub fn get(&self, id: &ThreadId) -> Result<Option<ThreadSummary>> {
        let row = self.with(|open| rows::get(&open.db.connection, id).map_err(open.db.failed()))?;
        Ok(row.filter(|row| self.changed_file(row).is_none()))
    }

    /// Writes a row that was read from its file.
    pub fn put(&self, row: &ThreadSummary) -> Result<()> {
        self.with(|open| open.db.transaction(|connection| self.write_if_newer(connection, row, None)))
    }

    /// Removes a thread whose file was deleted.
    pub fn forget(&self, id: &ThreadId) -> Result<()> {
        self.with(|open| open.db.transaction(|connection| rows::remove(connection, id)))
    }

    /// Returns the children of a thread, sorted by id.
    pub fn children(&self, id: &ThreadId) -> Result<Vec<ThreadId>> {
        self.with(|open| rows::children(&open.db.connection, id).map_err(open.db.failed()))
    }

    /// Returns the threads from `from` on that have open requests, sorted by id.
    pub fn with_requests(self: &Arc<Self>, from: &str) -> Result<Vec<ThreadId>> {
        self.complete(|connection| rows::with_requests(connection, from))
    }

    /// Writes pending changes.
    pub fn flush(&self) -> Result<()> {
        self.with(|_| Ok(()))
    }

    /// Ends the background threads after writing pending changes.
    pub fn close(&self) {
        self.stop();
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads.writer.into_iter().chain(threads.readers) {
            // A panic has been reported by the panic hook.
            let _ = thread.join();
        }
        let mut state = self.lock();
        state.closed = true;
        state.open = None;
    }

    /// Signals the background threads to end, without waiting for them.
    pub fn stop(&self) {
        self.backlog.close();
        self.changes.close();
    }

    fn start_writer(self: &Arc<Self>) {
        let mut threads = self.threads();
        if threads.writer.is_some() || self.changes.is_closed() {
            return;
        }
        let index = self.clone();
        let writer = thread::Builder::new().name("codicil-index".into()).spawn(move || index.write_notes());
        // Without the thread, the next list writes the changes.
        threads.writer = writer.ok();
    }

    fn write_notes(&self) {
        loop {
            let more = self.changes.wait();
            if let Err(error) = self.flush() {
                tracing::warn!(%error, "failed to write the index of threads");
            }
            if !more {
                return;
            }
        }
    }

    /// Runs `work` on the open index after writing pending changes. A damaged index is recreated, one on a full disk is replaced
    /// by one in memory, and `work` is run again.
    fn with<T>(&self, mut work: impl FnMut(&mut OpenIndex) -> Result<T>) -> Result<T> {
        let mut state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let started = Instant::now();
        // Requests that waited for this lock do not wait again for the whole deadline.
        let patience = match state.given_up {
            Some(given_up) if given_up.elapsed() < LOCK_TIME => Duration::ZERO,
            _ => LOCK_TIME,
        };
        let mut may_replace = true;
        loop {
            let result = self.attempt(&mut state, &mut work);
            match result {
                // SQLite waits for other processes itself, except while one opens or closes the file.
                Err(error) if error.is_busy() && started.elapsed() < patience => thread::sleep(PAUSE),
                Err(StoreError::Index { path, source }) if is_busy(&source) => {
                    state.given_up = Some(Instant::now());
                    tracing::debug!(%source, "the index is still locked");
                    return Err(StoreError::Locked { path });
                }
                Err(StoreError::Index { path, source }) if may_replace && database::is_unusable(&source) => {
                    may_replace = false;
                    // The index is closed first, because its file is replaced.
                    state.open = None;
                    state.open = Some(OpenIndex {
                        db: IndexDb::replacement(&path, source)?,
                        tree: DirectoryTree::default(),
                    });
                    state.replaced += 1;
                }
                result => {
                    state.given_up = None;
                    return result;
                }
            }
        }
    }

    fn attempt<T>(
        &self,
        state: &mut IndexState,
        work: &mut impl FnMut(&mut OpenIndex) -> Result<T>,
    ) -> Result<T> {
        let open = match &mut state.open {
            Some(open) => open,
            none => none.insert(self.open()?),
        };
        self.write_taken(open)?;
        work(open)
    }

    fn open(&self) -> Result<OpenIndex> {
        let db = IndexDb::open(&self.layout)?;
        let tree = DirectoryTree::load(&db.connection).map_err(db.failed())?;
        Ok(OpenIndex { db, tree })
    }

    fn write_taken(&self, open: &mut OpenIndex) -> Result<()> {
        let TakenChanges { notes, lost } = self.changes.take();
        if lost {
            open.tree = DirectoryTree::default();
        }
        if notes.is_empty() {
            return Ok(());
        }
        let written = open.db.transaction(|connection| {
            notes.iter().try_for_each(|(id, note)| self.write_note(connection, id, note))
        });
        match &written {
            Err(error) if error.is_busy() => self.changes.give_back(notes),
            Err(_) => self.changes.give_up(),
            Ok(()) => {}
        }
        written
    }

    fn write_note(&self, connection: &Connection, id: &ThreadId, note: &ChangeNote) -> rusqlite::Result<()> {
        let (dir, file, archived, change) = match note {
            ChangeNote::New(row) => return rows::put(connection, row),
            ChangeNote::Changed { dir, file, archived, change } => (dir, file, *archived, change),
        };
        if rows::update(connection, id, change)? {
            return Ok(());
        }
        // The index does not contain this thread yet, so the whole row is needed.
        let Some(name) = FileName::parse(file) else { return Ok(()) };
        match FileScanner::new(&self.layout).scan(dir, file, &name, archived) {
            Ok(row) => rows::put(connection, &row),
            Err(error) => {
                tracing::debug!(thread = %id, %error, "a thread was removed before it was indexed");
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock()
    }

    fn threads(&self) -> MutexGuard<'_, ThreadTable> {
        self.threads.lock()
    }
}
