//! Reading files into the index: a few at once on the spot, many by threads in the background.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use rusqlite::Connection;

use crate::{
    error::{Result, StoreError},
    index::{
        OpenIndex, ThreadIndex,
        backlog::{BacklogProgress, BacklogRest},
        rows,
        tree::{DirectoryTree, FoundFile, ScanId},
    },
    scan::FileScanner,
    summary::{FileStamp, ThreadSummary},
};

/// Up to this many files are read on the spot; more are left to the background.
const ON_THE_SPOT: usize = 32;
/// How many threads read in the background, at most.
const MAX_READERS: usize = 4;

impl ThreadIndex {
    /// Brings the index up to date with the directories, or starts to. What is not read yet when this
    /// returns is in the backlog.
    pub fn reconcile(self: &Arc<Self>) -> Result<()> {
        self.look(|_| Ok(()))
    }

    /// Builds everything anew, telling how far it is. Returns how many threads there are.
    pub fn rebuild(self: &Arc<Self>, mut progress: impl FnMut(BacklogProgress)) -> Result<usize> {
        self.look(|open| {
            open.tree = DirectoryTree::default();
            open.db.transaction(rows::clear)
        })?;
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

    fn look(self: &Arc<Self>, mut prepare: impl FnMut(&mut OpenIndex) -> Result<()>) -> Result<()> {
        // Found and put into the backlog under one lock: a list that comes now finds it there.
        let found = self.with(|open| {
            prepare(open)?;
            let OpenIndex { db, tree } = open;
            let seen = tree.look(&self.layout, &db.connection).map_err(db.failed())?;
            if !seen.gone.is_empty() {
                db.transaction(|connection| seen.gone.iter().try_for_each(|gone| gone.take_out(connection)))?;
            }
            if seen.found.is_empty() {
                self.settle(open, &[seen.look])?;
            }
            let count = seen.found.len();
            self.backlog.add(seen.look, seen.found);
            Ok(count)
        })?;
        match found {
            0 => {}
            1..=ON_THE_SPOT if self.backlog.progress().total <= ON_THE_SPOT => {
                self.backlog.hire(usize::MAX, 1);
                self.read_backlog();
            }
            _ => self.start_readers(),
        }
        Ok(())
    }

    fn start_readers(self: &Arc<Self>) {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..self.backlog.hire(cores.min(MAX_READERS), MAX_READERS) {
            let index = self.clone();
            match thread::Builder::new().name("codicil-ingest".into()).spawn(move || index.read_backlog()) {
                Ok(reader) => self.keep_reader(reader),
                // No thread to be had: slower, but it gets done.
                Err(_) => self.read_backlog(),
            }
        }
    }

    fn keep_reader(&self, reader: JoinHandle<()>) {
        let mut threads = self.threads();
        threads.readers.retain(|reader| !reader.is_finished());
        threads.readers.push(reader);
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
                BacklogRest::Some => continue,
                BacklogRest::None(looks) => self.with(|open| self.settle(open, &looks)),
                BacklogRest::Failed(looks) => self.abandon(&looks),
            };
            if let Err(error) = finished {
                tracing::warn!(%error, "cannot complete the index of threads");
            }
        }
    }

    /// Notes that the index is complete for the directories of these looks.
    fn settle(&self, OpenIndex { db, tree }: &mut OpenIndex, looks: &[ScanId]) -> Result<()> {
        let clean: Vec<_> = looks.iter().flat_map(|look| tree.finish(*look, &self.active)).collect();
        if clean.is_empty() {
            return Ok(());
        }
        db.transaction(|connection| {
            clean.iter().try_for_each(|(dir, mtime)| rows::set_dir(connection, dir, *mtime))
        })
    }

    fn abandon(&self, looks: &[ScanId]) -> Result<()> {
        self.with(|open| {
            looks.iter().for_each(|look| open.tree.abandon(*look));
            Ok(())
        })
    }

    /// Reads files into the index.
    pub fn ingest(&self, files: &[FoundFile]) -> Result<()> {
        let mut scanner = FileScanner::new(&self.layout);
        let scanned: Vec<_> = files
            .iter()
            .map(|found| (found, scanner.scan(&found.dir, &found.file, &found.name, found.archived)))
            .collect();
        self.with(|open| {
            open.db.transaction(|connection| {
                scanned.iter().try_for_each(|(found, row)| match row {
                    Ok(row) => self.keep(connection, row, found.replaces),
                    Err(error) => skip(connection, found, error),
                })
            })
        })
    }

    /// Puts a row into the index, unless what is there is newer or comes from a better place. `replaces` is
    /// what the row said of the file when this one was begun.
    pub fn keep(
        &self,
        connection: &Connection,
        row: &ThreadSummary,
        replaces: Option<FileStamp>,
    ) -> rusqlite::Result<()> {
        let better = match rows::get(connection, &row.id)? {
            None => return rows::insert(connection, row),
            Some(known) if (&known.dir, &known.file) == (&row.dir, &row.file) => {
                replaces == Some(known.stamp) || row.stamp.is_later_than(known.stamp)
            }
            Some(known) if self.layout.absolute(&known.dir).join(&known.file).exists() => {
                known.archived && !row.archived
            }
            Some(_) => true,
        };
        if better { rows::put(connection, row) } else { Ok(()) }
    }
}

/// A file that cannot be read is left out. Its row goes only if it is the one that was found wanting:
/// another process may be just about to write the file, and have told the index since.
fn skip(connection: &Connection, found: &FoundFile, error: &StoreError) -> rusqlite::Result<()> {
    match error {
        StoreError::Io { .. } if error.io_kind() != Some(io::ErrorKind::NotFound) => {
            tracing::warn!(%error, "a thread is left out of the index");
        }
        _ => tracing::debug!(%error, "a file is left out of the index"),
    }
    match found.replaces {
        Some(stamp) => rows::remove_as_of(connection, &found.name.id, stamp),
        None => Ok(()),
    }
}
