//! Reading the index row of a thread from its file, without decoding the conversation.
//!
//! A row needs the first line, the first user message, the name, the last settings and the last time. They are found by searching the bytes for
//! markers, block by block, so a file of any size needs one block of memory and little more time than reading it. The whole
//! file is searched because names can be anywhere.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use codicil_protocol::{GitInfo, ThreadItem};
use memchr::{memchr, memmem, memrchr};
use serde::Deserialize;

use crate::{
    blobs::{self, BlobSource},
    clock,
    error::{Result, StoreError},
    facts::{CONTINUES, FactEvent, IndexedFacts, is_fact},
    file_end,
    layout::{self, FileName, HomeLayout},
    record::{QuestionKind, StoredSettings, ThreadMeta},
    record_line::{self, LineHead, RecordKind},
    record_parts::{ExtraRecord, GoalRecord, extra_kind},
    summary::{self, FileStamp, ModelChoice, ThreadSummary},
};

const BLOCK: usize = 128 * 1024;

/// Reads rows from files. Reuses its buffer.
pub struct FileScanner<'a> {
    layout: &'a HomeLayout,
    buffer: Vec<u8>,
}

impl<'a> FileScanner<'a> {
    pub fn new(layout: &'a HomeLayout) -> Self {
        Self { layout, buffer: Vec::new() }
    }

    /// Returns the row of the file `dir/file`. `name` is the parsed name of the file.
    pub fn scan(&mut self, dir: &str, file: &str, name: &FileName, archived: bool) -> Result<ThreadSummary> {
        let path = self.layout.absolute(dir).join(file);
        let failed = || StoreError::io("read", &path);
        let mut open = layout::open_regular(&path).map_err(failed())?;
        // The stamp is taken first, so that a write during the scan makes the row outdated and not wrong.
        let stamp = FileStamp::of(&open.metadata().map_err(failed())?);
        let mut found = ScanFindings::new();
        self.read_blocks(&mut open, &mut found, &path)?;
        let reason = found.reason;
        let row = found.into_row(dir, file, name);
        let mut row = row.ok_or_else(|| StoreError::NotAThread { path: path.clone(), reason })?;
        row.archived = archived;
        row.stamp = stamp;
        Ok(row)
    }

    fn read_blocks(&mut self, file: &mut File, found: &mut ScanFindings, path: &Path) -> Result<()> {
        let mut filled = 0;
        loop {
            if self.buffer.len() - filled < BLOCK / 2 {
                self.buffer.resize(filled + BLOCK, 0);
            }
            let space = self.buffer.get_mut(filled..).unwrap_or_default();
            let read = read_some(file, space).map_err(StoreError::io("read", path))?;
            filled += read;
            let at_end = read == 0;
            let block = self.buffer.get(..filled).unwrap_or_default();
            // A complete last line without its newline counts too.
            let whole = if at_end { filled } else { memrchr(b'\n', block).map_or(0, |at| at + 1) };
            found.search(block.get(..whole).unwrap_or_default(), self.layout);
            if at_end || (whole > 0 && found.meta.is_none()) {
                return Ok(());
            }
            self.buffer.copy_within(whole..filled, 0);
            filled -= whole;
        }
    }
}

/// Returns the row of a thread from its lines; `None` if they are not those of a thread.
pub fn scan_lines(lines: &[u8], texts: &dyn BlobSource, name: &FileName) -> Option<ThreadSummary> {
    let mut found = ScanFindings::new();
    found.search(lines, texts);
    found.into_row("", "", name)
}

fn read_some(file: &mut File, space: &mut [u8]) -> io::Result<usize> {
    loop {
        match file.read(space) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => return result,
        }
    }
}

/// The findings so far.
struct ScanFindings {
    meta: Option<ThreadMeta>,
    /// The reason why there is no `meta`.
    reason: &'static str,
    preview: Option<String>,
    name: Option<String>,
    git: Option<GitInfo>,
    model: Option<ModelChoice>,
    /// The kinds of open server requests by the last record about them.
    open_requests: Vec<QuestionKind>,
    facts: IndexedFacts,
    active_at: Option<i64>,
}

impl ScanFindings {
    fn new() -> Self {
        let reason = file_end::first_line_reason(b"");
        Self {
            meta: None,
            reason,
            preview: None,
            name: None,
            git: None,
            model: None,
            open_requests: Vec::new(),
            facts: IndexedFacts::default(),
            active_at: None,
        }
    }

    fn into_row(self, dir: &str, file: &str, name: &FileName) -> Option<ThreadSummary> {
        let mut row = ThreadSummary::new(&self.meta?, dir.to_owned(), file.to_owned(), name.created_at);
        row.id = name.id.clone();
        row.updated_at = self.active_at.unwrap_or(0).max(name.created_at);
        row.preview = self.preview;
        row.name = self.name;
        row.model = self.model.unwrap_or_default();
        row.git = self.git;
        row.open_requests = self.open_requests;
        row.facts = self.facts;
        Some(row)
    }

    /// Searches a block of whole lines.
    fn search(&mut self, block: &[u8], texts: &dyn BlobSource) {
        if block.is_empty() {
            return;
        }
        if self.meta.is_none() {
            let first = line_at(block, 0);
            self.meta = read(first, texts);
            if self.meta.is_none() {
                self.reason = file_end::first_line_reason(first.as_bytes());
                return;
            }
        }
        if self.preview.is_none() {
            self.preview = first_preview(block, texts);
        }
        // Nested objects can contain the same markers; `read` checks the kind of the record itself.
        for at in memmem::find_iter(block, b"\"type\":\"name\"") {
            if let Some(name) = read::<ScannedName>(line_at(block, at), texts) {
                self.name = Some(name.name);
            }
        }
        for at in memmem::find_iter(block, b"\"type\":\"git\"") {
            if let Some(git) = read::<ScannedGit>(line_at(block, at), texts) {
                self.git = git.git;
            }
        }
        let mut settings = memmem::rfind_iter(block, b"\"type\":\"settings\"")
            .filter_map(|at| read::<StoredSettings>(line_at(block, at), texts));
        self.model = settings.next().map(|settings| ModelChoice::from(&settings)).or(self.model.take());
        if let Some(kinds) = last_requests(block, texts) {
            self.open_requests = kinds;
        }
        self.search_facts(block, texts);
        self.active_at = last_activity(block).or(self.active_at);
    }

    /// Applies the records of a block that affect facts, in their order.
    fn search_facts(&mut self, block: &[u8], texts: &dyn BlobSource) {
        let mut marks: Vec<_> = memmem::find_iter(block, b"\"type\":\"extra\"").collect();
        marks.extend(memmem::find_iter(block, b"\"type\":\"turnEnd\""));
        marks.sort_unstable();
        for line in marks.into_iter().map(|at| line_at(block, at)) {
            if let Some((ordinal, event)) = fact_event(line, texts) {
                self.facts.apply(ordinal, &event);
            }
        }
    }
}

/// Returns the first user message of a block, or the objective of a goal that precedes it.
fn first_preview(block: &[u8], texts: &dyn BlobSource) -> Option<String> {
    let message = memmem::find_iter(block, b"\"type\":\"userMessage\"").find_map(|at| {
        let item = read::<ScannedItem>(line_at(block, at), texts)?;
        Some((at, summary::preview(&item.item)?))
    });
    let goal = memmem::find_iter(block, b"\"kind\":\"goal\"").find_map(|at| {
        let goal = read::<ExtraRecord<GoalRecord>>(line_at(block, at), texts)?.data.goal?;
        Some((at, goal.objective))
    });
    message.into_iter().chain(goal).min_by_key(|(at, _)| *at).map(|(_, preview)| preview)
}

/// Returns the kinds of open server requests by the last record of a block that changes them; `None` if there is none. The
/// end of a turn ends its requests.
fn last_requests(block: &[u8], texts: &dyn BlobSource) -> Option<Vec<QuestionKind>> {
    let last = |mark: &[u8], kind: RecordKind| {
        memmem::rfind_iter(block, mark).find(|at| {
            let line = record_line::canonical(line_at(block, *at));
            line.and_then(|line| LineHead::read(&line).map(|head| head.kind)) == Some(kind)
        })
    };
    let asked = last(b"\"type\":\"asked\"", RecordKind::Asked);
    let answered = last(b"\"type\":\"answered\"", RecordKind::Answered);
    let ended = last(b"\"type\":\"turnEnd\"", RecordKind::TurnEnd);
    match asked.max(answered) {
        None => ended.map(|_| Vec::new()),
        changed if changed < ended => Some(Vec::new()),
        Some(changed) => {
            let line = line_at(block, changed);
            let asked = read::<ScannedAsked>(line, texts).map(|record| record.open);
            asked.or_else(|| read::<ScannedAnswered>(line, texts).map(|record| record.open))
        }
    }
}

/// Returns the line around a position.
fn line_at(block: &[u8], at: usize) -> &str {
    let (before, after) = block.split_at_checked(at).unwrap_or((block, &[]));
    let start = memrchr(b'\n', before).map_or(0, |newline| newline + 1);
    let end = memchr(b'\n', after).map_or(block.len(), |newline| at + newline);
    block.get(start..end).and_then(|line| std::str::from_utf8(line).ok()).unwrap_or_default()
}

fn last_activity(block: &[u8]) -> Option<i64> {
    let mut lines = block.rsplit(|byte| *byte == b'\n');
    lines.find_map(|bytes| {
        let line = record_line::canonical(std::str::from_utf8(bytes).ok()?)?;
        let head = LineHead::read(&line).filter(|head| head.kind.is_activity())?;
        clock::parse_seconds(head.timestamp)
    })
}

/// Returns what a line means for facts, with its ordinal.
fn fact_event(line: &str, texts: &dyn BlobSource) -> Option<(u64, FactEvent)> {
    let line = record_line::canonical(line)?;
    let head = LineHead::read(&line)?;
    let event = match head.kind {
        RecordKind::TurnEnd => FactEvent::TurnEnd,
        RecordKind::Extra => match extra_kind(head)?.as_str() {
            CONTINUES => FactEvent::Continues,
            kind if is_fact(kind) => {
                let json = head.json();
                let json = if head.blobs { blobs::move_in(texts, &json, &mut Vec::new()) } else { json };
                FactEvent::Change(serde_json::from_str(&json).ok()?)
            }
            _ => return None,
        },
        _ => return None,
    };
    Some((head.ordinal, event))
}

trait OfKind {
    const KIND: RecordKind;
}

impl OfKind for StoredSettings {
    const KIND: RecordKind = RecordKind::Settings;
}

impl OfKind for ExtraRecord<GoalRecord> {
    const KIND: RecordKind = RecordKind::Extra;
}

impl OfKind for ThreadMeta {
    const KIND: RecordKind = RecordKind::Meta;
}

#[derive(Deserialize)]
struct ScannedItem {
    item: ThreadItem,
}

impl OfKind for ScannedItem {
    const KIND: RecordKind = RecordKind::Item;
}

#[derive(Deserialize)]
struct ScannedAsked {
    open: Vec<QuestionKind>,
}

impl OfKind for ScannedAsked {
    const KIND: RecordKind = RecordKind::Asked;
}

#[derive(Deserialize)]
struct ScannedAnswered {
    open: Vec<QuestionKind>,
}

impl OfKind for ScannedAnswered {
    const KIND: RecordKind = RecordKind::Answered;
}

#[derive(Deserialize)]
struct ScannedName {
    name: String,
}

impl OfKind for ScannedName {
    const KIND: RecordKind = RecordKind::Name;
}

#[derive(Deserialize)]
struct ScannedGit {
    git: Option<GitInfo>,
}

impl OfKind for ScannedGit {
    const KIND: RecordKind = RecordKind::Git;
}

/// Decodes a line if it is a record of the wanted kind.
fn read<T: OfKind + for<'de> Deserialize<'de>>(line: &str, texts: &dyn BlobSource) -> Option<T> {
    let line = record_line::canonical(line)?;
    let head = LineHead::read(&line).filter(|head| head.kind == T::KIND)?;
    let json = head.json();
    let json = if head.blobs { blobs::move_in(texts, &json, &mut Vec::new()) } else { json };
    serde_json::from_str(&json).ok()
}
