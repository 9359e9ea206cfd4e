//! Threads that several servers share: everything above the lines of a [`Backend`].

mod check;
mod entry;
mod log;
mod message_index;
mod search;

pub(crate) use entry::whole_change;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use codicil_protocol::ThreadId;
use jiff::Timestamp;

pub(crate) use log::SharedLog;
use message_index::MessageIndexing;

use crate::{
    backend::{
        Backend, EntryLabel, EntryPage, EntryPosition, EntryQuery, NewEntry, ThreadHome, ThreadPlacement,
    },
    clock,
    error::{Result, StoreError},
    facts::{AttachmentKey, IndexedFacts, SectionPlace},
    file_scanner,
    fork::{ForkCopy, ForkPoint},
    layout::{self, FileName, HomeLayout, ThreadLocation},
    list::{ListCursor, ListQuery, ListedThread, ThreadPage},
    organization::Organization,
    record::ThreadMeta,
    record_batch::{self, RecordBatch},
    summary::{ThreadSummary, kind_name},
    thread_lines::{LineBlobs, ThreadLines, WantedBlobs, without_history},
};

/// The document with the sections and projects.
const ORGANIZATION: &str = "organization";
/// The maximum number of times that a document is changed again because others change it, too.
const MAX_CHANGES: usize = 32;

/// The threads in a backend.
#[derive(Clone)]
pub(crate) struct SharedThreads {
    pub backend: Arc<dyn Backend>,
    layout: HomeLayout,
    indexing: Arc<MessageIndexing>,
}

impl SharedThreads {
    pub fn new(backend: Arc<dyn Backend>, layout: HomeLayout) -> Self {
        Self { backend, layout, indexing: Arc::default() }
    }

    /// Reads the lines of a thread, and the blobs that are wanted.
    pub async fn lines(&self, id: &ThreadId, wanted: WantedBlobs) -> Result<ThreadLines> {
        let (entry, bytes) = tokio::try_join!(self.backend.entry(id), self.backend.read_lines(id, 0))?;
        let mut lines = ThreadLines {
            id: id.clone(),
            place: place(entry.archived),
            created_at: entry.created_at,
            bytes,
            blobs: LineBlobs::Read(Default::default()),
        };
        let hashes = lines.records().blob_hashes(wanted);
        if !hashes.is_empty() {
            lines.blobs = LineBlobs::Read(self.backend.read_blobs(hashes).await?);
        }
        Ok(lines)
    }

    pub async fn find(&self, id: &ThreadId) -> Result<ThreadLocation> {
        Ok(place(self.backend.entry(id).await?.archived))
    }

    pub async fn create(
        &self,
        meta: &ThreadMeta,
        began: Timestamp,
        batch: &RecordBatch,
        placement: ThreadPlacement,
    ) -> Result<SharedLog> {
        let mut blobs = Vec::new();
        let mut lines = Vec::new();
        record_batch::write_meta(&mut lines, meta, began)?;
        lines.extend(record_batch::encode(batch, 1, |content| Ok(keep_blob(&mut blobs, content)))?);
        self.backend.put_blobs(blobs.clone()).await?;
        let blobs = LineBlobs::Read(blobs.into_iter().collect());
        self.create_from(&meta.id, began, lines, blobs, placement).await
    }

    /// Creates a thread with the records of another one.
    pub async fn fork(&self, source: &ThreadId, point: &ForkPoint, meta: &ThreadMeta) -> Result<SharedLog> {
        let source = self.lines(source, without_history).await?;
        let mut lines = Vec::new();
        ForkCopy::of(&source.records(), point)?.write(&mut lines, meta)?;
        let placement = ThreadPlacement::default();
        self.create_from(&meta.id, Timestamp::now(), lines, source.blobs, placement).await
    }

    /// Creates a thread with these lines. The time in the id takes precedence over `began`.
    pub async fn create_from(
        &self,
        id: &ThreadId,
        began: Timestamp,
        lines: Vec<u8>,
        blobs: LineBlobs,
        placement: ThreadPlacement,
    ) -> Result<SharedLog> {
        if !layout::is_valid_id(id) {
            return Err(StoreError::InvalidId(id.to_string()));
        }
        let created = clock::id_time(id).unwrap_or(began);
        let name = FileName { id: id.clone(), created_at: created.as_millisecond().div_euclid(1000) };
        let row = file_scanner::scan_lines(&lines, &blobs, &name).ok_or_else(|| StoreError::NotAThread {
            path: PathBuf::new(),
            reason: "its first line is not the beginning of one",
        })?;
        let entry = entry::entry_of(&row)?;
        let owned = self.backend.create(NewEntry { entry, placement, lines }).await?;
        Ok(SharedLog::new(self.backend.clone(), owned, row, ThreadHome::Here))
    }

    /// Takes a thread, to append at its end or, if it was read before, at the end that was read.
    pub async fn open_log(&self, id: &ThreadId, read: Option<u64>) -> Result<SharedLog> {
        let mut owned = self.backend.claim(id).await?;
        owned.end.next = read.unwrap_or(owned.end.next);
        let entry = self.backend.entry(id).await?;
        let home = entry.place.clone();
        Ok(SharedLog::new(self.backend.clone(), owned, entry::row_of(entry), home))
    }

    pub async fn summary(&self, id: &ThreadId) -> Result<ListedThread> {
        let (entry, organization) = tokio::try_join!(self.backend.entry(id), self.organization())?;
        Ok(self.listed(entry::row_of(entry), &organization))
    }

    pub async fn list(&self, query: &ListQuery) -> Result<ThreadPage> {
        let entries = entry_query(query)?;
        let RowPage { rows, has_more } = self.rows(&entries).await?;
        let is_labelled = |row: &ThreadSummary| row.facts.section.is_some() || row.facts.project_id.is_some();
        let organization =
            if rows.iter().any(is_labelled) { self.organization().await? } else { Arc::default() };
        let cursor = |row: &ThreadSummary| ListCursor::of(query.sort, row).text();
        let next_cursor = rows.last().filter(|_| has_more).and_then(cursor);
        let backwards = |row| ListCursor::backwards(query.sort, query.oldest_first, row).text();
        let backwards_cursor = rows.first().and_then(backwards);
        let mut threads = Vec::with_capacity(rows.len());
        let mut read_states = BTreeMap::new();
        for row in rows {
            let ListedThread { thread, read_state } = self.listed(row, &organization);
            read_states.extend(read_state.map(|state| (thread.id.to_string(), state)));
            threads.push(thread);
        }
        Ok(ThreadPage { threads, read_states, next_cursor, backwards_cursor })
    }

    async fn rows(&self, query: &EntryQuery) -> Result<RowPage> {
        let EntryPage { entries, has_more } = self.backend.list(query).await?;
        Ok(RowPage { rows: entries.into_iter().map(entry::row_of).collect(), has_more })
    }

    fn listed(&self, row: ThreadSummary, organization: &Organization) -> ListedThread {
        let read_state = row.facts.read.state(&row.id);
        let IndexedFacts { section, project_id, .. } = row.facts.clone();
        let mut thread = row.into_thread(&self.layout);
        organization.label(&mut thread, section.as_ref(), project_id.as_deref());
        ListedThread { thread, read_state }
    }

    pub async fn set_archived(&self, id: &ThreadId, archived: bool) -> Result<ThreadLocation> {
        self.backend.set_archived(id, archived).await?;
        Ok(place(archived))
    }

    pub async fn section_members(&self, section: &str) -> Result<Vec<(ThreadId, SectionPlace)>> {
        let found = self.backend.labelled(&EntryLabel::Section(section.to_owned())).await?;
        let members = found.into_iter().map(entry::row_of);
        let mut members: Vec<_> =
            members.filter_map(|row| row.facts.section.map(|place| (row.id, place))).collect();
        members
            .sort_by(|(id, place), (other, other_place)| (&place.rank, id).cmp(&(&other_place.rank, other)));
        Ok(members)
    }

    pub async fn project_threads(&self, project: &str) -> Result<Vec<ThreadId>> {
        let found = self.backend.labelled(&EntryLabel::Project(project.to_owned())).await?;
        Ok(found.into_iter().map(|entry| entry.id).collect())
    }

    pub async fn attachment_owners(&self, key: AttachmentKey) -> Result<Vec<(ThreadId, bool)>> {
        let AttachmentKey { attachment_type, identity_key } = key;
        let found = self.backend.labelled(&EntryLabel::Attachment { attachment_type, identity_key }).await?;
        Ok(found.into_iter().map(|entry| (entry.id, entry.archived)).collect())
    }

    pub async fn organization(&self) -> Result<Arc<Organization>> {
        let (text, _) = self.backend.document(ORGANIZATION).await?;
        Ok(Arc::new(read_organization(&text)?))
    }

    /// Changes the sections and projects, unless `change` refuses.
    pub async fn change_organization<T, E>(
        &self,
        change: impl Fn(&mut Organization) -> Result<T, E>,
    ) -> Result<Result<T, E>> {
        for _ in 0..MAX_CHANGES {
            let (text, version) = self.backend.document(ORGANIZATION).await?;
            let before = read_organization(&text)?;
            let mut organization = before.clone();
            let changed = change(&mut organization);
            if changed.is_err() || organization == before {
                return Ok(changed);
            }
            let text = serde_json::to_string(&organization)?;
            if self.backend.replace_document(ORGANIZATION, version, text).await? {
                return Ok(changed);
            }
        }
        Err(StoreError::Unavailable("others change sections and projects all the time".to_owned()))
    }
}

pub(crate) struct RowPage {
    pub rows: Vec<ThreadSummary>,
    pub has_more: bool,
}

/// Returns where a thread of a backend is. It has no file.
fn place(archived: bool) -> ThreadLocation {
    ThreadLocation { path: PathBuf::new(), archived }
}

/// Adds a blob to those that are to be stored, and returns its hash.
fn keep_blob(blobs: &mut Vec<(String, String)>, content: String) -> String {
    let hash = crate::blobs::hash(content.as_bytes());
    if !blobs.iter().any(|(known, _)| *known == hash) {
        blobs.push((hash.clone(), content));
    }
    hash
}

fn read_organization(text: &str) -> Result<Organization> {
    if text.is_empty() {
        return Ok(Organization::default());
    }
    Ok(serde_json::from_str(text)?)
}

/// Translates a query of the list.
fn entry_query(query: &ListQuery) -> Result<EntryQuery> {
    let after = query.start()?.map(|cursor| EntryPosition {
        at: cursor.at,
        rank: cursor.rank.unwrap_or_default(),
        id: cursor.id,
    });
    Ok(EntryQuery {
        sort: query.sort,
        oldest_first: query.oldest_first,
        after,
        limit: u32::try_from(query.limit()).unwrap_or(u32::MAX),
        archived: query.archived,
        source_kinds: query.kinds().into_iter().map(|kind| kind_name(kind).to_owned()).collect(),
        model_providers: query.model_providers.clone(),
        cwds: query.cwds.clone(),
        excluded: query.excluded.clone(),
        only: query.only.clone(),
        below: query.below.clone(),
        section: query.section.clone(),
        project_id: query.project_id.clone(),
        search_term: query.search_term().map(str::to_owned),
        trigrams: None,
    })
}
