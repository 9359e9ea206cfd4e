//! Checking the threads of a backend: the tables, the lines of each thread, its texts and its list entry. Changes nothing.

use std::collections::HashSet;

use codicil_protocol::ThreadId;

use super::{SharedThreads, entry};
use crate::{
    backend::{LogEnd, TableProblem, ThreadEntry},
    blobs,
    check::{CheckProgress, CheckReport, FindingKind},
    error::{Result, StoreError},
    file_scanner, index,
    layout::FileName,
    run_lock::RunState,
    summary::ThreadSummary,
    thread_check::{self, CheckedLines},
    thread_lines::LineBlobs,
    work_pool::{WorkLane, WorkPool},
};

/// The number of times that a thread is read again because it was extended meanwhile.
const MAX_READS: usize = 8;
/// The number of texts that are read at once.
const BLOBS_AT_ONCE: usize = 16;

/// A thread as it was at one moment.
struct ReadThread {
    entry: ThreadEntry,
    bytes: Vec<u8>,
    /// Whether it was extended while it was read, every time.
    is_moving: bool,
}

impl SharedThreads {
    pub async fn check(
        &self,
        threads: Vec<ThreadId>,
        pool: &WorkPool,
        progress: &mut (impl FnMut(CheckProgress) + Send),
    ) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let total = threads.len();
        progress(CheckProgress { done: 0, total });
        self.check_tables(&mut report).await?;
        let mut known_blobs = HashSet::new();
        for (done, id) in threads.iter().enumerate() {
            progress(CheckProgress { done, total });
            match self.check_thread(id, &mut report, &mut known_blobs, pool).await {
                // Deleted meanwhile. A list entry without lines was reported with the tables.
                Err(StoreError::NotFound(_)) => {}
                checked => checked?,
            }
        }
        progress(CheckProgress { done: total, total });
        report.blobs = known_blobs.len();
        Ok(report)
    }

    async fn check_tables(&self, report: &mut CheckReport) -> Result<()> {
        let mut after = String::new();
        loop {
            let page = self.backend.check_tables(&after).await?;
            for found in page.findings {
                report.add(finding_kind(found.problem), &found.thread, None, found.message);
            }
            match page.next {
                Some(next) => after = next.to_string(),
                None => return Ok(()),
            }
        }
    }

    async fn check_thread(
        &self,
        id: &ThreadId,
        report: &mut CheckReport,
        known_blobs: &mut HashSet<String>,
        pool: &WorkPool,
    ) -> Result<()> {
        let ReadThread { entry, bytes, is_moving } = self.read_settled(id).await?;
        let (found, checked, bytes) = {
            let path = id.to_string();
            let check = move || {
                let mut found = CheckReport::default();
                let checked = thread_check::check_lines(&mut found, &path, &bytes);
                Ok((found, checked, bytes))
            };
            pool.run(WorkLane::Load, check).await?
        };
        report.absorb(found);
        let Some(CheckedLines { references, unfinished }) = checked else { return Ok(()) };
        for turn in &unfinished {
            let state = match &turn.run {
                Some(run) => self.backend.run_state(run).await?,
                None => RunState::Over,
            };
            let message = thread_check::unfinished_message(turn, |_| state);
            report.add(FindingKind::UnfinishedTurn, id, None, message);
        }
        self.check_blobs(id, &references, report, known_blobs).await?;
        if !is_moving {
            report.index_rows += 1;
            self.check_entry(entry, bytes, &references, report, pool).await?;
        }
        Ok(())
    }

    /// Reads a thread with its list entry, again if it was extended between the two.
    async fn read_settled(&self, id: &ThreadId) -> Result<ReadThread> {
        let mut reads = 0;
        loop {
            let before: Option<LogEnd> = self.backend.end(id).await?;
            let entry = self.backend.entry(id).await?;
            let bytes = self.backend.read_lines(id, 0).await?;
            let is_moving = self.backend.end(id).await? != before;
            reads += 1;
            if !is_moving || reads == MAX_READS {
                return Ok(ReadThread { entry, bytes, is_moving });
            }
        }
    }

    async fn check_blobs(
        &self,
        id: &ThreadId,
        references: &[(u64, String)],
        report: &mut CheckReport,
        known: &mut HashSet<String>,
    ) -> Result<()> {
        let new: Vec<_> = references.iter().filter(|(_, hash)| !known.contains(hash)).collect();
        for some in new.chunks(BLOBS_AT_ONCE) {
            let hashes = some.iter().map(|(_, hash)| hash.clone()).collect();
            let found = self.backend.read_blobs(hashes).await?;
            for (line, hash) in some {
                match found.get(hash) {
                    Some(content) if blobs::hash(content.as_bytes()) == *hash => {
                        known.insert(hash.clone());
                    }
                    Some(_) => {
                        let message = format!("the content of the blob {hash} does not match its name");
                        report.add(FindingKind::DamagedBlob, id, Some(*line), message);
                    }
                    None => {
                        let message = format!("the blob {hash} is missing; its text is lost");
                        report.add(FindingKind::MissingBlob, id, Some(*line), message);
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares a list entry with the one that follows from the lines.
    async fn check_entry(
        &self,
        entry: ThreadEntry,
        bytes: Vec<u8>,
        references: &[(u64, String)],
        report: &mut CheckReport,
        pool: &WorkPool,
    ) -> Result<()> {
        let hashes = references.iter().map(|(_, hash)| hash.clone()).collect();
        let blobs = LineBlobs::Read(self.backend.read_blobs(hashes).await?);
        let name = FileName { id: entry.id.clone(), created_at: entry.created_at };
        let scan = move || Ok(file_scanner::scan_lines(&bytes, &blobs, &name));
        let Some(expected) = pool.run(WorkLane::Load, scan).await? else { return Ok(()) };
        let id = entry.id.clone();
        let found = entry::row_of(entry);
        let fields = index::differing_fields(&found, &as_stored(expected, &found));
        if !fields.is_empty() {
            let message = format!("the list entry has another {}", fields.join(", "));
            report.add(FindingKind::IndexRow, &id, None, message);
        }
        Ok(())
    }
}

/// Returns a row as a database stores it: what records do not decide is that of the entry, and a database has no NUL.
fn as_stored(mut expected: ThreadSummary, found: &ThreadSummary) -> ThreadSummary {
    let storable = |text: Option<String>| text.map(|text| text.replace('\0', "\u{fffd}"));
    expected.archived = found.archived;
    expected.cwd.clone_from(&found.cwd);
    expected.preview = storable(expected.preview);
    expected.name = storable(expected.name);
    expected
}

fn finding_kind(problem: TableProblem) -> FindingKind {
    match problem {
        TableProblem::MissingLines => FindingKind::MissingRecords,
        TableProblem::DoubledLines => FindingKind::DoubledOrdinal,
        TableProblem::DecreasingEpoch => FindingKind::DecreasingEpoch,
        TableProblem::UnreadableLines => FindingKind::UnreadableLine,
        TableProblem::WrongLease => FindingKind::WrongLease,
        TableProblem::OrphanedRow => FindingKind::OrphanedRow,
    }
}
