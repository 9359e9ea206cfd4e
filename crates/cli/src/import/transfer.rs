//! One file of the source into one thread of ours.
//!
//! Records are written in batches, each closed by a [`Mark`]. A run that is cut off leaves a thread that is
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
    convert::Converter,
    head::Head,
    mark::{Digested, Mark},
    rollout::Line,
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
pub enum Outcome {
    Imported,
    /// It had grown, or was named or archived, since it was taken over.
    Updated,
    Unchanged,
    /// The thread went on here, or was here all along.
    Kept,
}

/// A file that was dealt with.
#[derive(Debug)]
pub struct Done {
    pub thread: ThreadId,
    pub outcome: Outcome,
    /// Lines that could not be read.
    pub skipped: u64,
}

pub struct Transfer<'a> {
    pub store: &'a Store,
    pub file: &'a RolloutFile,
    pub names: &'a HashMap<String, String>,
    pub dry_run: bool,
}

impl Transfer<'_> {
    pub async fn run(&self) -> anyhow::Result<Done> {
        let file = codicil_store::open_regular(&self.file.path).context("cannot be opened")?;
        let len = file.metadata().context("cannot be read")?.len();
        let mut lines = Lines { file: BufReader::with_capacity(256 << 10, file), read: Digested::default() };
        let first = lines.next()?.context("it is empty, or its first line is not complete")?;
        let head = Head::parse(&String::from_utf8_lossy(&first))?;
        let id = head.meta.id.clone();
        let done = |outcome, skipped| Ok(Done { thread: id.clone(), outcome, skipped });
        let before = match self.store.find_imported(&id).await? {
            None => None,
            Some(_) => match self.store.last_record(&id).await?.and_then(Mark::of) {
                Some(mark) => Some(mark),
                None => return done(Outcome::Kept, 0),
            },
        };
        let name = self.names.get(&*id).cloned();
        let is_same =
            |mark: &Mark| mark.bytes == len && mark.name == name && mark.archived == self.file.archived;
        if before.as_ref().is_some_and(is_same) {
            return done(Outcome::Unchanged, 0);
        }
        let mut writer = Writer::new(self, &head, before.clone()).await?;
        let skipped = self.copy(&mut lines, &head, &mut writer).await?;
        let outcome = writer.finish(lines.read, name).await?;
        done(outcome, skipped)
    }

    /// Says how many lines could not be read.
    async fn copy(&self, lines: &mut Lines, head: &Head, writer: &mut Writer<'_>) -> anyhow::Result<u64> {
        let mut converter = Converter::new(head);
        let (mut skipped, mut at) = (0, head.began);
        writer.add(at, converter.begin());
        loop {
            writer.at_line_end(&lines.read).await?;
            let Some(line) = lines.next()? else { return Ok(skipped) };
            match std::str::from_utf8(&line).ok().and_then(Line::parse) {
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
struct Lines {
    file: BufReader<File>,
    read: Digested,
}

impl Lines {
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
struct Writer<'a> {
    transfer: &'a Transfer<'a>,
    head: &'a Head,
    log: Option<ThreadLog>,
    before: Option<Mark>,
    /// How far the thread is now.
    mark: Mark,
    batch: Vec<(Timestamp, Record)>,
    /// Of the converter, those passed over included.
    records: u64,
}

impl<'a> Writer<'a> {
    async fn new(transfer: &'a Transfer<'a>, head: &'a Head, before: Option<Mark>) -> anyhow::Result<Self> {
        let log = match &before {
            Some(_) if !transfer.dry_run => Some(transfer.store.open_log(&head.meta.id).await?),
            _ => None,
        };
        let source = transfer.file.path.to_string_lossy().into_owned();
        let mark = before.clone().unwrap_or(Mark { source, ..Mark::default() });
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

    async fn at_line_end(&mut self, read: &Digested) -> anyhow::Result<()> {
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

    fn note(&mut self, read: &Digested) {
        (self.mark.bytes, self.mark.records) = (read.bytes, self.records);
        self.mark.sha256 = read.sha256();
    }

    async fn finish(mut self, read: Digested, name: Option<String>) -> anyhow::Result<Outcome> {
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
            return Ok(Outcome::Unchanged);
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
        Ok(if self.before.is_some() { Outcome::Updated } else { Outcome::Imported })
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
