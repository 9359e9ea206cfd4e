//! The mailbox of the watching thread: watches that begin and end, and changes that the system reports.
//!
//! Adding to it never blocks. In particular, the thread that reads the system's reports must not block, because the
//! watching thread waits for it when it adds a directory. So reports without room are dropped, which is recorded.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use notify::{Event, EventKind, event::ModifyKind};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::{WatchError, change_listener::ChangeListener};

/// How many watches may wait to begin.
const MAX_NEW_WATCHES: usize = 1024;

/// How many changed paths may wait. With more, everything that is watched counts as changed.
const MAX_CHANGES: usize = 8192;

#[derive(Debug, Default)]
pub(super) struct WatchMailbox {
    messages: Mutex<WatchMessages>,
    arrived: Condvar,
}

/// The contents of the mailbox.
#[derive(Debug, Default)]
pub(super) struct WatchMessages {
    pub begin: VecDeque<NewWatch>,
    pub ended: Vec<u64>,
    pub changes: HashMap<PathBuf, PathChange>,
    /// Whether reports were dropped.
    pub overflow: bool,
    last_number: u64,
    closed: bool,
}

/// A watch to set up.
#[derive(Debug)]
pub(super) struct NewWatch {
    pub number: u64,
    pub path: PathBuf,
    pub listener: Arc<ChangeListener>,
    pub reply: oneshot::Sender<Result<(), WatchError>>,
}

/// A change of a path. Of several, the greatest is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathChange {
    /// Its contents, mode or times changed.
    Content,
    /// It exists, perhaps as another file than before.
    Appeared,
    /// It is gone, or was gone for a moment.
    Gone,
}

impl WatchMailbox {
    /// Adds a watch to set up and returns its number.
    pub fn begin(&self, begin: impl FnOnce(u64) -> NewWatch) -> Result<u64, WatchError> {
        let mut messages = self.lock();
        if messages.closed {
            return Err(WatchError::Closed);
        }
        if messages.begin.len() >= MAX_NEW_WATCHES {
            return Err(WatchError::Busy);
        }
        messages.last_number += 1;
        let number = messages.last_number;
        messages.begin.push_back(begin(number));
        drop(messages);
        self.arrived.notify_one();
        Ok(number)
    }

    /// Adds the end of a watch. There are never more of these than watches.
    pub fn end(&self, number: u64) {
        self.lock().ended.push(number);
        self.arrived.notify_one();
    }

    /// Adds a report of the system.
    pub fn report(&self, report: notify::Result<Event>) {
        let mut messages = self.lock();
        match report {
            Ok(event) if event.need_rescan() => messages.overflow = true,
            Ok(event) => {
                let Some(change) = change_of(event.kind) else { return };
                event.paths.into_iter().for_each(|path| messages.note(path, change));
            }
            Err(error) => {
                tracing::warn!("watching files: {error}");
                messages.overflow = true;
            }
        }
        drop(messages);
        self.arrived.notify_one();
    }

    /// Waits for contents until a time. Returns `None` once the mailbox is closed.
    pub fn next(&self, until: Option<Instant>) -> Option<WatchMessages> {
        let mut messages = self.lock();
        loop {
            if messages.closed {
                return None;
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if messages.has_any() || left.is_some_and(|left| left.is_zero()) {
                let last_number = messages.last_number;
                return Some(std::mem::replace(
                    &mut *messages,
                    WatchMessages { last_number, ..WatchMessages::default() },
                ));
            }
            match left {
                Some(left) => {
                    self.arrived.wait_for(&mut messages, left);
                }
                None => self.arrived.wait(&mut messages),
            }
        }
    }

    pub fn close(&self) {
        let mut messages = self.lock();
        *messages = WatchMessages { closed: true, ..WatchMessages::default() };
        drop(messages);
        self.arrived.notify_one();
    }

    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, WatchMessages> {
        self.messages.lock()
    }
}

impl WatchMessages {
    fn has_any(&self) -> bool {
        !self.begin.is_empty() || !self.ended.is_empty() || !self.changes.is_empty() || self.overflow
    }

    fn note(&mut self, path: PathBuf, change: PathChange) {
        if self.changes.len() >= MAX_CHANGES && !self.changes.contains_key(&path) {
            self.overflow = true;
            return;
        }
        let noted = self.changes.entry(path).or_insert(change);
        *noted = change.max(*noted);
    }
}

/// Returns the change of an event, or `None` for opening, reading and closing.
fn change_of(kind: EventKind) -> Option<PathChange> {
    match kind {
        EventKind::Access(_) | EventKind::Other => None,
        EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_)) => Some(PathChange::Content),
        EventKind::Create(_) => Some(PathChange::Appeared),
        // The event may be for either path of a rename; looking at the path shows which.
        EventKind::Remove(_) | EventKind::Modify(_) | EventKind::Any => Some(PathChange::Gone),
    }
}

#[cfg(test)]
mod tests {
    use notify::event::{AccessKind, CreateKind, DataChange, Flag, RemoveKind};

    use super::*;

    fn report(mailbox: &WatchMailbox, kind: EventKind, path: &str) {
        mailbox.report(Ok(Event::new(kind).add_path(path.into())));
    }

    #[test]
    fn the_greatest_of_several_changes_of_a_path_is_kept() {
        let mailbox = WatchMailbox::default();
        report(&mailbox, EventKind::Create(CreateKind::File), "/a");
        report(&mailbox, EventKind::Modify(ModifyKind::Data(DataChange::Any)), "/a");
        report(&mailbox, EventKind::Remove(RemoveKind::File), "/b");
        report(&mailbox, EventKind::Create(CreateKind::File), "/b");
        report(&mailbox, EventKind::Access(AccessKind::Any), "/c");
        let messages = mailbox.next(None).unwrap();
        let expected = [("/a".into(), PathChange::Appeared), ("/b".into(), PathChange::Gone)];
        assert_eq!(messages.changes, HashMap::from(expected));
        assert!(!messages.overflow);
    }

    #[test]
    fn changes_beyond_the_limit_are_dropped_and_recorded() {
        let mailbox = WatchMailbox::default();
        for number in 0..MAX_CHANGES + 100 {
            report(&mailbox, EventKind::Create(CreateKind::File), &format!("/{number}"));
        }
        let messages = mailbox.next(None).unwrap();
        assert_eq!((messages.changes.len(), messages.overflow), (MAX_CHANGES, true));
        mailbox.report(Ok(Event::new(EventKind::Other).set_flag(Flag::Rescan)));
        assert!(mailbox.next(None).unwrap().overflow);
    }

    #[test]
    fn waiting_ends_at_the_given_time_and_when_the_mailbox_closes() {
        let mailbox = WatchMailbox::default();
        assert!(mailbox.next(Some(Instant::now())).is_some_and(|messages| !messages.has_any()));
        mailbox.close();
        assert!(mailbox.next(None).is_none());
    }
}
