//! The session: state by type, and the observers of events.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::{events::EvaluationEvent, transaction::StateTransaction};

/// State that evaluations and their tools share, with one value per type, and the observers of events. Clones share
/// the session.
///
/// Tools change the state through their [`ToolContext`](super::ToolContext). The changes of a call are applied
/// together or not at all.
///
/// ```
/// use codicil_agents::evaluate::Session;
///
/// #[derive(Clone, Default)]
/// struct Notes(Vec<String>);
///
/// let session = Session::new();
/// session.update(|notes: &mut Notes| notes.0.push("first".into()));
/// assert_eq!(session.get::<Notes>().unwrap_or_default().0, ["first"]);
/// ```
#[derive(Clone, Default)]
pub struct Session {
    inner: Arc<SessionInner>,
}

#[derive(Default)]
struct SessionInner {
    slices: Mutex<SliceMap>,
    observers: Mutex<Vec<EventObserver>>,
}

type EventObserver = Arc<dyn Fn(&EvaluationEvent) + Send + Sync>;

/// A value that a session can hold. A change replaces the value, so snapshots are cheap.
pub trait Slice: Any + Clone + Send + Sync {}

impl<T: Any + Clone + Send + Sync> Slice for T {}

pub(super) type HeldSlice = Arc<dyn Any + Send + Sync>;

/// The state of a session at one point in time.
pub(super) type SliceMap = HashMap<TypeId, HeldSlice>;

impl Session {
    /// Creates an empty session.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of this type.
    pub fn get<T: Slice>(&self) -> Option<T> {
        cast(self.slices().get(&TypeId::of::<T>()))
    }

    /// Sets the value of this type.
    pub fn set<T: Slice>(&self, value: T) {
        self.slices().insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Changes the value of this type, starting from its default if there is none. The session is locked meanwhile, so
    /// `change` must not use it.
    pub fn update<T: Slice + Default>(&self, change: impl FnOnce(&mut T)) {
        let mut slices = self.slices();
        let mut value: T = cast(slices.get(&TypeId::of::<T>())).unwrap_or_default();
        change(&mut value);
        slices.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Removes and returns the value of this type.
    pub fn remove<T: Slice>(&self) -> Option<T> {
        cast(self.slices().remove(&TypeId::of::<T>()).as_ref())
    }

    /// Calls this function for every later event, on the task that emits it. The function should return quickly. A
    /// panic is logged and otherwise ignored.
    pub fn observe(&self, observer: impl Fn(&EvaluationEvent) + Send + Sync + 'static) {
        let mut observers = self.inner.observers.lock();
        observers.push(Arc::new(observer));
    }

    pub(super) fn emit(&self, event: &EvaluationEvent) {
        let observers = self.inner.observers.lock().clone();
        for observer in observers {
            if catch_unwind(AssertUnwindSafe(|| observer(event))).is_err() {
                tracing::error!(event = event.name(), "an observer of the session panicked");
            }
        }
    }

    pub(super) fn begin(&self) -> StateTransaction {
        StateTransaction::new(self.clone(), self.slices().clone())
    }

    pub(super) fn slices(&self) -> MutexGuard<'_, SliceMap> {
        self.inner.slices.lock()
    }
}

pub(super) fn cast<T: Slice>(held: Option<&HeldSlice>) -> Option<T> {
    let value = held?.downcast_ref::<T>();
    debug_assert!(value.is_some(), "a slice is held under its own type, {}", type_name::<T>());
    value.cloned()
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("slices", &self.slices().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::events::PromptRendered;

    #[test]
    fn there_is_one_value_for_each_type() {
        let session = Session::new();
        session.set(7_u32);
        session.set("seven".to_owned());
        session.update(|number: &mut u32| *number += 1);
        session.update(|list: &mut Vec<u8>| list.push(1));
        assert_eq!((session.get::<u32>(), session.get::<String>()), (Some(8), Some("seven".into())));
        assert_eq!(session.clone().remove::<Vec<u8>>(), Some(vec![1]));
        assert_eq!(session.get::<Vec<u8>>(), None);
    }

    #[test]
    fn a_panicking_observer_does_not_affect_the_others() {
        let session = Session::new();
        let count = Arc::new(Mutex::new(0));
        session.observe(|_| panic!("on purpose"));
        session.observe({
            let count = count.clone();
            move |_| *count.lock() += 1
        });
        session.emit(&EvaluationEvent::PromptRendered(PromptRendered::default()));
        assert_eq!(*count.lock(), 1);
    }
}
