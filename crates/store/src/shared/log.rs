//! Appending to a thread of a backend.
//!
//! An append that is overtaken looks at what was written: records that leave the conversation as it is, such as names, are
//! adopted, and the append is repeated behind them. They come from this server, which alone may write at its epoch.

use std::sync::Arc;

use codicil_protocol::ThreadId;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{entry, keep_blob};
use crate::{
    backend::{
        AppendOutcome, Backend, EntryChange, Epoch, LineBatch, LogEnd, OwnedLog, OwnerHold, ThreadHome,
    },
    error::{Result, StoreError},
    index::SummaryChange,
    record_batch::{RecordBatch, encode},
    record_lines::RecordLines,
    summary::ThreadSummary,
    thread_log::{AdoptedRecord, AppendedRecords},
};

/// The maximum number of times that an append is repeated behind records of others.
const MAX_ADOPTIONS: usize = 32;

pub(crate) struct SharedLog {
    backend: Arc<dyn Backend>,
    id: ThreadId,
    home: ThreadHome,
    state: Mutex<SharedEnd>,
    _hold: OwnerHold,
}

/// What the next append builds on.
#[derive(Clone)]
struct SharedEnd {
    end: LogEnd,
    /// The list entry as of this end.
    row: ThreadSummary,
}

impl SharedLog {
    pub fn new(backend: Arc<dyn Backend>, owned: OwnedLog, row: ThreadSummary, home: ThreadHome) -> Self {
        let OwnedLog { end, hold } = owned;
        Self { backend, id: row.id.clone(), home, state: Mutex::new(SharedEnd { end, row }), _hold: hold }
    }

    pub fn id(&self) -> &ThreadId {
        &self.id
    }

    pub fn home(&self) -> &ThreadHome {
        &self.home
    }

    pub fn epoch(&self) -> Epoch {
        self.state.lock().end.epoch
    }

    pub fn next_ordinal(&self) -> u64 {
        self.state.lock().end.next
    }

    pub fn is_previewed(&self) -> bool {
        self.state.lock().row.preview.is_some()
    }

    /// Returns whether the thread still ends where this log expects it, and belongs to this server.
    pub async fn is_current(&self) -> bool {
        let expected = self.state.lock().end;
        self.backend.end(&self.id).await.is_ok_and(|found| found == Some(expected))
    }

    pub async fn append(&self, batch: &RecordBatch) -> Result<AppendedRecords> {
        let mut adopted = Vec::new();
        for _ in 0..MAX_ADOPTIONS {
            let before = self.state.lock().clone();
            let first = before.end.next;
            let next = first + batch.len();
            let mut blobs = Vec::new();
            let lines = encode(batch, first, |content| Ok(keep_blob(&mut blobs, content)))?;
            if !blobs.is_empty() {
                self.backend.put_blobs(blobs).await?;
            }
            let (row, change) = changed_row(&before.row, batch.change_from(first), batch)?;
            let lines = LineBatch { thread: self.id.clone(), end: before.end, next, lines, change };
            match self.backend.append(lines).await? {
                AppendOutcome::Appended => {
                    *self.state.lock() = SharedEnd { end: LogEnd { next, ..before.end }, row };
                    let at = batch.first_time().unwrap_or_else(Timestamp::now);
                    return Ok(AppendedRecords { ordinals: first..next, at, adopted });
                }
                AppendOutcome::Overtaken => adopted.extend(self.adopt(before.end).await?),
            }
            if adopted.iter().any(|record| batch.depends_on(record)) {
                return Err(StoreError::Conflict { thread: self.id.clone(), adopted });
            }
        }
        Err(self.overtaken(self.next_ordinal()))
    }

    /// Moves the expected end behind records that do not concern the conversation.
    async fn adopt(&self, expected: LogEnd) -> Result<Vec<AdoptedRecord>> {
        let overtaken = || self.overtaken(expected.next);
        let found = self.backend.end(&self.id).await?.ok_or_else(overtaken)?;
        if found.epoch != expected.epoch || found.next <= expected.next {
            return Err(overtaken());
        }
        // The entry is read first: an append in between makes the next attempt fail again.
        let row = entry::row_of(self.backend.entry(&self.id).await?);
        let bytes = self.backend.read_lines(&self.id, expected.next).await?;
        let lines = RecordLines::of(&bytes);
        let adopted: Option<Vec<_>> = lines.heads().map(|(_, head)| AdoptedRecord::read(head)).collect();
        let adopted = adopted.filter(|_| lines.warnings.total == 0).ok_or_else(overtaken)?;
        let end = LogEnd { next: expected.next + adopted.len() as u64, ..expected };
        *self.state.lock() = SharedEnd { end, row };
        Ok(adopted)
    }

    fn overtaken(&self, expected: u64) -> StoreError {
        StoreError::Overtaken { thread: self.id.clone(), expected }
    }
}

/// Returns the row after an append, and what the backend has to change of it.
fn changed_row(
    before: &ThreadSummary,
    change: SummaryChange,
    batch: &RecordBatch,
) -> Result<(ThreadSummary, EntryChange)> {
    let mut row = before.clone();
    let mut entry = EntryChange {
        active_at: change.active_at,
        preview: change.preview.clone().filter(|_| before.preview.is_none()),
        name: change.name.clone(),
        open_requests: None,
        details: None,
        facts: None,
        activity: batch.activity(),
    };
    change.apply(&mut row);
    let changes_details =
        row.model != before.model || row.git != before.git || row.open_requests != before.open_requests;
    if changes_details {
        entry.details = Some(entry::details(&row)?);
    }
    if row.open_requests != before.open_requests {
        entry.open_requests = Some(entry::open_requests(&row));
    }
    if row.facts != before.facts {
        entry.facts = Some(entry::facts(&row));
    }
    Ok((row, entry))
}
