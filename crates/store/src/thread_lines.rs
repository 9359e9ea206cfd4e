//! The lines of a thread, wherever they are stored. What is read from them is read by the methods here and in the modules of
//! each subject.

use std::collections::HashMap;

use codicil_protocol::ThreadId;

use crate::{
    blobs::BlobSource,
    clock,
    error::{Result, StoreError},
    file_end::{self, FileTail},
    layout::{HomeLayout, ThreadLocation},
    record_line::RecordKind,
    record_lines::RecordLines,
    replay::{HistoryWanted, Replay},
    store::Store,
    thread::{LoadedThread, StoredThread, decode_history},
    thread_log::ReadEnd,
    work_pool::WorkLane,
};

/// The lines of one thread.
pub(crate) struct ThreadLines {
    pub id: ThreadId,
    pub place: ThreadLocation,
    /// Unix seconds.
    pub created_at: i64,
    pub bytes: Vec<u8>,
    pub blobs: LineBlobs,
}

/// Where the blobs of lines are.
pub(crate) enum LineBlobs {
    Home(HomeLayout),
    /// Those that are wanted, read with the lines.
    Read(HashMap<String, String>),
}

/// Which records' blobs are read with the lines.
pub(crate) type WantedBlobs = fn(RecordKind) -> bool;

/// Wants the blobs of everything but the model's history.
pub(crate) fn without_history(kind: RecordKind) -> bool {
    !matches!(kind, RecordKind::Context | RecordKind::Compaction)
}

impl BlobSource for LineBlobs {
    fn blob(&self, hash: &str) -> Option<String> {
        match self {
            Self::Home(layout) => BlobSource::blob(layout, hash),
            Self::Read(blobs) => blobs.blob(hash),
        }
    }
}

impl Store {
    /// Reads the lines of a thread and runs `work` with them on a blocking thread.
    pub(crate) async fn with_lines<T, F>(&self, id: &ThreadId, wanted: WantedBlobs, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(&ThreadLines) -> Result<T> + Send + 'static,
    {
        match &self.shared {
            None => {
                let id = id.clone();
                self.run(WorkLane::Load, move |inner| work(&inner.lines(&id)?)).await
            }
            Some(shared) => {
                let lines = shared.lines(id, wanted).await?;
                self.inner.pool.run(WorkLane::Load, move || work(&lines)).await
            }
        }
    }
}

impl ThreadLines {
    pub fn records(&self) -> RecordLines<'_> {
        RecordLines::of(&self.bytes)
    }

    pub fn read(&self) -> Result<StoredThread> {
        let lines = self.records().with_blobs(&self.blobs, without_history);
        self.stored(lines.end, Replay::run(&lines, HistoryWanted::Turns))
    }

    pub fn load(&self) -> Result<LoadedThread> {
        let lines = self.records().with_blobs(&self.blobs, |_| true);
        let mut replay = Replay::run(&lines, HistoryWanted::TurnsAndHistory);
        let history = decode_history(&mut replay);
        Ok(LoadedThread::new(self.stored(lines.end, replay)?, history))
    }

    /// Returns the thread of replayed lines, whose last whole line ends at `end`.
    fn stored(&self, end: u64, replay: Replay<'_>) -> Result<StoredThread> {
        let Self { place, bytes, created_at, .. } = self;
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let not_a_thread = || StoreError::NotAThread {
            path: place.path.clone(),
            reason: file_end::first_line_reason(first),
        };
        let mut meta = replay.meta.ok_or_else(not_a_thread)?;
        // The id in the name of a file takes precedence, so that manually copied files can be found.
        meta.id = self.id.clone();
        let active_at = replay.active_at.and_then(clock::parse_seconds).unwrap_or(0);
        Ok(StoredThread {
            meta,
            path: place.path.clone(),
            archived: place.archived,
            created_at: *created_at,
            updated_at: active_at.max(*created_at),
            preview: replay.preview,
            turns: replay.turns,
            unfinished: replay.unfinished,
            settings: replay.settings,
            known_settings: replay.known_settings,
            usage: replay.usage,
            name: replay.name,
            git: replay.git,
            goal: replay.goal,
            facts: replay.facts,
            next_ordinal: replay.next_ordinal,
            end: ReadEnd {
                tail: FileTail { len: end, next_ordinal: replay.next_ordinal },
                len: bytes.len() as u64,
            },
            warnings: replay.warnings,
        })
    }
}
