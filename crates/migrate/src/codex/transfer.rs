//! Imports one rollout file into one thread.
//!
//! Records are written in batches, each closed by an [`ImportMark`]. An interrupted import leaves a thread
//! that is complete up to its last mark. The next import reads the source from the start, drops the records
//! that the thread already has, and continues. Reading blocks: an import has the process for itself.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::PathBuf,
};

use codicil_protocol::ThreadId;
use codicil_store::{Record, Store, StoreError, ThreadLog};
use jiff::Timestamp;

use super::{
    ImportMode,
    convert::RolloutConverter,
    head::{HeadError, RolloutHead},
    import_mark::{ImportMark, SourceDigest},
    rollout::RolloutLine,
    source::RolloutFile,
};

/// A batch is written when it holds this many records …
const BATCH_RECORDS: usize = 512;
/// … or was converted from this many bytes.
const BATCH_BYTES: u64 = 4 << 20;
/// Maximum length of a line. A longer one fails the file.
const MAX_LINE: u64 = 256 << 20;

/// Reasons why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum RolloutError {
    #[error("cannot be opened")]
    Open(#[source] io::Error),
    #[error("cannot be read")]
    Read(#[source] io::Error),
    #[error("it is empty, or its first line is not complete")]
    NoFirstLine,
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error("a line is longer than {MAX_LINE} bytes")]
    LongLine,
    #[error("it is not the file that was imported before, and has not just grown")]
    Rewritten,
    #[error("it is shorter than what was imported before: {bytes} bytes of {imported}")]
    Shortened { bytes: u64, imported: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    Imported,
    /// The file has grown, or was renamed or archived, since the last import.
    Updated,
    Unchanged,
    /// The thread was continued here, or did not come from an import.
    Kept,
}

/// A file that was imported, or did not need to be.
#[derive(Debug)]
pub struct ImportedFile {
    pub path: PathBuf,
    pub thread: ThreadId,
    pub outcome: ImportOutcome,
    /// Number of lines that could not be parsed.
    pub skipped_lines: u64,
}

/// The import of one file.
pub(super) struct FileTransfer<'a> {
    pub store: &'a Store,
    pub file: &'a RolloutFile,
    /// Names of threads by id.
    pub names: &'a HashMap<String, String>,
    pub mode: ImportMode,
}

impl FileTransfer<'_> {
    pub async fn run(&self) -> Result<ImportedFile, RolloutError> {
        let file = codicil_store::open_regular(&self.file.path).map_err(RolloutError::Open)?;
        let file_length = file.metadata().map_err(RolloutError::Read)?.len();
        let mut lines =
            WholeLines { file: BufReader::with_capacity(256 << 10, file), read: SourceDigest::default() };
        let first = lines.next()?.ok_or(RolloutError::NoFirstLine)?;
        let head = RolloutHead::parse(&String::from_utf8_lossy(&first))?;
        let id = head.meta.id.clone();
        let imported = |outcome, skipped_lines| {
            Ok(ImportedFile { path: self.file.path.clone(), thread: id.clone(), outcome, skipped_lines })
        };
        let previous = match self.store.find_imported(&id).await? {
            None => None,
            Some(_) => match self.store.last_record(&id).await?.and_then(ImportMark::from_record) {
                Some(mark) => Some(mark),
                None => return imported(ImportOutcome::Kept, 0),
            },
        };
        let name = self.names.get(&*id).cloned();
        let is_current = |mark: &ImportMark| {
            mark.bytes == file_length && mark.name == name && mark.archived == self.file.archived
        };
        if previous.as_ref().is_some_and(is_current) {
            return imported(ImportOutcome::Unchanged, 0);
        }
        let mut writer = RecordWriter::new(self, &head, previous).await?;
        let skipped_lines = self.copy(&mut lines, &head, &mut writer).await?;
        let outcome = writer.finish(lines.read, name).await?;
        imported(outcome, skipped_lines)
    }

    /// Converts and writes all lines. Returns how many could not be parsed.
    async fn copy(
        &self,
        lines: &mut WholeLines,
        head: &RolloutHead,
        writer: &mut RecordWriter<'_>,
    ) -> Result<u64, RolloutError> {
        let mut converter = RolloutConverter::new(head);
        let mut skipped_lines = 0;
        let mut written_at = head.started_at;
        writer.add(written_at, converter.begin());
        loop {
            writer.at_line_end(&lines.read).await?;
            let Some(line) = lines.next()? else { return Ok(skipped_lines) };
            match std::str::from_utf8(&line).ok().and_then(RolloutLine::parse) {
                None => skipped_lines += 1,
                Some(line) => {
                    written_at = line.at.unwrap_or(written_at);
                    writer.add(written_at, converter.entry(line.entry));
                }
            }
        }
    }
}

/// The complete lines of a file. Text after the last newline is still being written, or torn.
struct WholeLines {
    file: BufReader<File>,
    read: SourceDigest,
}

impl WholeLines {
    fn next(&mut self) -> Result<Option<Vec<u8>>, RolloutError> {
        let mut line = Vec::new();
        (&mut self.file).take(MAX_LINE).read_until(b'\n', &mut line).map_err(RolloutError::Read)?;
        if line.last() != Some(&b'\n') {
            if line.len() as u64 >= MAX_LINE {
                return Err(RolloutError::LongLine);
            }
            return Ok(None);
        }
        self.read.add(&line);
        line.pop();
        Ok(Some(line))
    }
}

/// Collects records and writes them in batches, without those that an earlier import has written.
struct RecordWriter<'a> {
    transfer: &'a FileTransfer<'a>,
    head: &'a RolloutHead,
    log: Option<ThreadLog>,
    /// The mark of the last import.
    previous: Option<ImportMark>,
    /// Whether the bytes that the last import has read were compared with those of this one.
    is_previous_checked: bool,
    /// The mark that closes the next batch.
    mark: ImportMark,
    batch: Vec<(Timestamp, Record)>,
    /// Number of records the converter has returned, including dropped ones.
    records: u64,
}

impl<'a> RecordWriter<'a> {
    async fn new(
        transfer: &'a FileTransfer<'a>,
        head: &'a RolloutHead,
        previous: Option<ImportMark>,
    ) -> Result<Self, RolloutError> {
        let log = match &previous {
            Some(_) if transfer.mode == ImportMode::Write => {
                Some(transfer.store.open_log(&head.meta.id).await?)
            }
            _ => None,
        };
        let source = transfer.file.path.to_string_lossy().into_owned();
        let mark = previous.clone().unwrap_or(ImportMark { source, ..ImportMark::default() });
        Ok(Self {
            transfer,
            head,
            log,
            previous,
            is_previous_checked: false,
            mark,
            batch: Vec::new(),
            records: 0,
        })
    }

    fn add(&mut self, written_at: Timestamp, records: Vec<Record>) {
        let already_written = self.previous.as_ref().map_or(0, |previous| previous.records);
        for record in records {
            self.records += 1;
            if self.records > already_written {
                self.batch.push((written_at, record));
            }
        }
    }

    /// Checks the bytes that the last import has read, once they have been read again, and writes a batch
    /// that is full.
    async fn at_line_end(&mut self, read: &SourceDigest) -> Result<(), RolloutError> {
        if let Some(previous) = self.previous.as_ref().filter(|previous| previous.bytes <= read.bytes)
            && !std::mem::replace(&mut self.is_previous_checked, true)
            && !previous.ends_at(read)
        {
            return Err(RolloutError::Rewritten);
        }
        if self.batch.len() >= BATCH_RECORDS || read.bytes.saturating_sub(self.mark.bytes) >= BATCH_BYTES {
            self.advance_mark(read);
            self.write_batch().await?;
        }
        Ok(())
    }

    fn advance_mark(&mut self, read: &SourceDigest) {
        self.mark.bytes = read.bytes;
        self.mark.records = self.records;
        self.mark.sha256 = read.sha256();
    }

    async fn finish(
        mut self,
        read: SourceDigest,
        name: Option<String>,
    ) -> Result<ImportOutcome, RolloutError> {
        if let Some(previous) = self.previous.as_ref().filter(|previous| previous.bytes > read.bytes) {
            return Err(RolloutError::Shortened { bytes: read.bytes, imported: previous.bytes });
        }
        self.advance_mark(&read);
        if self.mark.name != name {
            let renamed = name.clone().map(|name| Record::Name { name });
            self.batch.extend(renamed.map(|record| (Timestamp::now(), record)));
        }
        self.mark.name = name;
        let archived = self.transfer.file.archived;
        let is_moved = self.mark.archived != archived;
        let has_changed = self.previous.as_ref() != Some(&self.mark);
        if !has_changed && !is_moved {
            return Ok(ImportOutcome::Unchanged);
        }
        if has_changed {
            self.write_batch().await?;
        }
        if is_moved && self.transfer.mode == ImportMode::Write {
            // The mark is written after the move, so that an interrupted import moves the thread next time.
            self.set_archived(archived).await?;
            self.mark.archived = archived;
            self.write_batch().await?;
        }
        if let Some(log) = &self.log {
            log.sync().await?;
        }
        Ok(if self.previous.is_some() { ImportOutcome::Updated } else { ImportOutcome::Imported })
    }

    /// Writes the collected records, followed by the mark. The first batch creates the thread.
    async fn write_batch(&mut self) -> Result<(), RolloutError> {
        let mut batch = std::mem::take(&mut self.batch);
        if self.transfer.mode == ImportMode::DryRun {
            return Ok(());
        }
        batch.push((Timestamp::now(), self.mark.to_record()));
        match &mut self.log {
            Some(log) => drop(log.append_dated(&batch).await?),
            None => {
                let meta = self.head.meta.clone();
                self.log = Some(self.transfer.store.import(meta, self.head.started_at, batch).await?);
            }
        }
        Ok(())
    }

    /// Moves the thread into or out of the archive, unless it is there already.
    async fn set_archived(&self, archived: bool) -> Result<(), RolloutError> {
        let store = self.transfer.store;
        let id = &self.head.meta.id;
        match (archived, store.find(id).await?.archived) {
            (true, false) => drop(store.archive(id).await?),
            (false, true) => drop(store.unarchive(id).await?),
            _ => {}
        }
        Ok(())
    }
}
