//! One file of the source into one thread of ours.
//!
//! Records are written in batches, each closed by a [`ImportMark`]. A run that is cut off leaves a thread that is
//! whole up to its last mark; the next run reads the source again, passes over what is there already and goes
//! on. Reading is blocking: nothing else runs in this process.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read},
};

use anyhow::{Context, bail, ensure};
use codicil_protocol::ThreadId;
use codicil_store::{Record, Store, ThreadLog};
use jiff::Timestamp;

use super::{
    convert::RolloutConverter,
    head::RolloutHead,
    mark::{ImportMark, SourceDigest},
    rollout::RolloutLine,
    source::RolloutFile,
};

/// A batch is written when it holds this many records, or
const BATCH_RECORDS: usize = 512;
/// came from this many bytes.
const BATCH_BYTES: u64 = 4 << 20;
/// No line of a thread is longer.
const MAX_LINE: u64 = 256 << 20;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportOutcome {
    Imported,
    /// It had grown, or was named or archived, since it was taken over.
    Updated,
    Unchanged,
    /// The thread went on here, or was here all along.
    Kept,
}

/// A file that was dealt with.
#[derive(Debug)]
pub struct ImportedFile {
    pub thread: ThreadId,
    pub outcome: ImportOutcome,
    /// Lines that could not be read.
    pub skipped: u64,
}

pub struct FileTransfer<'a> {
    pub store: &'a Store,
    pub file: &'a RolloutFile,
    pub names: &'a HashMap<String, String>,
    pub dry_run: bool,
}

impl FileTransfer<'_> {
    pub async fn run(&self) -> anyhow::Result<ImportedFile> {
        let file = codicil_store::open_regular(&self.file.path).context("cannot be opened")?;
        let len = file.metadata().context("cannot be read")?.len();
        let mut lines =
            WholeLines { file: BufReader::with_capacity(256 << 10, file), read: SourceDigest::default() };
        let first = lines.next()?.context("it is empty, or its first line is not complete")?;
        let head = RolloutHead::parse(&String::from_utf8_lossy(&first))?;
        let id = head.meta.id.clone();
        let done = |outcome, skipped| Ok(ImportedFile { thread: id.clone(), outcome, skipped });
        let before = match self.store.find_imported(&id).await? {
            None => None,
            Some(_) => match self.store.last_record(&id).await?.and_then(ImportMark::of) {
                Some(mark) => Some(mark),
                None => return done(ImportOutcome::Kept, 0),
            },
        };
        let name = self.names.get(&*id).cloned();
        let is_same =
            |mark: &ImportMark| mark.bytes == len && mark.name == name && mark.archived == self.file.archived;
        if before.as_ref().is_some_and(is_same) {
            return done(ImportOutcome::Unchanged, 0);
        }
        let mut writer = RecordWriter::new(self, &head, before.clone()).await?;
        let skipped = self.copy(&mut lines, &head, &mut writer).await?;
        let outcome = writer.finish(lines.read, name).await?;
        done(outcome, skipped)
    }

    /// Says how many lines could not be read.
    async fn copy(
        &self,
        lines: &mut WholeLines,
        head: &RolloutHead,
        writer: &mut RecordWriter<'_>,
    ) -> anyhow::Result<u64> {
        let mut converter = RolloutConverter::new(head);
        let (mut skipped, mut at) = (0, head.began);
        writer.add(at, converter.begin());
        loop {
            writer.at_line_end(&lines.read).await?;
            let Some(line) = lines.next()? else { return Ok(skipped) };
            match std::str::from_utf8(&line).ok().and_then(RolloutLine::parse) {
                None => skipped += 1,
                Some(line) => {
                    at = line.at.unwrap_or(at);
                    writer.add(at, converter.entry(line.entry));
                }
            }
        }
    }
}

/// The whole lines of a file. What follows the last newline is still being written, or torn.
struct WholeLines {
    file: BufReader<File>,
    read: SourceDigest,
}

impl WholeLines {
    fn next(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        (&mut self.file).take(MAX_LINE).read_until(b'\n', &mut line).context("cannot be read")?;
        if line.last() != Some(&b'\n') {
            ensure!((line.len() as u64) < MAX_LINE, "a line is longer than {MAX_LINE} bytes");
            return Ok(None);
        }
        self.read.add(&line);
        line.pop();
        Ok(Some(line))
    }
}

/// Collects records and writes them in batches, without those that an earlier run brought.
struct RecordWriter<'a> {
    transfer: &'a FileTransfer<'a>,
    head: &'a RolloutHead,
    log: Option<ThreadLog>,
    before: Option<ImportMark>,
    /// How far the thread is now.
    mark: ImportMark,
    batch: Vec<(Timestamp, Record)>,
    /// Of the converter, those passed over included.
    records: u64,
}

impl<'a> RecordWriter<'a> {
    async fn new(
        transfer: &'a FileTransfer<'a>,
        head: &'a RolloutHead,
        before: Option<ImportMark>,
    ) -> anyhow::Result<Self> {
        let log = match &before {
            Some(_) if !transfer.dry_run => Some(transfer.store.open_log(&head.meta.id).await?),
            _ => None,
        };
        let source = transfer.file.path.to_string_lossy().into_owned();
        let mark = before.clone().unwrap_or(ImportMark { source, ..ImportMark::default() });
        Ok(Self { transfer, head, log, before, mark, batch: Vec::new(), records: 0 })
    }

    fn add(&mut self, at: Timestamp, records: Vec<Record>) {
        let known = self.before.as_ref().map_or(0, |before| before.records);
        for record in records {
            self.records += 1;
            if self.records > known {
                self.batch.push((at, record));
            }
        }
    }

    async fn at_line_end(&mut self, read: &SourceDigest) -> anyhow::Result<()> {
        if let Some(before) = self.before.as_ref().filter(|before| before.bytes == read.bytes)
            && before.sha256 != read.sha256()
        {
            bail!("it is not what was taken over before, and has not just grown");
        }
        if self.batch.len() >= BATCH_RECORDS || read.bytes.saturating_sub(self.mark.bytes) >= BATCH_BYTES {
            self.note(read);
            self.write().await?;
        }
        Ok(())
    }

    fn note(&mut self, read: &SourceDigest) {
        (self.mark.bytes, self.mark.records) = (read.bytes, self.records);
        self.mark.sha256 = read.sha256();
    }

    async fn finish(mut self, read: SourceDigest, name: Option<String>) -> anyhow::Result<ImportOutcome> {
        if let Some(before) = self.before.as_ref().filter(|before| before.bytes > read.bytes) {
            bail!("it is shorter than what was taken over before: {} bytes of {}", read.bytes, before.bytes);
        }
        self.note(&read);
        if self.mark.name != name {
            let named = name.clone().map(|name| Record::Name { name });
            self.batch.extend(named.map(|record| (Timestamp::now(), record)));
        }
        self.mark.name = name;
        let archived = self.transfer.file.archived;
        let is_moved = self.mark.archived != archived;
        if self.before.as_ref() == Some(&self.mark) && !is_moved {
            return Ok(ImportOutcome::Unchanged);
        }
        if self.before.as_ref() != Some(&self.mark) {
            self.write().await?;
        }
        if is_moved && !self.transfer.dry_run {
            // Marked when it is done: a run that is cut off in between moves it the next time.
            self.relocate(archived).await?;
            self.mark.archived = archived;
            self.write().await?;
        }
        if let Some(log) = &self.log {
            log.sync().await?;
        }
        Ok(if self.before.is_some() { ImportOutcome::Updated } else { ImportOutcome::Imported })
    }

    async fn write(&mut self) -> anyhow::Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        if self.transfer.dry_run {
            return Ok(());
        }
        batch.push((Timestamp::now(), self.mark.record()?));
        match &mut self.log {
            Some(log) => log.append_dated(&batch).await?,
            None => {
                let meta = self.head.meta.clone();
                self.log = Some(self.transfer.store.import(meta, self.head.began, batch).await?);
            }
        }
        Ok(())
    }

    /// The thread may have been put away here already.
    async fn relocate(&self, archived: bool) -> anyhow::Result<()> {
        let (store, id) = (self.transfer.store, &self.head.meta.id);
        match (archived, store.find(id).await?.archived) {
            (true, false) => drop(store.archive(id).await?),
            (false, true) => drop(store.unarchive(id).await?),
            _ => {}
        }
        Ok(())
    }
}
