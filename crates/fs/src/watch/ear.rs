//! Where a watch is heard: not before its owner is ready, and never after it has ended.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use parking_lot::{Mutex, MutexGuard};

type Tell = Box<dyn Fn(Vec<PathBuf>) + Send>;

pub(super) struct Ear(Mutex<State>);

enum State {
    /// What has changed so far. It grows no further than what one watch may hold back anyway.
    Waiting(Tell, BTreeSet<PathBuf>),
    Open(Tell),
    Closed,
}

impl Ear {
    pub fn new(tell: impl Fn(Vec<PathBuf>) + Send + 'static) -> Self {
        Self(Mutex::new(State::Waiting(Box::new(tell), BTreeSet::new())))
    }

    /// Under the lock, so that nobody is told anything once [`close`](Self::close) has returned.
    pub fn tell(&self, mut changed: BTreeSet<PathBuf>) {
        match &mut *self.lock() {
            State::Waiting(_, held) if held.len() < super::actor::MAX_HELD => held.append(&mut changed),
            State::Open(tell) => tell(changed.into_iter().collect()),
            State::Waiting(..) | State::Closed => {}
        }
    }

    pub fn open(&self) {
        let mut state = self.lock();
        *state = match std::mem::replace(&mut *state, State::Closed) {
            State::Waiting(tell, held) => {
                if !held.is_empty() {
                    tell(held.into_iter().collect());
                }
                State::Open(tell)
            }
            other => other,
        };
    }

    pub fn close(&self) {
        *self.lock() = State::Closed;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl fmt::Debug for Ear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ear").finish_non_exhaustive()
    }
}
