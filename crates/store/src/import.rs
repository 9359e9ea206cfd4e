//! Threads that come from elsewhere, with the times they have there.
//!
//! What is brought in is appended like everything else, so an import that is cut off can go on where it
//! stopped: the importer leaves a mark of its own as the last record of each batch, and finds it again
//! here. A thread whose last record is no such mark has gone on since.

use std::{os::unix::fs::FileExt, path::Path};

use codicil_protocol::ThreadId;
use jiff::Timestamp;

use crate::{
    clock,
    error::{Result, StoreError},
    layout::{self, ThreadLocation},
    line::{self, LineHead},
    log::{LogFile, RecordBatch, ThreadLog},
    pool::WorkLane,
    record::{Record, ThreadMeta},
    store::Store,
};

/// How much of a file's end is read. A mark is far shorter.
const WINDOW: u64 = 64 * 1024;

impl Store {
    /// Begins a thread that began at another time, with its first records, in one write.
    pub async fn import(
        &self,
        meta: ThreadMeta,
        began: Timestamp,
        records: Vec<(Timestamp, Record)>,
    ) -> Result<ThreadLog> {
        let file = self.run(WorkLane::Append, move |inner| {
            let batch = RecordBatch::new(records.iter().map(|(at, record)| (*at, record)), true)?;
            LogFile::import(inner, &meta, began, &batch)
        });
        let file = file.await?;
        Ok(ThreadLog::new(self.inner.clone(), file))
    }

    /// Where a thread is that was imported, if it was. Unlike [`find`](Self::find) it looks nowhere else when the
    /// id tells the place: an import asks for thousands that are not there.
    pub async fn find_imported(&self, id: &ThreadId) -> Result<Option<ThreadLocation>> {
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| match clock::id_time(&id) {
            Some(_) => Ok(inner.layout.guess(&id)),
            None => match inner.locate(&id) {
                Err(StoreError::NotFound(_)) => Ok(None),
                found => found.map(Some),
            },
        })
        .await
    }

    /// The last record of a thread. `None` if it is a long one, or torn.
    pub async fn last_record(&self, id: &ThreadId) -> Result<Option<Record>> {
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.at_its_place(&id, |place| last_record(&place.path))).await
    }
}

fn last_record(path: &Path) -> Result<Option<Record>> {
    let failed = || StoreError::io("read", path);
    let file = layout::open_regular(path).map_err(failed())?;
    let len = file.metadata().map_err(failed())?.len();
    let mut bytes = vec![0; usize::try_from(len.min(WINDOW)).unwrap_or_default()];
    file.read_exact_at(&mut bytes, len.saturating_sub(WINDOW)).map_err(failed())?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.strip_suffix('\n').and_then(|text| text.rsplit('\n').next());
    Ok(last.and_then(|last| {
        let last = line::canonical(last)?;
        serde_json::from_str(&LineHead::read(&last).filter(|head| !head.blobs)?.json()).ok()
    }))
}
