//! Importing threads of other programs, with their original times.
//!
//! Imported records are appended like all others, so an interrupted import can be continued: the importer writes a marker as
//! the last record of each batch and reads it again with [`Store::last_record`]. A thread whose last record is not a marker
//! has been continued since.

use std::{os::unix::fs::FileExt, path::Path};

use codicil_protocol::ThreadId;
use jiff::Timestamp;

use crate::{
    backend::ThreadPlacement,
    clock,
    error::{Result, StoreError},
    layout::{self, ThreadLocation},
    record::{Record, ThreadMeta},
    record_batch::RecordBatch,
    record_line::{self, LineHead},
    store::Store,
    thread_log::{LogFile, ThreadLog},
    work_pool::WorkLane,
};

/// The part of the end of a file that is read. A marker is far shorter.
const WINDOW: u64 = 64 * 1024;

impl Store {
    /// Creates a thread with a given start time and its first records, in one write.
    pub async fn import(
        &self,
        meta: ThreadMeta,
        began: Timestamp,
        records: Vec<(Timestamp, Record)>,
    ) -> Result<ThreadLog> {
        if let Some(shared) = &self.shared {
            let batch = RecordBatch::new(records.iter().map(|(at, record)| (*at, record)), true)?;
            return Ok(ThreadLog::shared(
                shared.create(&meta, began, &batch, ThreadPlacement::default()).await?,
            ));
        }
        let file = self.run(WorkLane::Append, move |inner| {
            let batch = RecordBatch::new(records.iter().map(|(at, record)| (*at, record)), true)?;
            LogFile::import(inner, &meta, began, &batch)
        });
        let file = file.await?;
        Ok(ThreadLog::new(self.inner.clone(), file))
    }

    /// Returns the location of an imported thread. Unlike [`find`](Self::find) it looks only where the id points to, because
    /// an import looks up thousands of threads that do not exist.
    pub async fn find_imported(&self, id: &ThreadId) -> Result<Option<ThreadLocation>> {
        if let Some(shared) = &self.shared {
            return match shared.find(id).await {
                Err(StoreError::NotFound(_)) => Ok(None),
                found => found.map(Some),
            };
        }
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| match clock::id_time(&id) {
            Some(_) => Ok(inner.layout.find_by_time(&id)),
            None => match inner.locate(&id) {
                Err(StoreError::NotFound(_)) => Ok(None),
                found => found.map(Some),
            },
        })
        .await
    }

    /// Returns the last record of a thread; `None` if it is long or torn.
    pub async fn last_record(&self, id: &ThreadId) -> Result<Option<Record>> {
        if self.shared.is_some() {
            return self.with_lines(id, |_| false, |lines| Ok(last_line_record(&lines.bytes))).await;
        }
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.with_location(&id, |place| last_record(&place.path)))
            .await
    }
}

fn last_record(path: &Path) -> Result<Option<Record>> {
    let failed = || StoreError::io("read", path);
    let file = layout::open_regular(path).map_err(failed())?;
    let len = file.metadata().map_err(failed())?.len();
    let mut bytes = vec![0; usize::try_from(len.min(WINDOW)).unwrap_or_default()];
    file.read_exact_at(&mut bytes, len.saturating_sub(WINDOW)).map_err(failed())?;
    Ok(last_line_record(&bytes))
}

fn last_line_record(bytes: &[u8]) -> Option<Record> {
    let last = bytes.strip_suffix(b"\n")?.rsplit(|byte| *byte == b'\n').next()?;
    let last = record_line::canonical(std::str::from_utf8(last).ok()?)?;
    serde_json::from_str(&LineHead::read(&last).filter(|head| !head.blobs)?.json()).ok()
}
