//! The callback of a watch: not called before its owner is ready, and never after the watch has ended.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use parking_lot::{Mutex, MutexGuard};

type ChangeFn = Box<dyn Fn(Vec<PathBuf>) + Send>;

pub(super) struct ChangeListener(Mutex<ListenerState>);

enum ListenerState {
    /// The changes so far, limited to as many as one watch collects.
    Waiting(ChangeFn, BTreeSet<PathBuf>),
    Open(ChangeFn),
    Closed,
}

impl ChangeListener {
    pub fn new(on_change: impl Fn(Vec<PathBuf>) + Send + 'static) -> Self {
        Self(Mutex::new(ListenerState::Waiting(Box::new(on_change), BTreeSet::new())))
    }

    /// Calls the callback while the lock is held, so that it is not called after [`close`](Self::close) has returned.
    pub fn send_changes(&self, mut changed: BTreeSet<PathBuf>) {
        match &mut *self.lock() {
            ListenerState::Waiting(_, held) if held.len() < super::actor::MAX_COLLECTED => {
                held.append(&mut changed)
            }
            ListenerState::Open(on_change) => on_change(changed.into_iter().collect()),
            ListenerState::Waiting(..) | ListenerState::Closed => {}
        }
    }

    pub fn open(&self) {
        let mut state = self.lock();
        *state = match std::mem::replace(&mut *state, ListenerState::Closed) {
            ListenerState::Waiting(on_change, held) => {
                if !held.is_empty() {
                    on_change(held.into_iter().collect());
                }
                ListenerState::Open(on_change)
            }
            other => other,
        };
    }

    pub fn close(&self) {
        *self.lock() = ListenerState::Closed;
    }

    fn lock(&self) -> MutexGuard<'_, ListenerState> {
        self.0.lock()
    }
}

impl fmt::Debug for ChangeListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeListener").finish_non_exhaustive()
    }
}
