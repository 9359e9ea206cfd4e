//! The index of all threads: what lists, filters, searches and look-ups by id need, in one SQLite file.
//!
//! It follows the files and never leads: an append is on disk before it is noted here, and whatever
//! differs from the files is read from them again. All functions here block; the store calls them on
//! threads where that is fine. The lock on the database is held for one query, one batch of rows or one
//! look at the directories at a time.

mod backlog;
mod changes;
mod db;
mod query;
mod rows;
mod tree;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use codicil_protocol::ThreadId;
use rusqlite::{Connection, ErrorCode};

pub use backlog::Progress;
pub use changes::Change;

use crate::{
    error::{Result, StoreError},
    index::{
        backlog::{Backlog, Rest},
        changes::{Changes, Note, Taken},
        db::Db,
        query::{Rows, Select},
        tree::{Active, Found, Look, Tree},
    },
    layout::{FileName, Layout},
    list::{ListQuery, Page},
    scan::Scanner,
    summary::{FileStamp, Summary},
};

/// Up to this many files are read on the spot; more go to the backlog.
const ON_THE_SPOT: usize = 32;
/// How many threads read the backlog, at most.
const MAX_READERS: usize = 4;
/// How often a page is asked for again because files changed under it.
const MAX_REPAIRS: usize = 2;

/// The index of one home.
pub struct Index {
    layout: Layout,
    state: Mutex<State>,
    changes: Changes,
    backlog: Backlog,
    active: Active,
    /// Everything that runs in the background, for [`Index::close`] to wait for.
    threads: Mutex<Threads>,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    closed: bool,
}

struct Open {
    db: Db,
    tree: Tree,
}

#[derive(Default)]
struct Threads {
    writer: Option<JoinHandle<()>>,
    readers: Vec<JoinHandle<()>>,
}

impl Index {
    /// Costs nothing: the file is opened when it is first needed.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            state: Mutex::default(),
            changes: Changes::default(),
            backlog: Backlog::default(),
            active: Active::default(),
            threads: Mutex::default(),
        }
    }

    /// Call before this process changes anything in a directory of threads.
    pub fn enter(&self, dir: &str) {
        self.active.enter(&self.layout, dir);
    }

    /// A thread has begun.
    pub fn created(self: &Arc<Self>, row: Summary) {
        self.changes.created(row);
        self.start_writer();
    }

    /// Something was appended to the file of a thread.
    pub fn changed(self: &Arc<Self>, id: &ThreadId, dir: &str, file: &str, archived: bool, change: Change) {
        self.changes.changed(id, dir, file, archived, change);
        self.start_writer();
    }

    /// One page of the list.
    pub fn list(self: &Arc<Self>, query: &ListQuery) -> Result<Page> {
        let select = Select::new(query)?;
        self.reconcile()?;
        let mut repairs = 0;
        loop {
            let rows = self.covered(&select)?;
            if repairs < MAX_REPAIRS && self.repair(&rows)? {
                repairs += 1;
                continue;
            }
            let next_cursor = rows.next.and_then(|cursor| cursor.text());
            let threads = rows.rows.into_iter().map(|row| row.into_thread(&self.layout)).collect();
            return Ok(Page { threads, next_cursor });
        }
    }

    /// Runs a query as soon as no file that is still unread can change its answer.
    fn covered(&self, select: &Select) -> Result<Rows> {
        loop {
            let seen = self.backlog.progress();
            // Asked before the query: what gets into the index in between does no harm.
            let start = select.start.as_ref().filter(|_| select.by_creation);
            let unread = self.backlog.newest(select.archived, start);
            let rows = self.with(|open| select.run(&open.db.connection).map_err(open.db.failed()))?;
            let Some(unread) = unread else { return self.complete(rows) };
            let last = rows.rows.last().map(|row| (row.created_at, &row.id));
            if select.by_creation && rows.next.is_some() && last > Some((unread.at, &unread.id)) {
                return Ok(rows);
            }
            self.backlog.wait(seen)?;
        }
    }

    fn complete(&self, rows: Rows) -> Result<Rows> {
        match self.backlog.take_failure() {
            None => Ok(rows),
            Some(reason) => Err(StoreError::Unindexed(reason)),
        }
    }

    /// Rows whose files look different now are read again. Says whether there were any.
    fn repair(&self, rows: &Rows) -> Result<bool> {
        let stale: Vec<Found> = rows.rows.iter().filter_map(|row| self.stale(row)).collect();
        if !stale.is_empty() {
            self.ingest(&stale)?;
        }
        Ok(!stale.is_empty())
    }

    fn stale(&self, row: &Summary) -> Option<Found> {
        let stamp = FileStamp::read(&self.layout.absolute(&row.dir).join(&row.file));
        (stamp != Some(row.stamp)).then(|| Found {
            dir: row.dir.clone(),
            file: row.file.clone(),
            name: FileName { id: row.id.clone(), created_at: row.created_at },
            archived: row.archived,
            replaces: Some(row.stamp),
        })
    }

    /// Brings the index up to date with the directories, or starts to.
    fn reconcile(self: &Arc<Self>) -> Result<()> {
        let (look, found) = self.with(|Open { db, tree }| {
            tree.look(&self.layout, &db.connection).map_err(db.failed())
        })?;
        if found.len() <= ON_THE_SPOT {
            let ingested = if found.is_empty() { Ok(()) } else { self.ingest(&found) };
            return self.finish(&[look], ingested.is_ok()).and(ingested);
        }
        self.start_readers(look, found);
        Ok(())
    }

    fn finish(&self, looks: &[Look], complete: bool) -> Result<()> {
        self.with(|Open { db, tree }| {
            if !complete {
                looks.iter().for_each(|look| tree.abandon(*look));
                return Ok(());
            }
            db.transaction(|connection| {
                looks.iter().try_for_each(|look| tree.finish(*look, connection, &self.active))
            })
        })
    }

    /// Reads files into the index.
    fn ingest(&self, files: &[Found]) -> Result<()> {
        let mut scanner = Scanner::new(&self.layout);
        let scanned: Vec<_> = files
            .iter()
            .map(|found| (found, scanner.scan(&found.dir, &found.file, &found.name, found.archived)))
            .collect();
        self.with(|open| {
            open.db.transaction(|connection| {
                scanned.iter().try_for_each(|(found, row)| match row {
                    Ok(row) => self.keep(connection, found, row),
                    Err(error) => skip(connection, found, error),
                })
            })
        })
    }

    /// Puts a row into the index, unless what is there is newer or comes from a better place.
    fn keep(&self, connection: &Connection, found: &Found, row: &Summary) -> rusqlite::Result<()> {
        let replaces = match rows::get(connection, &row.id)? {
            None => return rows::insert(connection, row),
            Some(known) if (&known.dir, &known.file) == (&row.dir, &row.file) => {
                found.replaces == Some(known.stamp) || row.stamp.mtime > known.stamp.mtime
            }
            Some(known) if self.layout.absolute(&known.dir).join(&known.file).exists() => {
                known.archived && !row.archived
            }
            Some(_) => true,
        };
        if replaces { rows::put(connection, row) } else { Ok(()) }
    }

    fn start_readers(self: &Arc<Self>, look: Look, found: Vec<Found>) {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let missing = self.backlog.add(look, found, cores.min(MAX_READERS));
        let mut threads = self.threads();
        threads.readers.retain(|reader| !reader.is_finished());
        for _ in 0..missing {
            let index = self.clone();
            match thread::Builder::new().name("codicil-ingest".into()).spawn(move || index.read_backlog()) {
                Ok(reader) => threads.readers.push(reader),
                // No thread to be had: slower, but it gets done.
                Err(_) => self.read_backlog(),
            }
        }
    }

    fn read_backlog(&self) {
        while let Some(chunk) = self.backlog.take() {
            let ingested = catch_unwind(AssertUnwindSafe(|| self.ingest(&chunk)));
            let failure = match ingested {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("reading threads failed unexpectedly".to_owned()),
            };
            let finished = match self.backlog.done(&chunk, failure) {
                Rest::Some => continue,
                Rest::None(looks) => self.finish(&looks, true),
                Rest::Failed(looks) => self.finish(&looks, false),
            };
            if let Err(error) = finished {
                tracing::warn!(%error, "cannot complete the index of threads");
            }
        }
    }

    /// The row of one thread, if the index has it and its file looks as the index says.
    pub fn get(&self, id: &ThreadId) -> Result<Option<Summary>> {
        let row = self.with(|open| rows::get(&open.db.connection, id).map_err(open.db.failed()))?;
        Ok(row.filter(|row| self.stale(row).is_none()))
    }

    /// Puts a row that was just read from its file.
    pub fn put(&self, row: &Summary) -> Result<()> {
        self.with(|open| open.db.transaction(|connection| rows::put(connection, row)))
    }

    /// Builds everything anew, telling how far it is.
    pub fn rebuild(self: &Arc<Self>, mut progress: impl FnMut(Progress)) -> Result<usize> {
        self.with(|open| {
            open.db.transaction(rows::clear)?;
            open.tree = Tree::default();
            Ok(())
        })?;
        self.reconcile()?;
        loop {
            let seen = self.backlog.progress();
            progress(seen);
            if seen.is_done() {
                break;
            }
            self.backlog.wait(seen)?;
        }
        if let Some(reason) = self.backlog.take_failure() {
            return Err(StoreError::Unindexed(reason));
        }
        self.with(|open| rows::count(&open.db.connection).map_err(open.db.failed()))
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
        if threads.writer.is_some() {
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

    /// Does something with the index, opened and with all notes written. A damaged one is thrown away
    /// and the work done with a new one.
    fn with<T>(&self, mut work: impl FnMut(&mut Open) -> Result<T>) -> Result<T> {
        let mut state = self.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let mut attempt = |state: &mut State| {
            let open = match &mut state.open {
                Some(open) => open,
                none => none.insert(self.open()?),
            };
            self.write_taken(open)?;
            work(open)
        };
        match attempt(&mut state) {
            Err(StoreError::Index { path, source }) if is_damage(&source) => {
                tracing::warn!(path = %path.display(), error = %source, "the index is damaged and is made anew");
                state.open = None;
                db::discard(&path)?;
                attempt(&mut state)
            }
            result => result,
        }
    }

    fn open(&self) -> Result<Open> {
        let db = Db::open(&self.layout)?;
        let tree = Tree::load(&db.connection).map_err(db.failed())?;
        Ok(Open { db, tree })
    }

    fn write_taken(&self, open: &mut Open) -> Result<()> {
        let Taken { notes, lost } = self.changes.take();
        if lost {
            open.tree = Tree::default();
        }
        if notes.is_empty() {
            return Ok(());
        }
        let written = open.db.transaction(|connection| {
            notes.iter().try_for_each(|(id, note)| self.write_note(connection, id, note))
        });
        if written.is_err() {
            self.changes.give_up();
        }
        written
    }

    fn write_note(&self, connection: &Connection, id: &ThreadId, note: &Note) -> rusqlite::Result<()> {
        let (dir, file, archived, change) = match note {
            Note::New(row) => return rows::put(connection, row),
            Note::Changed { dir, file, archived, change } => (dir, file, *archived, change),
        };
        if rows::update(connection, id, change)? {
            return Ok(());
        }
        // The index has not seen this thread yet, so a change to it is not enough.
        let Some(name) = FileName::parse(file) else { return Ok(()) };
        match Scanner::new(&self.layout).scan(dir, file, &name, archived) {
            Ok(row) => rows::put(connection, &row),
            Err(error) => {
                tracing::debug!(%error, "a thread is gone before it got into the index");
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file that cannot be read is left out, and one that is gone taken out.
fn skip(connection: &Connection, found: &Found, error: &StoreError) -> rusqlite::Result<()> {
    match error {
        StoreError::Io { .. } if error.io_kind() != Some(std::io::ErrorKind::NotFound) => {
            tracing::warn!(%error, "a thread is left out of the index");
        }
        _ => tracing::debug!(%error, "a file is left out of the index"),
    }
    rows::remove_file(connection, &found.dir, &found.file)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
