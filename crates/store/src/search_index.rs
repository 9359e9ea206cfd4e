//! The index of the messages of threads, in an SQLite file of its own.
//!
//! It answers one question: which threads cannot contain a text? For that it has the groups of three characters (trigrams) of
//! each thread's messages, without their places and without the texts. The files of the remaining threads are read, so what
//! the index has of turns that were dropped does no harm. A thread that the index does not know, or only in part, is read as
//! well, so results are complete before the index is.
//!
//! Messages are indexed by a background thread, which the first search starts; appending to threads and ending turns do
//! nothing for it. It is apart from the index of threads because adding texts takes long, and lists must not wait for that.
//! Like that one it can be deleted at any time.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_protocol::ThreadId;
use memchr::{memchr, memmem, memrchr};
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use serde::Deserialize;

use crate::{
    blobs::{self, BlobSource},
    error::{Result, StoreError},
    layout::{self, HomeLayout},
    record_line::{self, LineHead, RecordKind},
    search_text::{MAX_TRIGRAMS, SearchTerm, message_text},
};

const SCHEMA_VERSION: i64 = 1;
const BUSY: Duration = Duration::from_secs(2);
/// The bytes of files that are indexed in one transaction. Searches wait for it.
const BATCH_BYTES: u64 = 1 << 20;

/// `parts` are rows of the full-text table: what was added to a thread between two runs.
const SCHEMA: &str = "
    DROP TABLE IF EXISTS parts;
    DROP TABLE IF EXISTS progress;
    DROP TABLE IF EXISTS texts;
    CREATE TABLE parts (id INTEGER PRIMARY KEY, thread TEXT NOT NULL) STRICT;
    CREATE INDEX parts_by_thread ON parts (thread);
    CREATE TABLE progress (thread TEXT PRIMARY KEY, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE VIRTUAL TABLE texts USING fts5 (
        text, content = '', contentless_delete = 1, detail = 'none', tokenize = 'trigram case_sensitive 1'
    );
";

/// The index of messages. Opened when it is first needed.
#[derive(Default)]
pub(crate) struct SearchIndex {
    connection: Mutex<Option<Connection>>,
}

/// A thread's file to be indexed.
#[derive(Clone, Debug)]
pub(crate) struct SearchFile {
    pub id: ThreadId,
    pub path: PathBuf,
    pub bytes: u64,
}

/// What the index says about a text.
pub(crate) struct SearchCandidates {
    /// The indexed bytes of each thread.
    pub indexed: HashMap<ThreadId, u64>,
    /// The threads whose indexed messages may contain the text; `None` for a text that is too short to be looked up.
    pub found: Option<HashSet<ThreadId>>,
}

impl SearchIndex {
    pub fn candidates(&self, layout: &HomeLayout, term: &SearchTerm) -> Result<SearchCandidates> {
        self.with(layout, |connection| {
            let mut select = connection.prepare_cached("SELECT thread, bytes FROM progress")?;
            let bytes = select.query_map([], |row| Ok((id(row.get(0)?), row.get::<_, i64>(1)?)))?;
            let indexed = bytes
                .map(|row| row.map(|(thread, bytes)| (thread, u64::try_from(bytes).unwrap_or(0))))
                .collect::<rusqlite::Result<_>>()?;
            let trigrams = term.trigrams();
            if trigrams.is_empty() {
                return Ok(SearchCandidates { indexed, found: None });
            }
            let quoted = |trigram: &String| format!("\"{}\"", trigram.replace('"', "\"\""));
            let query: Vec<_> = trigrams.iter().take(MAX_TRIGRAMS).map(quoted).collect();
            let mut select = connection.prepare_cached(
                "SELECT DISTINCT thread FROM parts WHERE id IN (SELECT rowid FROM texts WHERE texts MATCH ?1)",
            )?;
            let found = select.query_map([query.join(" AND ")], |row| row.get(0).map(id))?;
            Ok(SearchCandidates { indexed, found: Some(found.collect::<rusqlite::Result<_>>()?) })
        })
    }

    /// Indexes what was added to these files. `is_stopped` is asked between batches.
    pub fn catch_up(
        &self,
        layout: &HomeLayout,
        files: &[SearchFile],
        is_stopped: impl Fn() -> bool,
    ) -> Result<()> {
        let indexed = self.candidates(layout, &SearchTerm::new(""))?.indexed;
        let known: HashSet<_> = files.iter().map(|file| &file.id).collect();
        let gone: Vec<_> = indexed.keys().filter(|thread| !known.contains(thread)).cloned().collect();
        self.forget(layout, &gone)?;
        let is_behind = |file: &&SearchFile| indexed.get(&file.id) != Some(&file.bytes);
        let mut behind = files.iter().filter(is_behind).peekable();
        while behind.peek().is_some() && !is_stopped() {
            let mut parts = Vec::new();
            let mut bytes = 0;
            while let Some(file) = behind.next_if(|_| bytes < BATCH_BYTES) {
                let from = indexed.get(&file.id).copied().unwrap_or(0);
                bytes += file.bytes.saturating_sub(from);
                // A file that cannot be read is left out; searches report it.
                parts.extend(FilePart::read(layout, file, from).ok());
            }
            self.write(layout, &parts)?;
        }
        Ok(())
    }

    fn write(&self, layout: &HomeLayout, parts: &[FilePart]) -> Result<()> {
        self.with(layout, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for part in parts {
                if part.is_new_file {
                    forget(&transaction, &part.thread)?;
                }
                if !part.text.is_empty() {
                    transaction
                        .prepare_cached("INSERT INTO parts (thread) VALUES (?1)")?
                        .execute([&*part.thread])?;
                    let row = transaction.last_insert_rowid();
                    transaction
                        .prepare_cached("INSERT INTO texts (rowid, text) VALUES (?1, ?2)")?
                        .execute(params![row, part.text])?;
                }
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO progress (thread, bytes) VALUES (?1, ?2)")?
                    .execute(params![&*part.thread, i64::try_from(part.end).unwrap_or(i64::MAX)])?;
            }
            transaction.commit()
        })
    }

    fn forget(&self, layout: &HomeLayout, threads: &[ThreadId]) -> Result<()> {
        if threads.is_empty() {
            return Ok(());
        }
        self.with(layout, |connection| {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            threads.iter().try_for_each(|thread| forget(&transaction, thread))?;
            transaction.commit()
        })
    }

    /// Runs `work` on the open index. An index that cannot be used is deleted, and `work` runs on a new one.
    fn with<T>(
        &self,
        layout: &HomeLayout,
        mut work: impl FnMut(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let path = layout.search_index();
        let failed = |source| StoreError::Index { path: path.clone(), source };
        let mut open = self.connection.lock();
        let result = match open.as_mut() {
            Some(connection) => work(connection),
            None => connect(layout, &path).and_then(|connection| work(open.insert(connection))),
        };
        match result {
            Err(error) if !crate::error::is_busy(&error) => {
                tracing::warn!(path = %path.display(), %error, "the index of messages is not usable, recreating it");
                *open = None;
                discard(&path);
                let connection = connect(layout, &path).map_err(failed)?;
                work(open.insert(connection)).map_err(failed)
            }
            result => result.map_err(failed),
        }
    }

    pub fn close(&self) {
        *self.connection.lock() = None;
    }
}

/// The messages that were added to a file.
struct FilePart {
    thread: ThreadId,
    /// The messages in lower case.
    text: String,
    /// The end of the last whole line.
    end: u64,
    /// Whether the file was replaced by a shorter one.
    is_new_file: bool,
}

impl FilePart {
    fn read(layout: &HomeLayout, file: &SearchFile, from: u64) -> Result<Self> {
        let is_new_file = from > file.bytes;
        let from = if is_new_file { 0 } else { from };
        let bytes = read_from(&file.path, from)?;
        let whole = memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        let mut text = String::new();
        for message in messages(layout, bytes.get(..whole).unwrap_or_default()) {
            text.extend(message.chars().flat_map(char::to_lowercase));
            text.push('\n');
        }
        Ok(Self { thread: file.id.clone(), text, end: from + whole as u64, is_new_file })
    }
}

/// Returns the bytes of a file from a place on.
pub(crate) fn read_from(path: &Path, from: u64) -> Result<Vec<u8>> {
    let failed = || StoreError::io("read", path);
    let file: File = layout::open_regular(path).map_err(failed())?;
    let len = file.metadata().map_err(failed())?.len();
    let mut bytes = vec![0; usize::try_from(len.saturating_sub(from)).unwrap_or(0)];
    file.read_exact_at(&mut bytes, from).map_err(failed())?;
    Ok(bytes)
}

/// Returns the texts of the messages in whole lines, also of turns that were dropped later.
pub(crate) fn messages<'a>(texts: &'a dyn BlobSource, lines: &'a [u8]) -> impl Iterator<Item = String> + 'a {
    let mut rest = lines;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            rest = after;
            if let Some(text) = message_of(texts, line) {
                return Some(text);
            }
        }
        None
    })
}

fn message_of(texts: &dyn BlobSource, line: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct ItemRecord {
        item: codicil_protocol::ThreadItem,
    }
    let is_message =
        memmem::find(line, b"\"userMessage\"").is_some() || memmem::find(line, b"\"agentMessage\"").is_some();
    if !is_message {
        return None;
    }
    let line = record_line::canonical(std::str::from_utf8(line).ok()?.trim_end())?;
    let head = LineHead::read(&line).filter(|head| head.kind == RecordKind::Item)?;
    let json = head.json();
    let json = if head.blobs { blobs::move_in(texts, &json, &mut Vec::new()) } else { json };
    message_text(&serde_json::from_str::<ItemRecord>(&json).ok()?.item)
}

fn forget(connection: &Connection, thread: &ThreadId) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM texts WHERE rowid IN (SELECT id FROM parts WHERE thread = ?1)")?
        .execute([&**thread])?;
    connection.prepare_cached("DELETE FROM parts WHERE thread = ?1")?.execute([&**thread])?;
    connection.prepare_cached("DELETE FROM progress WHERE thread = ?1")?.execute([&**thread])?;
    Ok(())
}

fn connect(layout: &HomeLayout, path: &Path) -> rusqlite::Result<Connection> {
    // SQLite would create the file with the default mode. Without a writable home the index is in memory.
    let is_ready =
        layout::make_dir(layout.home()).is_ok() && (layout::create_file(path).is_ok() || path.is_file());
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection =
        if is_ready { Connection::open_with_flags(path, flags)? } else { Connection::open_in_memory()? };
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version != SCHEMA_VERSION {
        connection.execute_batch(&format!(
            "BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        ))?;
    }
    Ok(connection)
}

fn discard(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
}

fn id(text: String) -> ThreadId {
    ThreadId::from(text)
}
