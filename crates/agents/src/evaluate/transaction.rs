//! The state changes of a tool call, kept apart until the call has succeeded.
//!
//! A rollback only discards the changes. It needs no code on the error path, and also happens when a call panics or is
//! dropped because the server cancelled it.

use std::{any::TypeId, collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::session::{HeldSlice, Session, Slice, SliceMap, cast};

/// The changes of a tool call so far. Clones share the transaction.
#[derive(Clone)]
pub(super) struct StateTransaction {
    inner: Arc<TransactionInner>,
}

struct TransactionInner {
    session: Session,
    /// The session's state when the call began.
    before: SliceMap,
    state: Mutex<TransactionState>,
}

#[derive(Default)]
struct TransactionState {
    /// `None` for removed values.
    changes: HashMap<TypeId, Option<HeldSlice>>,
    undo: Vec<UndoStep>,
    is_over: bool,
}

type UndoStep = Box<dyn FnOnce() + Send>;

/// Another writer has changed the same state.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StateConflict;

impl StateTransaction {
    pub fn new(session: Session, before: SliceMap) -> Self {
        Self { inner: Arc::new(TransactionInner { session, before, state: Mutex::default() }) }
    }

    pub fn get<T: Slice>(&self) -> Option<T> {
        let id = TypeId::of::<T>();
        match self.inner.state.lock().changes.get(&id) {
            Some(changed) => cast(changed.as_ref()),
            None => cast(self.inner.before.get(&id)),
        }
    }

    /// Sets or removes a value. Does nothing after the end of the call, whose outcome is already reported.
    pub fn set<T: Slice>(&self, value: Option<T>) {
        let mut state = self.inner.state.lock();
        if !state.is_over {
            let held = value.map(|value| Arc::new(value) as HeldSlice);
            state.changes.insert(TypeId::of::<T>(), held);
        }
    }

    pub fn on_rollback(&self, undo: impl FnOnce() + Send + 'static) {
        let mut state = self.inner.state.lock();
        if !state.is_over {
            state.undo.push(Box::new(undo));
        }
    }

    /// Applies all changes to the session, or none if there is a conflict.
    pub fn commit(&self) -> Result<(), StateConflict> {
        let changes = self.close()?;
        let mut slices = self.inner.session.slices();
        let is_same = |id: &TypeId| match (slices.get(id), self.inner.before.get(id)) {
            (Some(now), Some(before)) => Arc::ptr_eq(now, before),
            (None, None) => true,
            _ => false,
        };
        if !changes.keys().all(is_same) {
            return Err(StateConflict);
        }
        for (id, changed) in changes {
            match changed {
                Some(value) => slices.insert(id, value),
                None => slices.remove(&id),
            };
        }
        drop(slices);
        let kept = std::mem::take(&mut self.inner.state.lock().undo);
        drop(kept);
        Ok(())
    }

    /// Ends the transaction and returns its changes.
    fn close(&self) -> Result<HashMap<TypeId, Option<HeldSlice>>, StateConflict> {
        let mut state = self.inner.state.lock();
        if std::mem::replace(&mut state.is_over, true) {
            return Err(StateConflict);
        }
        Ok(std::mem::take(&mut state.changes))
    }

    /// Runs the undo steps, the latest first, and discards the changes.
    pub fn roll_back(&self) {
        let undo = {
            let mut state = self.inner.state.lock();
            state.is_over = true;
            state.changes.clear();
            std::mem::take(&mut state.undo)
        };
        undo.into_iter().rev().for_each(|undo| undo());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_visible_outside_only_after_the_commit() {
        let session = Session::new();
        session.set(1_u32);
        let change = session.begin();
        change.set(Some(2_u32));
        change.set(Some("new".to_owned()));
        assert_eq!((change.get::<u32>(), session.get::<u32>()), (Some(2), Some(1)));
        change.commit().unwrap();
        assert_eq!((session.get::<u32>(), session.get::<String>()), (Some(2), Some("new".into())));
        change.set(Some(3_u32));
        assert_eq!(session.get::<u32>(), Some(2), "it is over");
    }

    #[test]
    fn a_rollback_undoes_the_latest_step_first() {
        let session = Session::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        let change = session.begin();
        for number in 1..=3 {
            let log = log.clone();
            change.on_rollback(move || log.lock().push(number));
        }
        change.set(Some(1_u32));
        change.roll_back();
        change.roll_back();
        assert_eq!((log.lock().as_slice(), session.get::<u32>()), ([3, 2, 1].as_slice(), None));
        assert_eq!(change.commit(), Err(StateConflict));
    }

    #[test]
    fn concurrent_changes_are_not_overwritten() {
        let session = Session::new();
        session.set(1_u32);
        let one = session.begin();
        let two = session.begin();
        let other = session.begin();
        one.set(Some(2_u32));
        two.set(Some(3_u32));
        other.set(Some(true));
        one.commit().unwrap();
        assert_eq!(two.commit(), Err(StateConflict));
        other.commit().unwrap();
        assert_eq!((session.get::<u32>(), session.get::<bool>()), (Some(2), Some(true)));
    }
}
