//! Where a watch is heard: not before its owner is ready, and never after it has ended.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use parking_lot::{Mutex, MutexGuard};

type ChangeFn = Box<dyn Fn(Vec<PathBuf>) + Send>;

pub(super) struct ChangeListener(Mutex<ListenerState>);

enum ListenerState {
    /// What has changed so far. It grows no further than what one watch may hold back anyway.
    Waiting(ChangeFn, BTreeSet<PathBuf>),
    Open(ChangeFn),
    Closed,
}

impl ChangeListener {
    pub fn new(tell: impl Fn(Vec<PathBuf>) + Send + 'static) -> Self {
        Self(Mutex::new(ListenerState::Waiting(Box::new(tell), BTreeSet::new())))
    }

    /// Under the lock, so that nobody is told anything once [`close`](Self::close) has returned.
    pub fn tell(&self, mut changed: BTreeSet<PathBuf>) {
        match &mut *self.lock() {
            ListenerState::Waiting(_, held) if held.len() < super::actor::MAX_HELD => {
                held.append(&mut changed)
            }
            ListenerState::Open(tell) => tell(changed.into_iter().collect()),
            ListenerState::Waiting(..) | ListenerState::Closed => {}
        }
    }

    pub fn open(&self) {
        let mut state = self.lock();
        *state = match std::mem::replace(&mut *state, ListenerState::Closed) {
            ListenerState::Waiting(tell, held) => {
                if !held.is_empty() {
                    tell(held.into_iter().collect());
                }
                ListenerState::Open(tell)
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
        f.debug_struct("Ear").finish_non_exhaustive()
    }
}
