//! Checking a home: reads every thread, blob and index row, and reports what is damaged. Never changes anything.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use codicil_protocol::ThreadId;
use serde::Serialize;

use crate::{
    blobs,
    error::{Result, StoreError},
    file_scanner::FileScanner,
    index::{self, IndexRows},
    layout::{self, ARCHIVED, FileName, HomeLayout, SESSIONS},
    run_lock,
    store::{Store, StoreInner},
    summary::ThreadSummary,
    thread::StoredTurn,
    thread_check::{self, is_torn},
    work_pool::WorkLane,
};

/// The maximum number of findings that are listed. Further ones are only counted.
const MAX_FINDINGS: usize = 10_000;
/// The depth of the directories of threads: years, months, days.
const DEPTH: usize = 3;

/// The result of a check.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The number of threads that were read.
    pub threads: usize,
    /// The number of their records.
    pub records: u64,
    /// The number of blobs that were read.
    pub blobs: usize,
    /// The number of index rows, in a database of list entries, that were compared.
    pub index_rows: usize,
    /// The number of findings that mean damage, including those that are not listed.
    pub problems: usize,
    /// The number of findings that are not listed.
    pub unlisted: usize,
    pub findings: Vec<CheckFinding>,
}

/// One thing that a check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckFinding {
    pub kind: FindingKind,
    /// Whether this means damage. Other findings are the traces of normal events.
    pub is_problem: bool,
    /// The file, relative to the home; the id of a thread in a database.
    pub path: String,
    /// The line of the thread, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    pub message: String,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingKind {
    /// The last line of a file is incomplete. The next append removes it.
    TornTail,
    UnreadableLine,
    UnreadableSetting,
    /// A record of a later version.
    UnknownRecord,
    /// An ordinal that is not greater than the one before.
    OutOfOrder,
    DoubledOrdinal,
    /// Ordinals without records.
    MissingRecords,
    MissingBlob,
    /// A blob whose content does not match its name.
    DamagedBlob,
    /// A turn without an end.
    UnfinishedTurn,
    /// A file with the name of a thread that cannot be read as one.
    NotAThread,
    /// A row of the index that differs from its file, or is missing. In a database, a list entry that differs from the
    /// records.
    IndexRow,
    /// An index that cannot be read.
    DamagedIndex,
    /// An epoch below the one before, in a database: a writer that was overtaken has written.
    DecreasingEpoch,
    /// A lease that does not fit its thread, in a database.
    WrongLease,
    /// A row of a table that belongs to no thread, in a database.
    OrphanedRow,
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// The number of files, in a database of threads, that have been read.
    pub done: usize,
    pub total: usize,
}

impl FindingKind {
    /// Returns whether this means damage.
    fn is_problem(self) -> bool {
        !matches!(self, Self::UnknownRecord | Self::UnfinishedTurn)
    }
}

impl CheckReport {
    /// Returns whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.problems == 0
    }

    /// Adds the findings of a part.
    pub(crate) fn absorb(&mut self, part: Self) {
        self.threads += part.threads;
        self.records += part.records;
        self.unlisted += part.unlisted;
        for CheckFinding { kind, path, line, message, .. } in part.findings {
            self.add(kind, &path, line, message);
        }
    }

    pub(crate) fn add(
        &mut self,
        kind: FindingKind,
        path: &str,
        line: Option<u64>,
        message: impl Into<String>,
    ) {
        let is_problem = kind.is_problem();
        self.problems += usize::from(is_problem);
        if self.findings.len() < MAX_FINDINGS {
            let message = message.into();
            self.findings.push(CheckFinding { kind, is_problem, path: path.to_owned(), line, message });
        } else {
            self.unlisted += 1;
        }
    }
}

impl Store {
    /// Reads every thread, blob and index row, and reports what is damaged. Servers can use the home meanwhile.
    pub async fn check(
        &self,
        mut progress: impl FnMut(CheckProgress) + Send + 'static,
    ) -> Result<CheckReport> {
        if let Some(shared) = &self.shared {
            return shared.check(self.all_threads().await?, &self.inner.pool, &mut progress).await;
        }
        self.run(WorkLane::Load, move |inner| HomeCheck::new(inner).run(progress)).await
    }
}

/// A file of the home that is to be read.
enum CheckedFile {
    Thread { dir: String, file: String, name: FileName },
    Blob(PathBuf),
}

struct HomeCheck<'a> {
    layout: &'a HomeLayout,
    report: CheckReport,
    rows: Vec<ThreadSummary>,
    /// References of records to blobs, each with its file and line.
    references: Vec<(String, u64, String)>,
    blobs: HashSet<String>,
}

impl<'a> HomeCheck<'a> {
    fn new(inner: &'a StoreInner) -> Self {
        Self {
            layout: &inner.layout,
            report: CheckReport::default(),
            rows: Vec::new(),
            references: Vec::new(),
            blobs: HashSet::new(),
        }
    }

    fn run(mut self, mut progress: impl FnMut(CheckProgress)) -> Result<CheckReport> {
        if !self.layout.home().is_dir() {
            return Err(StoreError::io("read", self.layout.home())(std::io::ErrorKind::NotFound.into()));
        }
        let files = self.files();
        let total = files.len();
        for (done, file) in files.into_iter().enumerate() {
            progress(CheckProgress { done, total });
            match file {
                CheckedFile::Thread { dir, file, name } => self.check_thread(&dir, &file, &name),
                CheckedFile::Blob(path) => self.check_blob(&path),
            }
        }
        progress(CheckProgress { done: total, total });
        for (path, line, hash) in std::mem::take(&mut self.references) {
            if !self.blobs.contains(&hash) {
                let message = format!("the blob {hash} is missing; its text is lost");
                self.report.add(FindingKind::MissingBlob, &path, Some(line), message);
            }
        }
        self.check_index();
        Ok(self.report)
    }

    /// Returns the files with the names of threads and of blobs.
    fn files(&self) -> Vec<CheckedFile> {
        let home = self.layout.home();
        let mut files = Vec::new();
        for (top, depth) in [(SESSIONS, DEPTH), (ARCHIVED, 0)] {
            for path in files_below(&home.join(top), depth) {
                let dir = path.parent().and_then(|dir| self.layout.relative(dir));
                let file = path.file_name().and_then(|name| name.to_str()).map(str::to_owned);
                let Some((dir, file)) = dir.zip(file) else { continue };
                if let Some(name) = FileName::parse(&file) {
                    files.push(CheckedFile::Thread { dir, file, name });
                }
            }
        }
        let is_blob = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() == 64);
        files.extend(files_below(&self.layout.blobs(), 1).into_iter().filter(is_blob).map(CheckedFile::Blob));
        files
    }

    fn check_thread(&mut self, dir: &str, file: &str, name: &FileName) {
        let path = format!("{dir}/{file}");
        let bytes = match read_settled(&self.layout.absolute(&path)) {
            Ok(bytes) => bytes,
            Err(error) => return self.report.add(FindingKind::NotAThread, &path, None, error.to_string()),
        };
        let Some(checked) = thread_check::check_lines(&mut self.report, &path, &bytes) else { return };
        let references = checked.references.into_iter();
        self.references.extend(references.map(|(line, hash)| (path.clone(), line, hash)));
        for turn in &checked.unfinished {
            let message = self.unfinished_message(turn);
            self.report.add(FindingKind::UnfinishedTurn, &path, None, message);
        }
        match FileScanner::new(self.layout).scan(dir, file, name, dir == ARCHIVED) {
            Ok(row) => self.rows.push(row),
            Err(error) => self.report.add(FindingKind::NotAThread, &path, None, error.to_string()),
        }
    }

    fn unfinished_message(&self, turn: &StoredTurn) -> String {
        thread_check::unfinished_message(turn, |run| run_lock::state(self.layout, run))
    }

    fn check_blob(&mut self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let relative = self.layout.relative(path).unwrap_or_default();
        self.report.blobs += 1;
        match layout::read_regular(path) {
            Ok(content) if blobs::hash(&content) == name => drop(self.blobs.insert(name)),
            Ok(_) => {
                self.blobs.insert(name);
                let message = "the content does not match the name; the text is damaged";
                self.report.add(FindingKind::DamagedBlob, &relative, None, message);
            }
            Err(error) => self.report.add(FindingKind::DamagedBlob, &relative, None, error.to_string()),
        }
    }

    /// Compares the rows of the index with the files, for directories that the index claims to know.
    fn check_index(&mut self) {
        let index = self.layout.index();
        let relative = self.layout.relative(&index).unwrap_or_default();
        if !index.exists() {
            return;
        }
        let rows = match IndexRows::read(self.layout) {
            Ok(rows) => rows,
            Err(error) => {
                let message = format!("{error}; `codicil reindex` rebuilds it");
                return self.report.add(FindingKind::DamagedIndex, &relative, None, message);
            }
        };
        self.report.index_rows = rows.count();
        for (id, message) in index::differences(self.layout, &rows, &self.rows) {
            let message = format!("the row of thread {id} {message}; `codicil reindex` corrects it");
            self.report.add(FindingKind::IndexRow, &relative, None, message);
        }
    }
}

/// Reads a file. If its last line is incomplete, reads it again while no writer can be in the middle of an append.
fn read_settled(path: &Path) -> std::io::Result<Vec<u8>> {
    let bytes = layout::read_regular(path)?;
    if !is_torn(&bytes) {
        return Ok(bytes);
    }
    let file = layout::open_regular(path)?;
    // File systems without locks have one writer, and the first reading counts.
    if file.lock_shared().is_err() {
        return Ok(bytes);
    }
    layout::read_regular(path)
}

/// Returns the regular files in the directories at a depth below `dir`, in order.
fn files_below(dir: &Path, depth: usize) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    let mut files = Vec::new();
    for entry in entries {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => files.extend(files_below(&entry.path(), depth - 1)),
            Ok(kind) if !kind.is_dir() && depth == 0 => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

/// A difference between the index and the files: the thread, and what is wrong with its row.
pub(crate) type RowDifference = (ThreadId, String);
