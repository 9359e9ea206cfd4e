//! What a database has to offer to hold threads for several servers.
//!
//! The unit is the *line*: records, replay, forks, imports and blobs in lines are one code above this trait, for files and
//! databases alike. The embedded store of files is not behind it, so that it pays nothing for it.
//!
//! A writer states the end that it expects, an ordinal and an [`Epoch`]. The epoch counts the owners of a thread, so an append
//! of a server that has lost the thread has no effect.

use std::{collections::HashMap, fmt, ops::Range, pin::Pin};

use codicil_protocol::ThreadId;
use tokio::sync::oneshot;

use crate::{
    error::Result,
    list::{ListBelow, ListSection, ListSort},
    record::RunId,
    run_lock::RunState,
};

/// The answer of a backend.
pub type BackendFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A database that holds threads.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Returns the run of this server, for the `turn` records that it writes.
    fn begin_run(&self) -> BackendFuture<'_, RunId>;

    /// Returns whether a run is alive, and which server it is.
    fn run_state<'a>(&'a self, run: &'a RunId) -> BackendFuture<'a, RunState>;

    /// Returns whether this server may start effects: no other server can have taken its threads.
    fn may_act(&self) -> bool;

    /// Creates a thread with its first lines. This server owns it. Fails with `Overtaken` if it does not own the parent at the
    /// expected epoch.
    fn create(&self, thread: NewEntry) -> BackendFuture<'_, OwnedLog>;

    /// Makes this server the owner of a thread and returns its end. Fails with `OwnedElsewhere` while another server that is
    /// alive owns it, or if no server owns it and the workspace is on another server that is alive.
    fn claim<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, OwnedLog>;

    /// Returns the server that owns a thread, or has the workspace of one that no server owns, if it is another one and alive.
    fn other_owner<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, Option<OwnerNode>>;

    /// Appends lines if the end is the expected one.
    fn append(&self, batch: LineBatch) -> BackendFuture<'_, AppendOutcome>;

    /// Returns the end of a thread; `None` if there is no such thread.
    fn end<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, Option<LogEnd>>;

    /// Returns the lines of a thread from an ordinal on.
    fn read_lines<'a>(&'a self, thread: &'a ThreadId, from: u64) -> BackendFuture<'a, Vec<u8>>;

    /// Returns the list entry of a thread.
    fn entry<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, ThreadEntry>;

    /// Returns a page of entries with a user message.
    fn list<'a>(&'a self, query: &'a EntryQuery) -> BackendFuture<'a, EntryPage>;

    /// Returns the entries with a label, archived or not, by id.
    fn labelled<'a>(&'a self, label: &'a EntryLabel) -> BackendFuture<'a, Vec<ThreadEntry>>;

    /// Returns when a thread of each project was last active, in Unix seconds.
    fn project_recency(&self) -> BackendFuture<'_, Vec<(String, i64)>>;

    /// Returns the threads that the agent of a thread started, by id.
    fn children<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, Vec<ThreadId>>;

    /// Returns threads from an id on with server requests that wait for an answer, by id.
    fn threads_with_requests<'a>(&'a self, from: &'a str) -> BackendFuture<'a, Vec<ThreadId>>;

    /// Returns some threads after an id, archived or not, by id; none after the last.
    fn threads_after<'a>(&'a self, after: &'a str) -> BackendFuture<'a, Vec<ThreadId>>;

    /// Moves a thread to the archive or back. Fails with `NotFound` if it is there already.
    fn set_archived<'a>(&'a self, thread: &'a ThreadId, archived: bool) -> BackendFuture<'a, ()>;

    fn delete<'a>(&'a self, thread: &'a ThreadId) -> BackendFuture<'a, ()>;

    /// Changes where the workspace of a thread is to this server.
    fn rehome<'a>(&'a self, thread: &'a ThreadId, cwd: &'a str) -> BackendFuture<'a, ()>;

    /// Stores blobs, each with its hash, before the lines that refer to them.
    fn put_blobs(&self, blobs: Vec<(String, String)>) -> BackendFuture<'_, ()>;

    /// Returns the blobs that exist, by their hashes.
    fn read_blobs(&self, hashes: Vec<String>) -> BackendFuture<'_, HashMap<String, String>>;

    /// Locks the key of a request. Waits as long as another request with this key is carried out.
    fn lock_key<'a>(&'a self, key: &'a str) -> BackendFuture<'a, Box<dyn BackendKey>>;

    /// Returns a document that belongs to no thread, and its version; an empty one has version 0.
    fn document<'a>(&'a self, name: &'a str) -> BackendFuture<'a, (String, i64)>;

    /// Replaces a document if it still has this version. Returns whether it had.
    fn replace_document<'a>(&'a self, name: &'a str, version: i64, text: String) -> BackendFuture<'a, bool>;

    /// Returns some threads whose messages are not all indexed, each with the ordinal from which on they are not.
    fn unindexed(&self) -> BackendFuture<'_, Vec<(ThreadId, u64)>>;

    /// Adds the trigrams of the messages in a range of lines to the index, if it ends where the range begins.
    fn index_messages<'a>(
        &'a self,
        thread: &'a ThreadId,
        lines: Range<u64>,
        trigrams: Vec<i32>,
    ) -> BackendFuture<'a, ()>;

    /// Checks what must hold of the tables, for some threads after an id.
    fn check_tables<'a>(&'a self, after: &'a str) -> BackendFuture<'a, TableCheck>;

    /// Returns threads with a running turn whose owner is not alive, and whose workspace this server can reach.
    fn abandoned(&self) -> BackendFuture<'_, Vec<ThreadId>>;

    /// Returns threads that this server owns although their workspace is on another server that is alive.
    fn misplaced(&self) -> BackendFuture<'_, Vec<ThreadId>>;

    /// Waits until this server has lost its threads because it could not renew its lease. It takes part again when the result
    /// is dropped.
    fn fenced(&self) -> BackendFuture<'_, LostRun>;

    /// Ends the run. Others can take its threads at once.
    fn close(&self) -> BackendFuture<'_, ()>;
}

/// The locked key of a request, see [`HomeKeyLock`](crate::HomeKeyLock). Dropping it unlocks the key.
pub trait BackendKey: Send + Sync {
    /// Returns the intent of an earlier attempt, as it was stored.
    fn intent(&self) -> Option<&str>;
    /// Returns the result of the request, if it was carried out.
    fn result(&self) -> Option<&str>;
    fn begin(&mut self, intent: String) -> BackendFuture<'_, ()>;
    fn finish(self: Box<Self>, result: String) -> BackendFuture<'static, ()>;
    fn forget(self: Box<Self>) -> BackendFuture<'static, ()>;
}

/// The number of a thread's owner, counted up whenever it gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub i64);

/// A thread that this server owns.
#[derive(Debug)]
pub struct OwnedLog {
    pub end: LogEnd,
    pub hold: OwnerHold,
}

/// Keeps this server the owner of a tree of threads. The backend gives up the tree when the last one is dropped.
pub type OwnerHold = Box<dyn fmt::Debug + Send + Sync>;

/// The loss of all threads. Dropping it says that their turns and commands have ended.
#[derive(Debug)]
pub struct LostRun {
    _ended: oneshot::Sender<()>,
}

impl LostRun {
    /// Returns the loss, and a receiver that fails when the loss is dropped.
    pub fn new() -> (Self, oneshot::Receiver<()>) {
        let (ended, dropped) = oneshot::channel();
        (Self { _ended: ended }, dropped)
    }
}

/// The end of a thread that an append expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    pub epoch: Epoch,
    /// The ordinal of the next line.
    pub next: u64,
}

/// Lines to append.
#[derive(Clone, Debug)]
pub struct LineBatch {
    pub thread: ThreadId,
    /// The expected end.
    pub end: LogEnd,
    /// The ordinal behind the lines.
    pub next: u64,
    /// The lines, each with its newline.
    pub lines: Vec<u8>,
    pub change: EntryChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    Appended,
    /// The end is another one. Nothing was changed.
    Overtaken,
}

/// What an append changes of the list entry. `None` leaves a member as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryChange {
    /// Unix seconds.
    pub active_at: Option<i64>,
    /// The first user message. Later ones are ignored.
    pub preview: Option<String>,
    pub name: Option<String>,
    pub open_requests: Option<i32>,
    pub details: Option<String>,
    pub facts: Option<String>,
    pub activity: Option<TurnActivity>,
}

/// Whether a thread has a turn, for servers that look for the threads of a dead one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnActivity {
    Idle,
    Running,
    Parked,
}

/// A thread to create.
#[derive(Clone, Debug)]
pub struct NewEntry {
    pub entry: ThreadEntry,
    pub placement: ThreadPlacement,
    /// The first lines, from ordinal 0 on.
    pub lines: Vec<u8>,
}

/// Where a new thread belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadPlacement {
    /// The epoch at which this server has loaded the parent; `None` if it has not.
    pub parent_epoch: Option<Epoch>,
    pub workspace: WorkspaceUse,
}

/// Whether a thread uses files and commands of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceUse {
    #[default]
    Directory,
    /// Every server can run its turns.
    None,
}

/// The list entry of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadEntry {
    pub id: ThreadId,
    pub parent: Option<ThreadId>,
    /// The server that has the workspace; the backend chooses it for a new thread.
    pub place: ThreadHome,
    pub archived: bool,
    /// Unix seconds, like `updated_at`.
    pub created_at: i64,
    pub updated_at: i64,
    pub source_kind: String,
    pub model_provider: String,
    pub cwd: String,
    pub name: Option<String>,
    /// The first user message. Threads without one are not listed.
    pub preview: Option<String>,
    pub open_requests: i32,
    /// The rest of the entry, which the backend does not look into.
    pub details: String,
    /// The section, project and attachments as JSON, for [`EntryLabel`].
    pub facts: String,
}

/// Where the workspace of a thread is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ThreadHome {
    /// This server can reach it.
    #[default]
    Here,
    /// Only this server can.
    Node(String),
}

/// A server that owns a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerNode {
    pub name: String,
    /// Where clients and other servers reach it.
    pub url: String,
}

/// The filter, order and position of a list. Empty sets are no filter, except for `only` and `cwds`.
#[derive(Clone, Debug, Default)]
pub struct EntryQuery {
    pub sort: ListSort,
    pub oldest_first: bool,
    /// The entry behind which the page starts.
    pub after: Option<EntryPosition>,
    pub limit: u32,
    pub archived: bool,
    pub source_kinds: Vec<String>,
    pub model_providers: Vec<String>,
    pub cwds: Option<Vec<String>>,
    pub excluded: Vec<ThreadId>,
    pub only: Option<Vec<ThreadId>>,
    pub below: Option<ListBelow>,
    pub section: Option<ListSection>,
    pub project_id: Option<String>,
    /// A case-sensitive substring of the name or the first user message.
    pub search_term: Option<String>,
    /// The trigrams of a text, for [`Backend::index_messages`]: only threads whose messages may contain all of them.
    pub trigrams: Option<Vec<i32>>,
}

/// The position of an entry in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryPosition {
    /// The time by which the list is sorted, in Unix seconds.
    pub at: i64,
    /// The rank by which a section is sorted.
    pub rank: String,
    pub id: ThreadId,
}

/// A page of a list.
#[derive(Clone, Debug)]
pub struct EntryPage {
    pub entries: Vec<ThreadEntry>,
    pub has_more: bool,
}

/// The result of checking a part of the tables.
#[derive(Clone, Debug)]
pub struct TableCheck {
    pub findings: Vec<TableFinding>,
    /// The last thread of this part; `None` if it was the last part.
    pub next: Option<ThreadId>,
}

/// Something that must not be in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFinding {
    pub thread: ThreadId,
    pub problem: TableProblem,
    pub message: String,
}

/// What can be wrong with the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableProblem {
    /// Ordinals without lines.
    MissingLines,
    /// Ordinals with several lines.
    DoubledLines,
    /// An epoch below the one before.
    DecreasingEpoch,
    /// More or fewer lines than ordinals.
    UnreadableLines,
    /// A lease that does not fit its thread or its tree.
    WrongLease,
    /// A row that belongs to no thread.
    OrphanedRow,
}

/// What threads have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryLabel {
    Section(String),
    Project(String),
    Attachment { attachment_type: String, identity_key: String },
}
