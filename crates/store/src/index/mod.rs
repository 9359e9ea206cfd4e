//! The index of all threads: what lists, filters, searches and look-ups by id need, in one SQLite file.
//!
//! It follows the files and never leads: an append is on disk before it is noted here, and whatever
//! differs from the files is read from them again. All functions here block; the store calls them on
//! threads where that is fine. The lock on the database is held for one query, one batch of rows or one
//! look at the directories at a time.
//!
//! `changes` holds what appends have noted, `tree` finds files that the index does not know, `backlog`
//! holds those files until `reading` has read them, and `listing` answers when that changes nothing more.

mod backlog;
mod changes;
mod db;
mod listing;
mod query;
mod reading;
mod rows;
mod tree;

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use codicil_protocol::ThreadId;
use parking_lot::{Mutex, MutexGuard};
use rusqlite::Connection;

pub use backlog::BacklogProgress;
pub use changes::SummaryChange;

use crate::{
    error::{Result, StoreError, is_busy},
    index::{
        backlog::IndexBacklog,
        changes::{ChangeNote, PendingChanges, TakenChanges},
        db::IndexDb,
        tree::{ActiveDirectories, DirectoryTree},
    },
    layout::{FileName, HomeLayout},
    pool::LOCK_TIME,
    scan::FileScanner,
    summary::ThreadSummary,
};

/// The pause before the next attempt at an index that another process has locked.
const PAUSE: Duration = Duration::from_millis(5);

/// The index of one home.
pub struct ThreadIndex {
    layout: HomeLayout,
    state: Mutex<IndexState>,
    changes: PendingChanges,
    backlog: IndexBacklog,
    active: ActiveDirectories,
    /// Everything that runs in the background, for [`Index::close`] to wait for.
    threads: Mutex<ThreadTable>,
}

#[derive(Default)]
struct IndexState {
    open: Option<OpenIndex>,
    /// How often another index took the place of one that could not be used.
    replaced: usize,
    /// When another process last kept the index locked for all of [`LOCK_TIME`].
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
    /// Costs nothing: the file is opened when it is first needed.
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

    /// Call before this process changes anything in a directory of threads.
    pub fn enter(&self, dir: &str) {
        self.active.enter(&self.layout, dir);
    }

    /// A thread has begun.
    pub fn created(self: &Arc<Self>, row: ThreadSummary) {
        self.changes.created(row);
        self.start_writer();
    }

    /// Something was appended to the file of a thread.
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

    /// The row of one thread, if the index has it and its file looks as the index says.
    pub fn get(&self, id: &ThreadId) -> Result<Option<ThreadSummary>> {
        let row = self.with(|open| rows::get(&open.db.connection, id).map_err(open.db.failed()))?;
        Ok(row.filter(|row| self.stale(row).is_none()))
    }

    /// Puts a row that was just read from its file.
    pub fn put(&self, row: &ThreadSummary) -> Result<()> {
        self.with(|open| open.db.transaction(|connection| self.keep(connection, row, None)))
    }

    /// Forgets a thread whose file is gone.
    pub fn forget(&self, id: &ThreadId) -> Result<()> {
        self.with(|open| open.db.transaction(|connection| rows::remove(connection, id)))
    }

    /// The threads that name another one as their parent, in order.
    pub fn children(&self, id: &ThreadId) -> Result<Vec<ThreadId>> {
        self.with(|open| rows::children(&open.db.connection, id).map_err(open.db.failed()))
    }

    /// Writes what has been noted.
    pub fn flush(&self) -> Result<()> {
        self.with(|_| Ok(()))
    }

    /// Ends everything that runs in the background, after the notes are written.
    pub fn close(&self) {
        self.stop();
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads.writer.into_iter().chain(threads.readers) {
            // A panic in there has been reported by its hook; there is nothing left to do for it.
            let _ = thread.join();
        }
        let mut state = self.lock();
        state.closed = true;
        state.open = None;
    }

    /// Tells the background to end, without waiting for it.
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
        // Without it the notes wait for the next list, which writes them as well.
        threads.writer = writer.ok();
    }

    fn write_notes(&self) {
        loop {
            let more = self.changes.wait();
            if let Err(error) = self.flush() {
                tracing::warn!(%error, "cannot write the index of threads");
            }
            if !more {
                return;
            }
        }
    }

    /// Does something with the index, opened and with all notes written. If it turns out to be damaged it
    /// is made anew, if the disk is full one in memory takes its place, and the work is done with that.
    fn with<T>(&self, mut work: impl FnMut(&mut OpenIndex) -> Result<T>) -> Result<T> {
        let mut state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let begun = Instant::now();
        // What waits for this lock meanwhile does not wait as long again: each request has the deadline once.
        let patience = match state.given_up {
            Some(given_up) if given_up.elapsed() < LOCK_TIME => Duration::ZERO,
            _ => LOCK_TIME,
        };
        let mut may_replace = true;
        loop {
            let result = self.attempt(&mut state, &mut work);
            match result {
                // SQLite waits for other processes by itself, but not while one opens or closes the file.
                Err(error) if error.is_busy() && begun.elapsed() < patience => thread::sleep(PAUSE),
                Err(StoreError::Index { path, source }) if is_busy(&source) => {
                    state.given_up = Some(Instant::now());
                    tracing::debug!(%source, "the index stays locked");
                    return Err(StoreError::Locked { path });
                }
                Err(StoreError::Index { path, source }) if may_replace && db::is_unusable(&source) => {
                    may_replace = false;
                    // Closed first: a file that is to be made anew must not be in use.
                    state.open = None;
                    state.open = Some(OpenIndex {
                        db: IndexDb::instead(&path, source)?,
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
        // The index has not seen this thread yet, so a change to it is not enough.
        let Some(name) = FileName::parse(file) else { return Ok(()) };
        match FileScanner::new(&self.layout).scan(dir, file, &name, archived) {
            Ok(row) => rows::put(connection, &row),
            Err(error) => {
                tracing::debug!(%error, "a thread is gone before it got into the index");
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
