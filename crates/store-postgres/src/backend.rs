//! The backend of the store: translates between threads of the protocol and rows of the database.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use codicil_protocol::ThreadId;
use codicil_store::{
    AppendOutcome, Backend, BackendFuture, BackendKey, EntryChange, EntryLabel, EntryPage, EntryQuery,
    ListBelow, ListSection, ListSort, LiveRun, LogEnd, LostRun, NewEntry, OwnedLog, OwnerNode, RunId,
    RunState, StoreError, TableCheck, TableFinding, TableProblem, ThreadEntry, ThreadHome, TurnActivity,
    WorkspaceUse,
};
use uuid::Uuid;

use crate::{
    address::DatabaseAddress,
    append_statement::{self, LineBatch, RowChange, ThreadState},
    blobs::BlobHash,
    check::{ViolatedRule, Violation},
    cluster_node::{ANYWHERE, BackendSettings, ClusterNode},
    error::PostgresError,
    held_trees::{TreeHold, TreePlace},
    lease::{Claim, ClaimRule, Epoch, NodeAddress, PlacedClaim, TreeLease},
    request_keys::KeyLock,
    store::PostgresStore,
    thread_lines::NewThread,
    thread_list::{ThreadLabel, ThreadQuery, ThreadRow, ThreadSort, ThreadsBelow},
};

/// The abandoned trees that one look finds at most.
const MAX_ABANDONED: u32 = 64;

/// The threads of a database, as one node of it sees them.
pub struct PostgresBackend {
    store: Arc<PostgresStore>,
    node: ClusterNode,
}

impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PostgresBackend")
    }
}

impl PostgresBackend {
    /// Connects to a database and registers this node.
    pub async fn open(address: DatabaseAddress, settings: BackendSettings) -> Result<Self, PostgresError> {
        let store = Arc::new(PostgresStore::open(address).await?);
        let node = ClusterNode::register(store.clone(), settings).await?;
        Ok(Self { store, node })
    }

    /// Connects to a database to read it. This process is no node and cannot write threads.
    pub async fn open_reader(
        address: DatabaseAddress,
        settings: BackendSettings,
    ) -> Result<Self, PostgresError> {
        let store = Arc::new(PostgresStore::open_unchanged(address).await?);
        let node = ClusterNode::reader(store.clone(), settings);
        Ok(Self { store, node })
    }

    /// Takes the tree of a thread, and keeps it until the hold is dropped.
    async fn claim_tree(&self, thread: Uuid, rule: ClaimRule) -> Result<(TreeLease, TreeHold), StoreError> {
        loop {
            let node = self.node.identity().map_err(store_error)?;
            let PlacedClaim { claim, place } =
                self.store.claim_placed(&node, thread, rule).await.map_err(store_error)?;
            let tree = match claim {
                Claim::Held(tree) => tree,
                Claim::OwnedElsewhere(NodeAddress { identity, url }) => {
                    let thread = id_of(thread);
                    return Err(StoreError::OwnedElsewhere { thread, node: identity.name, url });
                }
            };
            match self.node.held().hold(tree, self.node.tree_place(place)) {
                Ok(hold) => return Ok((tree, hold)),
                Err(released) => released.cancelled().await,
            }
        }
    }

    async fn create_thread(&self, new: NewEntry) -> Result<OwnedLog, StoreError> {
        let parent_epoch = new.placement.parent_epoch;
        let thread = self.new_thread(new)?;
        let next = memchr::memchr_iter(b'\n', &thread.lines).count() as u64;
        let (tree, hold) = match (thread.parent, parent_epoch) {
            (None, _) => self.create_root(&thread).await?,
            (Some(parent), Some(epoch)) => self.create_child(parent, Epoch(epoch.0), &thread).await?,
            (Some(parent), None) => match self.claim_tree(parent, ClaimRule::WithoutHome).await {
                // The thread of the parent is only in memory.
                Err(StoreError::NotFound(_)) => self.create_root(&thread).await?,
                parent_tree => {
                    let (tree, hold) = parent_tree?;
                    self.store.spawn_child(&tree, &thread).await.map_err(store_error)?;
                    (tree, hold)
                }
            },
        };
        let end = LogEnd { epoch: codicil_store::Epoch(tree.epoch.0), next };
        Ok(OwnedLog { end, hold: Box::new(hold) })
    }

    async fn create_root(&self, thread: &NewThread) -> Result<(TreeLease, TreeHold), StoreError> {
        let node = self.node.identity().map_err(store_error)?;
        let tree = self.store.create(&node, thread).await.map_err(store_error)?;
        self.hold_new(tree, thread.id)
    }

    /// Creates a thread below one that this node has loaded.
    async fn create_child(
        &self,
        parent: Uuid,
        epoch: Epoch,
        thread: &NewThread,
    ) -> Result<(TreeLease, TreeHold), StoreError> {
        let tree = self.store.tree_at(parent, epoch).await.map_err(store_error)?;
        self.store.spawn_child(&tree, thread).await.map_err(store_error)?;
        self.hold_new(tree, thread.id)
    }

    /// Holds the tree of a new thread. Nothing else can have released it, unless its parent was unloaded meanwhile.
    fn hold_new(&self, tree: TreeLease, thread: Uuid) -> Result<(TreeLease, TreeHold), StoreError> {
        let hold = self.node.held().hold(tree, TreePlace::Here);
        let hold = hold.map_err(|_| StoreError::Overtaken { thread: id_of(thread), expected: 0 })?;
        Ok((tree, hold))
    }

    /// Returns the roots of trees whose workspace is on another node that is alive.
    async fn misplaced_trees(&self) -> Result<Vec<Uuid>, PostgresError> {
        let elsewhere = self.node.held().elsewhere();
        if elsewhere.is_empty() {
            return Ok(Vec::new());
        }
        let served = self.store.served_places().await?;
        Ok(elsewhere.into_iter().filter(|(_, place)| served.contains(place)).map(|(root, _)| root).collect())
    }

    fn new_thread(&self, new: NewEntry) -> Result<NewThread, StoreError> {
        let NewEntry { entry, placement, lines } = new;
        let place = match placement.workspace {
            WorkspaceUse::Directory => self.node.place_of(&entry.cwd),
            WorkspaceUse::None => ANYWHERE,
        };
        Ok(NewThread {
            id: uuid_of(&entry.id).map_err(|_| StoreError::InvalidId(entry.id.to_string()))?,
            parent: entry.parent.as_ref().map(uuid_of).transpose()?,
            place: place.to_owned(),
            created_at: entry.created_at,
            updated_at: entry.updated_at,
            source_kind: entry.source_kind,
            model_provider: entry.model_provider,
            cwd: entry.cwd,
            name: entry.name,
            preview: entry.preview,
            details: entry.details,
            facts: entry.facts,
            open_requests: entry.open_requests,
            lines,
        })
    }

    async fn all_lines(&self, thread: Uuid, from: u64) -> Result<Vec<u8>, PostgresError> {
        let mut page = self.store.read_lines(thread, from).await?;
        let mut lines = std::mem::take(&mut page.lines);
        while page.has_more {
            page = self.store.read_lines(thread, page.next).await?;
            lines.append(&mut page.lines);
        }
        Ok(lines)
    }

    fn entry_of(&self, row: ThreadRow) -> ThreadEntry {
        ThreadEntry {
            id: id_of(row.id),
            parent: row.parent.map(id_of),
            place: if self.node.reaches(&row.place) { ThreadHome::Here } else { ThreadHome::Node(row.place) },
            archived: row.archived,
            created_at: row.created_at,
            updated_at: row.updated_at,
            source_kind: row.source_kind,
            model_provider: row.model_provider,
            cwd: row.cwd,
            name: row.name,
            preview: row.preview,
            open_requests: row.open_requests,
            details: row.details,
            facts: row.facts,
        }
    }
}

impl Backend for PostgresBackend {
    fn begin_run(&self) -> BackendFuture<'_, RunId> {
        Box::pin(async {
            let node = self.node.identity().map_err(store_error)?;
            Ok(RunId::from(node.run.to_string()))
        })
    }

    fn run_state<'a>(&'a self, run: &'a RunId) -> BackendFuture<'a, RunState> {
        Box::pin(async move {
            let Ok(id) = Uuid::try_parse(run) else { return Ok(RunState::Over) };
            if self.node.identity().is_ok_and(|own| own.run == id) {
                return Ok(RunState::Own);
            }
            let node = self.store.node_of_run(id).await.map_err(store_error)?;
            Ok(match node {
                Some(_) => RunState::Live(LiveRun { run: run.clone(), pid: None, started_at: None }),
                None => RunState::Over,
            })
        })
    }

    fn may_act(&self) -> bool {
        self.node.may_act()
    }

    fn create(&self, thread: NewEntry) -> BackendFuture<'_, OwnedLog> {
        Box::pin(self.create_thread(thread))
    }

    fn claim<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, OwnedLog> {
        Box::pin(async move {
            let id = uuid_of(thread)?;
            let (tree, hold) = self.claim_tree(id, ClaimRule::WithoutHome).await?;
            let end = self.store.log_end(id).await.map_err(store_error)?;
            let end = end.ok_or_else(|| StoreError::NotFound(thread.clone()))?;
            let end = LogEnd { epoch: codicil_store::Epoch(tree.epoch.0), next: end.next };
            Ok(OwnedLog { end, hold: Box::new(hold) })
        })
    }

    fn other_owner<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, Option<OwnerNode>> {
        Box::pin(async move {
            let Ok(id) = uuid_of(thread) else { return Ok(None) };
            let own = self.node.identity().ok();
            let run = own.as_ref().map_or(Uuid::nil(), |own| own.run);
            let owner = match self.store.owner_or_home(run, id).await {
                Err(PostgresError::NotFound(_)) => None,
                owner => owner.map_err(store_error)?,
            };
            let other = owner.filter(|owner| Some(&owner.identity) != own.as_ref());
            Ok(other.map(|owner| OwnerNode { name: owner.identity.name, url: owner.url }))
        })
    }

    fn append(&self, batch: codicil_store::LineBatch) -> BackendFuture<'_, AppendOutcome> {
        Box::pin(async move {
            let batch = LineBatch {
                thread: uuid_of(&batch.thread)?,
                epoch: Epoch(batch.end.epoch.0),
                ordinals: batch.end.next..batch.next,
                lines: batch.lines,
                change: row_change(batch.change),
            };
            match self.node.while_held(self.store.append(batch)).await {
                Ok(()) => Ok(AppendOutcome::Appended),
                Err(PostgresError::Overtaken { .. }) => Ok(AppendOutcome::Overtaken),
                Err(error) => Err(store_error(error)),
            }
        })
    }

    fn end<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, Option<LogEnd>> {
        Box::pin(async move {
            let end = self.store.log_end(uuid_of(thread)?).await.map_err(store_error)?;
            let outside = |end: append_statement::LogEnd| LogEnd {
                epoch: codicil_store::Epoch(end.epoch.0),
                next: end.next,
            };
            Ok(end.map(outside))
        })
    }

    fn read_lines<'a>(&'a self, thread: &'a ThreadId, from: u64) -> BackendFuture<'a, Vec<u8>> {
        Box::pin(async move { self.all_lines(uuid_of(thread)?, from).await.map_err(store_error) })
    }

    fn entry<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, ThreadEntry> {
        Box::pin(async move {
            let row = self.store.thread(uuid_of(thread)?).await.map_err(store_error)?;
            Ok(self.entry_of(row))
        })
    }

    fn list<'a>(&'a self, query: &'a EntryQuery) -> BackendFuture<'a, EntryPage> {
        Box::pin(async move {
            let page = self.store.list(&thread_query(query)?).await.map_err(store_error)?;
            let entries = page.threads.into_iter().map(|row| self.entry_of(row)).collect();
            Ok(EntryPage { entries, has_more: page.has_more })
        })
    }

    fn labelled<'a>(&'a self, label: &'a EntryLabel) -> BackendFuture<'a, Vec<ThreadEntry>> {
        Box::pin(async move {
            let label = match label.clone() {
                EntryLabel::Section(id) => ThreadLabel::Section(id),
                EntryLabel::Project(id) => ThreadLabel::Project(id),
                EntryLabel::Attachment { attachment_type, identity_key } => {
                    ThreadLabel::Attachment { attachment_type, identity_key }
                }
            };
            let rows = self.store.labelled(&label).await.map_err(store_error)?;
            Ok(rows.into_iter().map(|row| self.entry_of(row)).collect())
        })
    }

    fn project_recency(&self) -> BackendFuture<'_, Vec<(String, i64)>> {
        Box::pin(async { self.store.project_recency().await.map_err(store_error) })
    }

    fn children<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, Vec<ThreadId>> {
        Box::pin(async move {
            let children = self.store.children(uuid_of(thread)?).await.map_err(store_error)?;
            Ok(children.into_iter().map(id_of).collect())
        })
    }

    fn threads_with_requests<'a>(&'a self, from: &'a str) -> BackendFuture<'a, Vec<ThreadId>> {
        Box::pin(async move {
            let from = Uuid::try_parse(from).unwrap_or_default();
            let threads = self.store.threads_with_requests(from).await.map_err(store_error)?;
            Ok(threads.into_iter().map(id_of).collect())
        })
    }

    fn threads_after<'a>(&'a self, after: &'a str) -> BackendFuture<'a, Vec<ThreadId>> {
        Box::pin(async move {
            let after = Uuid::try_parse(after).unwrap_or_default();
            let threads = self.store.threads_after(after).await.map_err(store_error)?;
            Ok(threads.into_iter().map(id_of).collect())
        })
    }

    fn set_archived<'a>(&'a self, thread: &'a ThreadId, archived: bool) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let id = uuid_of(thread)?;
            let moved = if archived { self.store.archive(id).await } else { self.store.unarchive(id).await };
            moved.map_err(store_error)
        })
    }

    fn delete<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let id = uuid_of(thread)?;
            let (tree, _hold) = self.claim_tree(id, ClaimRule::WithoutHome).await?;
            self.store.delete(&tree, id).await.map_err(store_error)?;
            if tree.root == id {
                self.node.held().forget(id);
            }
            Ok(())
        })
    }

    fn rehome<'a>(&'a self, thread: &'a ThreadId, cwd: &'a str) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let id = uuid_of(thread)?;
            let (tree, _hold) = self.claim_tree(id, ClaimRule::Any).await?;
            self.store.set_place(&tree, id, self.node.place_of(cwd), cwd).await.map_err(store_error)
        })
    }

    fn put_blobs(&self, blobs: Vec<(String, String)>) -> BackendFuture<'_, ()> {
        Box::pin(async move {
            let stored = self.node.while_held(async {
                for (_, content) in &blobs {
                    self.store.put_blob(content.as_bytes()).await?;
                }
                Ok(())
            });
            stored.await.map_err(store_error)
        })
    }

    fn read_blobs(&self, hashes: Vec<String>) -> BackendFuture<'_, HashMap<String, String>> {
        Box::pin(async move {
            let hashes: Vec<_> = hashes.iter().filter_map(|hash| BlobHash::parse(hash)).collect();
            let found = self.store.read_blobs(&hashes).await.map_err(store_error)?;
            let text =
                |(hash, body): (BlobHash, Vec<u8>)| Some((hash.to_string(), String::from_utf8(body).ok()?));
            Ok(found.into_iter().filter_map(text).collect())
        })
    }

    fn lock_key<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Box<dyn BackendKey>> {
        Box::pin(async move {
            let node = self.node.identity().map_err(store_error)?;
            let lock = self.store.lock_key(&node, key).await.map_err(store_error)?;
            Ok(Box::new(LockedKey(lock)) as Box<dyn BackendKey>)
        })
    }

    fn document<'a>(&'a self, name: &'a str) -> BackendFuture<'a, (String, i64)> {
        Box::pin(async move { self.store.document(name).await.map_err(store_error) })
    }

    fn replace_document<'a>(&'a self, name: &'a str, version: i64, text: String) -> BackendFuture<'a, bool> {
        Box::pin(async move { self.store.replace_document(name, version, &text).await.map_err(store_error) })
    }

    fn unindexed(&self) -> BackendFuture<'_, Vec<(ThreadId, u64)>> {
        Box::pin(async {
            let threads = self.store.unindexed().await.map_err(store_error)?;
            Ok(threads.into_iter().map(|(thread, from)| (id_of(thread), from)).collect())
        })
    }

    fn index_messages<'a>(
        &'a self,
        thread: &'a ThreadId,
        lines: Range<u64>,
        trigrams: Vec<i32>,
    ) -> BackendFuture<'a, ()> {
        Box::pin(async move {
            let thread = uuid_of(thread)?;
            self.store.index_messages(thread, lines, &trigrams).await.map_err(store_error)
        })
    }

    fn check_tables<'a>(&'a self, after: &'a str) -> BackendFuture<'a, TableCheck> {
        Box::pin(async move {
            let after = Uuid::try_parse(after).unwrap_or_default();
            let page = self.store.violations_after(after).await.map_err(store_error)?;
            let findings = page.violations.into_iter().map(table_finding).collect();
            Ok(TableCheck { findings, next: page.next.map(id_of) })
        })
    }

    fn abandoned(&self) -> BackendFuture<'_, Vec<ThreadId>> {
        Box::pin(async {
            let places = self.node.reachable();
            let trees = self.store.abandoned_trees(&places, MAX_ABANDONED).await.map_err(store_error)?;
            Ok(trees.into_iter().map(id_of).collect())
        })
    }

    fn misplaced(&self) -> BackendFuture<'_, Vec<ThreadId>> {
        Box::pin(async {
            let trees = self.misplaced_trees().await.map_err(store_error)?;
            Ok(trees.into_iter().map(id_of).collect())
        })
    }

    fn fenced(&self) -> BackendFuture<'_, LostRun> {
        Box::pin(async { Ok(self.node.fenced().await) })
    }

    fn close(&self) -> BackendFuture<'_, ()> {
        Box::pin(async {
            self.node.close().await;
            Ok(())
        })
    }
}

struct LockedKey(KeyLock);

impl BackendKey for LockedKey {
    fn intent(&self) -> Option<&str> {
        self.0.intent()
    }

    fn result(&self) -> Option<&str> {
        self.0.result()
    }

    fn begin(&mut self, intent: String) -> BackendFuture<'_, ()> {
        Box::pin(async move { self.0.begin(&intent).await.map_err(store_error) })
    }

    fn finish(self: Box<Self>, result: String) -> BackendFuture<'static, ()> {
        Box::pin(async move { self.0.finish(&result).await.map_err(store_error) })
    }

    fn forget(self: Box<Self>) -> BackendFuture<'static, ()> {
        Box::pin(async move { self.0.forget().await.map_err(store_error) })
    }
}

fn table_finding(violation: Violation) -> TableFinding {
    let problem = match violation.rule {
        ViolatedRule::Gaps => TableProblem::MissingLines,
        ViolatedRule::Overlaps => TableProblem::DoubledLines,
        ViolatedRule::Epochs => TableProblem::DecreasingEpoch,
        ViolatedRule::LineCount => TableProblem::UnreadableLines,
        ViolatedRule::End | ViolatedRule::Fence | ViolatedRule::Tree => TableProblem::WrongLease,
        ViolatedRule::Entry | ViolatedRule::Orphan => TableProblem::OrphanedRow,
    };
    TableFinding { thread: id_of(violation.thread), problem, message: violation.detail }
}

fn id_of(thread: Uuid) -> ThreadId {
    ThreadId::from(thread.to_string())
}

/// Returns the id of a thread in the database, which has no others.
fn uuid_of(thread: &ThreadId) -> Result<Uuid, StoreError> {
    Uuid::try_parse(thread).map_err(|_| StoreError::NotFound(thread.clone()))
}

fn row_change(change: EntryChange) -> RowChange {
    RowChange {
        active_at: change.active_at,
        preview: change.preview,
        name: change.name,
        open_requests: change.open_requests,
        details: change.details,
        facts: change.facts,
        state: change.activity.map(|activity| match activity {
            TurnActivity::Idle => ThreadState::Idle,
            TurnActivity::Running => ThreadState::Running,
            TurnActivity::Parked => ThreadState::Parked,
        }),
    }
}

fn thread_query(query: &EntryQuery) -> Result<ThreadQuery, StoreError> {
    let ids = |ids: &[ThreadId]| ids.iter().filter_map(|id| uuid_of(id).ok()).collect::<Vec<_>>();
    let after = query.after.as_ref();
    let after_id = after.map(|after| uuid_of(&after.id)).transpose()?;
    Ok(ThreadQuery {
        sort: match query.sort {
            ListSort::Created => ThreadSort::Created,
            ListSort::Updated => ThreadSort::Updated,
            ListSort::Section => ThreadSort::Section,
        },
        oldest_first: query.oldest_first,
        after: after.map(|after| after.at).zip(after_id),
        after_rank: after.map(|after| after.rank.clone()).unwrap_or_default(),
        limit: query.limit,
        archived: query.archived,
        source_kinds: query.source_kinds.clone(),
        model_providers: query.model_providers.clone(),
        cwds: query.cwds.clone(),
        excluded: ids(&query.excluded),
        only: query.only.as_deref().map(ids),
        section: match &query.section {
            Some(ListSection::In(section)) => Some(section.clone()),
            _ => None,
        },
        outside_sections: match &query.section {
            Some(ListSection::OutsideOf(sections)) => Some(sections.clone()),
            _ => None,
        },
        project: query.project_id.clone(),
        below: match &query.below {
            None => None,
            Some(ListBelow::Children(id)) => Some(ThreadsBelow::Children(uuid_of(id)?)),
            Some(ListBelow::Descendants(id)) => Some(ThreadsBelow::Descendants(uuid_of(id)?)),
        },
        search_term: query.search_term.clone(),
        trigrams: query.trigrams.clone(),
    })
}

fn store_error(error: PostgresError) -> StoreError {
    match error {
        PostgresError::NotFound(thread) => StoreError::NotFound(id_of(thread)),
        PostgresError::Exists(thread) => StoreError::Exists(id_of(thread)),
        PostgresError::Overtaken { thread, first } => {
            StoreError::Overtaken { thread: id_of(thread), expected: first }
        }
        PostgresError::Unavailable(reason) => StoreError::Unavailable(reason.into_owned()),
        PostgresError::Closed => StoreError::Closed,
        other => StoreError::Database(other.to_string()),
    }
}
