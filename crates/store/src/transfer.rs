//! Copying threads from one store to another: from files to a database, and back.
//!
//! A thread is copied with its lines, blobs and place in the archive. What is there already stays, and a copy that was cut off
//! is completed, so the transfer can be repeated.

use codicil_protocol::ThreadId;

use crate::{
    backend::{AppendOutcome, EntryChange, LineBatch, LogEnd, ThreadPlacement},
    blobs::{self, BlobSource},
    error::{Result, StoreError},
    file_scanner,
    layout::FileName,
    record_line,
    shared::{self, SharedThreads},
    store::Store,
    thread_lines::{LineBlobs, ThreadLines},
    thread_log::LogFile,
    work_pool::WorkLane,
};

/// The size from which lines are written in several steps.
const STEP_BYTES: usize = 16 * 1024 * 1024;

/// What has become of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferOutcome {
    Copied,
    /// It is there with the same records.
    Present,
    /// It is there with other records, and stays as it is.
    Different,
}

impl Store {
    /// Returns all threads, archived or not, each before its subagents.
    pub async fn all_threads(&self) -> Result<Vec<ThreadId>> {
        let Some(shared) = &self.shared else {
            let files = self.run(WorkLane::List, |inner| inner.index.all_files()).await?;
            return Ok(files.into_iter().rev().map(|file| file.id).collect());
        };
        let mut all: Vec<ThreadId> = Vec::new();
        loop {
            let page = shared.backend.threads_after(all.last().map_or("", |last| &**last)).await?;
            if page.is_empty() {
                return Ok(all);
            }
            all.extend(page);
        }
    }

    /// Copies a thread to another store.
    pub async fn copy_thread(&self, id: &ThreadId, to: &Self) -> Result<TransferOutcome> {
        let numbered = self.with_lines(id, |_| true, |lines| Ok(NumberedLines::of(lines))).await?;
        let outcome = match &to.shared {
            Some(shared) => numbered.copy_to_database(id, shared).await?,
            None => to.write_copy(id, &numbered).await?,
        };
        if numbered.archived && !to.find(id).await?.archived {
            to.archive(id).await?;
        }
        Ok(outcome)
    }

    /// Copies the sections and projects, unless the other store has some.
    pub async fn copy_organization(&self, to: &Self) -> Result<()> {
        let organization = self.organization().await?;
        let copy = move |other: &mut crate::Organization| {
            if *other == crate::Organization::default() {
                *other = (*organization).clone();
            }
            Ok::<_, std::convert::Infallible>(())
        };
        let Ok(()) = to.change_organization(copy).await?;
        Ok(())
    }

    async fn write_copy(&self, id: &ThreadId, copied: &NumberedLines) -> Result<TransferOutcome> {
        match self.with_lines(id, |_| false, |lines| Ok(lines.bytes.clone())).await {
            Err(StoreError::NotFound(_)) => {}
            known => return Ok(compare(&known?, &copied.bytes)),
        }
        let NumberedLines { bytes, count, blobs, created, .. } = copied.clone();
        let id = id.clone();
        self.run(WorkLane::Append, move |inner| {
            let mut written = Vec::new();
            for (_, content) in &blobs {
                blobs::save(&inner.layout, content.as_bytes(), &mut written)?;
            }
            blobs::sync(&written)?;
            let log = LogFile::write_new(inner, &id, created, |lines| {
                lines.extend_from_slice(&bytes);
                Ok(count)
            })?;
            inner.index_copy(&log.path())
        })
        .await?;
        Ok(TransferOutcome::Copied)
    }
}

/// The lines of a thread without gaps in their ordinals, and everything that they refer to.
#[derive(Clone)]
struct NumberedLines {
    bytes: Vec<u8>,
    count: u64,
    blobs: Vec<(String, String)>,
    created: jiff::Timestamp,
    archived: bool,
}

impl NumberedLines {
    fn of(lines: &ThreadLines) -> Self {
        let records = lines.records();
        let mut bytes = Vec::with_capacity(lines.bytes.len());
        let mut count = 0;
        for (_, head) in records.heads() {
            record_line::write(&mut bytes, count, head.timestamp, head.blobs, head.record);
            count += 1;
        }
        let hashes = records.blob_hashes(|_| true);
        let blob = |hash: String| lines.blobs.blob(&hash).map(|content| (hash, content));
        Self {
            bytes,
            count,
            blobs: hashes.into_iter().filter_map(blob).collect(),
            created: jiff::Timestamp::from_second(lines.created_at).unwrap_or_default(),
            archived: lines.place.archived,
        }
    }

    async fn copy_to_database(&self, id: &ThreadId, to: &SharedThreads) -> Result<TransferOutcome> {
        let first = step(&self.bytes);
        let mut stored = match to.backend.read_lines(id, 0).await {
            Err(StoreError::NotFound(_)) => {
                to.backend.put_blobs(self.blobs.clone()).await?;
                let blobs = LineBlobs::Read(self.blobs.iter().cloned().collect());
                let lines = self.bytes.get(..first).unwrap_or_default().to_vec();
                to.create_from(id, self.created, lines, blobs, ThreadPlacement::default()).await?;
                first
            }
            known => {
                let known = known?;
                if known.len() >= self.bytes.len() || !self.bytes.starts_with(&known) {
                    return Ok(compare(&known, &self.bytes));
                }
                known.len()
            }
        };
        if stored < self.bytes.len() {
            let owned = to.backend.claim(id).await?;
            let mut end = owned.end;
            while stored < self.bytes.len() {
                let rest = self.bytes.get(stored..).unwrap_or_default();
                let lines = rest.get(..step(rest)).unwrap_or_default().to_vec();
                stored += lines.len();
                end = self.append_step(id, to, end, lines, stored).await?;
            }
        }
        Ok(TransferOutcome::Copied)
    }

    /// Appends some lines. The last ones come with the whole list entry.
    async fn append_step(
        &self,
        id: &ThreadId,
        to: &SharedThreads,
        end: LogEnd,
        lines: Vec<u8>,
        stored: usize,
    ) -> Result<LogEnd> {
        let next = end.next + memchr::memchr_iter(b'\n', &lines).count() as u64;
        let change = if stored < self.bytes.len() { EntryChange::default() } else { self.last_change(id)? };
        let batch = LineBatch { thread: id.clone(), end, next, lines, change };
        match to.backend.append(batch).await? {
            AppendOutcome::Appended => Ok(LogEnd { next, ..end }),
            AppendOutcome::Overtaken => Err(StoreError::Overtaken { thread: id.clone(), expected: end.next }),
        }
    }

    fn last_change(&self, id: &ThreadId) -> Result<EntryChange> {
        let name = FileName { id: id.clone(), created_at: self.created.as_second() };
        let blobs = LineBlobs::Read(self.blobs.iter().cloned().collect());
        let row = file_scanner::scan_lines(&self.bytes, &blobs, &name);
        row.map_or_else(|| Ok(EntryChange::default()), |row| shared::whole_change(&row))
    }
}

/// Returns the length of the whole lines that are written at once.
fn step(bytes: &[u8]) -> usize {
    if bytes.len() <= STEP_BYTES {
        return bytes.len();
    }
    let begin = bytes.get(..STEP_BYTES).unwrap_or(bytes);
    let whole = memchr::memrchr(b'\n', begin).map(|newline| newline + 1);
    // A line that is longer than a step is written by itself.
    whole.or_else(|| memchr::memchr(b'\n', bytes).map(|newline| newline + 1)).unwrap_or(bytes.len())
}

fn compare(known: &[u8], copied: &[u8]) -> TransferOutcome {
    if known == copied { TransferOutcome::Present } else { TransferOutcome::Different }
}
