//! Reading files into the index: a few immediately, many by background threads.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use rusqlite::Connection;

use crate::{
    error::{Result, StoreError},
    file_scanner::FileScanner,
    index::{
        OpenIndex, ThreadIndex,
        backlog::{BacklogProgress, BacklogRest},
        directory_tree::{DirectoryTree, FoundFile, ScanId},
        rows,
    },
    summary::{FileStamp, ThreadSummary},
};

/// The maximum number of files that are read immediately.
const MAX_IMMEDIATE_FILES: usize = 32;
/// The maximum number of background threads.
const MAX_READERS: usize = 4;

impl ThreadIndex {
    /// Updates the index from the directories. Files that are not read when this returns are in the backlog.
    pub fn reconcile(self: &Arc<Self>) -> Result<()> {
        self.scan(|_| Ok(()))
    }

    /// Rebuilds the index and reports progress. Returns the number of threads.
    pub fn rebuild(self: &Arc<Self>, mut progress: impl FnMut(BacklogProgress)) -> Result<usize> {
        self.scan(|open| {
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

    fn scan(self: &Arc<Self>, mut prepare: impl FnMut(&mut OpenIndex) -> Result<()>) -> Result<()> {
        // Files are found and added to the backlog under one lock, so that concurrent lists see them there.
        let found = self.with(|open| {
            prepare(open)?;
            let OpenIndex { db, tree } = open;
            let scan = tree.scan(&self.layout, &db.connection).map_err(db.failed())?;
            if !scan.gone.is_empty() {
                db.transaction(|connection| {
                    scan.gone.iter().try_for_each(|gone| gone.remove_from(connection))
                })?;
            }
            if scan.found.is_empty() {
                self.finish_scans(open, &[scan.id])?;
            }
            let count = scan.found.len();
            self.backlog.add(scan.id, scan.found);
            Ok(count)
        })?;
        match found {
            0 => {}
            1..=MAX_IMMEDIATE_FILES if self.backlog.progress().total <= MAX_IMMEDIATE_FILES => {
                self.backlog.reserve_workers(usize::MAX, 1);
                self.read_backlog();
            }
            _ => self.start_readers(),
        }
        Ok(())
    }

    fn start_readers(self: &Arc<Self>) {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..self.backlog.reserve_workers(cores.min(MAX_READERS), MAX_READERS) {
            let index = self.clone();
            match thread::Builder::new().name("codicil-ingest".into()).spawn(move || index.read_backlog()) {
                Ok(reader) => self.keep_reader(reader),
                // Without a thread the files are read here.
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
            let ingested = catch_unwind(AssertUnwindSafe(|| self.read_files(&chunk)));
            let failure = match ingested {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(_) => Some("reading threads failed unexpectedly".to_owned()),
            };
            let finished = match self.backlog.done(&chunk, failure) {
                BacklogRest::Some => continue,
                BacklogRest::None(scans) => self.with(|open| self.finish_scans(open, &scans)),
                BacklogRest::Failed(scans) => self.abandon_scans(&scans),
            };
            if let Err(error) = finished {
                tracing::warn!(%error, "failed to complete the index of threads");
            }
        }
    }

    /// Marks the index as complete for the directories of these scans.
    fn finish_scans(&self, OpenIndex { db, tree }: &mut OpenIndex, scans: &[ScanId]) -> Result<()> {
        let clean: Vec<_> = scans.iter().flat_map(|scan| tree.finish(*scan, &self.active)).collect();
        if clean.is_empty() {
            return Ok(());
        }
        db.transaction(|connection| {
            clean.iter().try_for_each(|(dir, mtime)| rows::set_dir(connection, dir, *mtime))
        })
    }

    fn abandon_scans(&self, scans: &[ScanId]) -> Result<()> {
        self.with(|open| {
            scans.iter().for_each(|scan| open.tree.abandon(*scan));
            Ok(())
        })
    }

    /// Reads files into the index.
    pub fn read_files(&self, files: &[FoundFile]) -> Result<()> {
        let mut scanner = FileScanner::new(&self.layout);
        let scanned: Vec<_> = files
            .iter()
            .map(|found| (found, scanner.scan(&found.dir, &found.file, &found.name, found.archived)))
            .collect();
        self.with(|open| {
            open.db.transaction(|connection| {
                scanned.iter().try_for_each(|(found, row)| match row {
                    Ok(row) => self.write_if_newer(connection, row, found.replaces),
                    Err(error) => skip(connection, found, error),
                })
            })
        })
    }

    /// Writes a row, unless the existing one is newer or its file takes precedence. `replaces` is the stamp of the existing row
    /// when the new one was begun.
    pub fn write_if_newer(
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

/// Skips a file that cannot be read. Its row is removed only if it still has the outdated stamp: another process may have
/// written the file and updated the index meanwhile.
fn skip(connection: &Connection, found: &FoundFile, error: &StoreError) -> rusqlite::Result<()> {
    match error {
        StoreError::Io { .. } if error.io_kind() != Some(io::ErrorKind::NotFound) => {
            tracing::warn!(%error, "cannot read a thread, leaving it out of the index");
        }
        _ => tracing::debug!(%error, "leaving a file out of the index"),
    }
    match found.replaces {
        Some(stamp) => rows::remove_as_of(connection, &found.name.id, stamp),
        None => Ok(()),
    }
}
