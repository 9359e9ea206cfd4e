//! What the index still has to learn: at most one entry a thread, merged until somebody writes them.
//!
//! Appending to a thread leaves a note here and goes on. The notes are written by a thread of their own
//! after a while, or by the next list before it looks, whichever comes first.

use std::{collections::HashMap, time::Duration};

use codicil_protocol::{GitInfo, ThreadId};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::summary::{FileStamp, ThreadSummary};

/// How long a mere change of time may wait to be written with others.
const LINGER: Duration = Duration::from_millis(1500);
/// This many notes do not wait any longer.
const MANY_NOTES: usize = 256;
/// More notes than this are not kept; the files are looked at again instead.
const MAX_NOTES: usize = 4096;

/// What an append changed.
#[derive(Clone, Debug, Default)]
pub struct SummaryChange {
    pub stamp: FileStamp,
    /// Unix seconds of the last record that was part of the conversation.
    pub active_at: Option<i64>,
    /// The first user message among the new records; counts if the thread had none.
    pub preview: Option<String>,
    pub name: Option<String>,
    pub git: Option<Option<GitInfo>>,
}

impl SummaryChange {
    /// Whether lists would show or find something else than a later time.
    fn is_urgent(&self) -> bool {
        self.preview.is_some() || self.name.is_some() || self.git.is_some()
    }

    fn merge(&mut self, later: Self) {
        self.stamp = later.stamp;
        self.active_at = self.active_at.max(later.active_at);
        self.preview = self.preview.take().or(later.preview);
        self.name = later.name.or(self.name.take());
        self.git = later.git.or(self.git.take());
    }

    fn apply(self, row: &mut ThreadSummary) {
        row.stamp = self.stamp;
        row.updated_at = row.updated_at.max(self.active_at.unwrap_or(0));
        row.preview = row.preview.take().or(self.preview);
        row.name = self.name.or(row.name.take());
        if let Some(git) = self.git {
            row.git = git;
        }
    }
}

/// A thread's entry.
pub enum ChangeNote {
    New(Box<ThreadSummary>),
    /// Where the file is, should the index not know it, and what changed in it.
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
    /// There were too many: what the index says of files is not to be trusted.
    lost: bool,
    closed: bool,
}

/// The notes and the wait for them.
#[derive(Default)]
pub struct PendingChanges {
    notes: Mutex<ChangeNotes>,
    arrived: Condvar,
}

/// What is to be written now.
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
                let (dir, file) = (dir.to_owned(), file.to_owned());
                notes.notes.insert(id.clone(), ChangeNote::Changed { dir, file, archived, change });
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

    /// Takes everything. Call it while holding the index, so that who holds it next sees it written.
    pub fn take(&self) -> TakenChanges {
        let mut notes = self.lock();
        notes.urgent = false;
        TakenChanges { notes: std::mem::take(&mut notes.notes), lost: std::mem::take(&mut notes.lost) }
    }

    /// The notes could not be written now; they wait for the next time, behind what came meanwhile.
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

    /// The notes could not be written; the files have to be looked at again.
    pub fn give_up(&self) {
        self.lock().lost = true;
    }

    /// Waits until something should be written. `false` when it is for the last time.
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
