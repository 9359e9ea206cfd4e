//! Pending changes of the index: at most one per thread, merged until they are written.
//!
//! Appending to a thread records a change here without waiting. The changes are written by a background thread after a
//! delay, or by the next list.

use std::{collections::HashMap, time::Duration};

use codicil_protocol::{GitInfo, ThreadId};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    facts::FactEvent,
    record::QuestionKind,
    summary::{FileStamp, ModelChoice, ThreadSummary},
};

/// The delay for changes that only affect the time of a thread.
const LINGER: Duration = Duration::from_millis(1500);
/// The number of changes that are written without delay.
const MANY_NOTES: usize = 256;
/// The maximum number of changes. Beyond it they are dropped, and the files are read again instead.
const MAX_NOTES: usize = 4096;

/// The changes of an append.
#[derive(Clone, Debug, Default)]
pub struct SummaryChange {
    pub stamp: FileStamp,
    /// Unix seconds of the last record that counts as activity.
    pub active_at: Option<i64>,
    /// The first user message among the new records. Used if the thread had none.
    pub preview: Option<String>,
    pub name: Option<String>,
    pub git: GitChange,
    /// The model and effort, if they were stored again.
    pub model: Option<ModelChoice>,
    /// The kinds of open server requests, if they have changed.
    pub open_requests: Option<Vec<QuestionKind>>,
    /// Records that affect facts, with their ordinals.
    pub facts: Vec<(u64, FactEvent)>,
}

/// A change of the repository state.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum GitChange {
    #[default]
    Unchanged,
    Set(Option<GitInfo>),
}

impl SummaryChange {
    /// Returns whether the change affects lists in more than the time of the thread.
    fn is_urgent(&self) -> bool {
        self.preview.is_some() || self.name.is_some() || self.git != GitChange::Unchanged
    }

    fn merge(&mut self, later: Self) {
        self.stamp = later.stamp;
        self.active_at = self.active_at.max(later.active_at);
        self.preview = self.preview.take().or(later.preview);
        self.name = later.name.or(self.name.take());
        self.model = later.model.or(self.model.take());
        self.open_requests = later.open_requests.or(self.open_requests.take());
        self.facts.extend(later.facts);
        if later.git != GitChange::Unchanged {
            self.git = later.git;
        }
    }

    pub fn apply(self, row: &mut ThreadSummary) {
        row.stamp = self.stamp;
        for (ordinal, event) in &self.facts {
            row.facts.apply(*ordinal, event);
        }
        row.updated_at = row.updated_at.max(self.active_at.unwrap_or(0));
        row.preview = row.preview.take().or(self.preview);
        row.name = self.name.or(row.name.take());
        row.model = self.model.unwrap_or_else(|| std::mem::take(&mut row.model));
        row.open_requests = self.open_requests.unwrap_or_else(|| std::mem::take(&mut row.open_requests));
        if let GitChange::Set(git) = self.git {
            row.git = git;
        }
    }
}

/// A pending change of a thread.
pub enum ChangeNote {
    New(Box<ThreadSummary>),
    /// The location of the file, in case the index does not have it, and the changes.
    Changed {
        dir: String,
        file: String,
        archived: bool,
        change: SummaryChange,
    },
}

#[derive(Default)]
struct ChangeNotes {
    notes: HashMap<ThreadId, ChangeNote>,
    urgent: bool,
    /// Whether changes were dropped, so that the index may be outdated.
    lost: bool,
    closed: bool,
}

/// The pending changes of all threads.
#[derive(Default)]
pub struct PendingChanges {
    notes: Mutex<ChangeNotes>,
    arrived: Condvar,
}

/// Changes to write.
pub struct TakenChanges {
    pub notes: HashMap<ThreadId, ChangeNote>,
    pub lost: bool,
}

impl PendingChanges {
    pub fn created(&self, row: ThreadSummary) {
        let mut notes = self.lock();
        notes.notes.insert(row.id.clone(), ChangeNote::New(Box::new(row)));
        self.bound(notes);
    }

    pub fn changed(&self, id: &ThreadId, dir: &str, file: &str, archived: bool, change: SummaryChange) {
        let mut notes = self.lock();
        notes.urgent |= change.is_urgent();
        match notes.notes.get_mut(id) {
            Some(ChangeNote::New(row)) => change.apply(row),
            Some(ChangeNote::Changed { change: earlier, .. }) => earlier.merge(change),
            None => {
                let note =
                    ChangeNote::Changed { dir: dir.to_owned(), file: file.to_owned(), archived, change };
                notes.notes.insert(id.clone(), note);
            }
        }
        self.bound(notes);
    }

    fn bound(&self, mut notes: MutexGuard<'_, ChangeNotes>) {
        notes.urgent |= notes.notes.len() > MANY_NOTES;
        if notes.notes.len() > MAX_NOTES {
            notes.notes.clear();
            notes.lost = true;
        }
        self.arrived.notify_all();
    }

    /// Takes all changes. The caller holds the lock of the index, so that the next holder sees them written.
    pub fn take(&self) -> TakenChanges {
        let mut notes = self.lock();
        notes.urgent = false;
        TakenChanges { notes: std::mem::take(&mut notes.notes), lost: std::mem::take(&mut notes.lost) }
    }

    /// Returns changes that could not be written now. Newer changes take precedence.
    pub fn give_back(&self, older: HashMap<ThreadId, ChangeNote>) {
        let mut notes = self.lock();
        for (id, note) in older {
            let note = match (note, notes.notes.remove(&id)) {
                (note, None) => note,
                (_, Some(newer @ ChangeNote::New(_))) => newer,
                (ChangeNote::New(mut row), Some(ChangeNote::Changed { change, .. })) => {
                    change.apply(&mut row);
                    ChangeNote::New(row)
                }
                (
                    ChangeNote::Changed { dir, file, archived, mut change },
                    Some(ChangeNote::Changed { change: later, .. }),
                ) => {
                    change.merge(later);
                    ChangeNote::Changed { dir, file, archived, change }
                }
            };
            notes.notes.insert(id, note);
        }
        self.bound(notes);
    }

    /// Drops changes that cannot be written. The files are read again.
    pub fn give_up(&self) {
        self.lock().lost = true;
    }

    /// Waits until changes should be written. Returns `false` if this is the last time.
    pub fn wait(&self) -> bool {
        let mut notes = self.lock();
        let idle = |notes: &mut ChangeNotes| notes.notes.is_empty() && !notes.closed;
        self.arrived.wait_while(&mut notes, idle);
        let lingering = |notes: &mut ChangeNotes| !notes.urgent && !notes.closed && !notes.notes.is_empty();
        self.arrived.wait_while_for(&mut notes, lingering, LINGER);
        !notes.closed
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    pub fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ChangeNotes> {
        self.notes.lock()
    }
}
