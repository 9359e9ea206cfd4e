//! Turns that are being collected, and which notification belongs to which of them.
//!
//! A notification that names a thread and a turn goes to that turn. One that names neither goes to the only
//! turn there is; with several, to none of them. What comes before the server has named the turn waits
//! until it has.

use std::{collections::HashMap, sync::Arc};

use codicil_protocol::{ServerNotification, ThreadId, Turn, TurnId};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::oneshot, time::Instant};

use crate::{
    collect::{CollectedTurn, CompletedTurn, TurnOutcome, ends_turn},
    error::{ClientError, Disconnected},
    events::EventQueue,
    ids::MessageIds,
};

/// One turn that is being collected.
#[derive(Debug)]
pub(crate) struct TurnRoute {
    state: Mutex<RouteState>,
}

#[derive(Debug)]
struct RouteState {
    binding: TurnBinding,
    collected: CollectedTurn,
    /// For those who follow along.
    queue: Option<Arc<EventQueue>>,
    outcome: Option<TurnOutcome>,
    /// An end that came before the turn was known. What was held came before it.
    early: Option<TurnOutcome>,
    /// Dropped at the end, which wakes whoever waits for it.
    end: Option<oneshot::Sender<()>>,
    last_heard: Instant,
}

/// Which turn it is.
#[derive(Debug)]
enum TurnBinding {
    /// Not known yet. What comes is held, with the turn that it names.
    Waiting {
        held: Vec<HeldMessages>,
        bytes: usize,
        max_bytes: usize,
    },
    Turn(TurnId),
    /// Whichever runs on the thread. Some servers name another turn in a review's messages than in its answer.
    Any,
}

#[derive(Debug)]
struct HeldMessages {
    thread: Option<String>,
    turn: Option<String>,
    event: Arc<ServerNotification>,
    size: usize,
}

impl TurnRoute {
    pub fn new(max_bytes: usize, queue: Option<Arc<EventQueue>>) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let state = RouteState {
            binding: TurnBinding::Waiting { held: Vec::new(), bytes: 0, max_bytes },
            collected: CollectedTurn::new(max_bytes),
            queue,
            outcome: None,
            early: None,
            end: Some(end),
            last_heard: Instant::now(),
        };
        (Arc::new(Self { state: Mutex::new(state) }), ended)
    }

    /// The server has named the turn, or (for any turn of the thread) the thread. What was held of it counts now.
    pub fn bind(&self, thread: &ThreadId, turn: Option<&TurnId>) {
        let mut state = self.lock();
        let bound = turn.map_or(TurnBinding::Any, |turn| TurnBinding::Turn(turn.clone()));
        let TurnBinding::Waiting { held, .. } = std::mem::replace(&mut state.binding, bound) else { return };
        for held in held {
            let is_thread = held.thread.as_deref().is_none_or(|named| named == &**thread);
            let is_turn = turn.is_none_or(|turn| held.turn.as_deref().is_none_or(|named| named == &**turn));
            if is_thread && is_turn {
                state.take(&held.event, held.size);
            }
        }
        if let Some(outcome) = state.early.take() {
            state.finish(outcome);
        }
    }

    /// Ends it, unless it has ended already.
    pub fn end(&self, outcome: TurnOutcome) {
        let mut state = self.lock();
        match state.binding {
            TurnBinding::Waiting { .. } => drop(state.early.get_or_insert(outcome)),
            TurnBinding::Turn(_) | TurnBinding::Any => state.finish(outcome),
        }
    }

    pub fn is_over(&self) -> bool {
        self.lock().outcome.is_some()
    }

    /// Whether the agent may have done anything that another try would do twice.
    pub fn has_begun(&self) -> bool {
        let state = self.lock();
        let has_held = matches!(&state.binding, TurnBinding::Waiting { held, .. } if !held.is_empty());
        has_held || state.collected.has_begun()
    }

    /// When a message of this turn came last.
    pub fn last_heard(&self) -> Instant {
        self.lock().last_heard
    }

    /// What was collected, once it is over; and never again.
    pub fn result(&self, thread: ThreadId, started: Turn) -> Result<CompletedTurn, ClientError> {
        let mut state = self.lock();
        let outcome =
            state.outcome.take().unwrap_or_else(|| TurnOutcome::TimedOut("it was given up".to_owned()));
        let collected = std::mem::replace(&mut state.collected, CollectedTurn::new(0));
        drop(state);
        collected.finish(thread, started, outcome)
    }

    fn turn(&self) -> Option<TurnId> {
        match &self.lock().binding {
            TurnBinding::Turn(turn) => Some(turn.clone()),
            TurnBinding::Waiting { .. } | TurnBinding::Any => None,
        }
    }

    fn offer(&self, ids: &MessageIds<'_>, event: &Arc<ServerNotification>, size: usize) {
        let turn = ids.turn.as_deref();
        let mut state = self.lock();
        match &mut state.binding {
            TurnBinding::Waiting { held, bytes, max_bytes } => {
                // The end is never too much.
                if *bytes + size <= *max_bytes || ends_turn(event.method()) {
                    *bytes += size;
                    let (thread, turn) = (ids.thread.as_deref().map(str::to_owned), turn.map(str::to_owned));
                    held.push(HeldMessages { thread, turn, event: event.clone(), size });
                }
            }
            TurnBinding::Turn(bound) if turn.is_some_and(|turn| turn != &**bound) => {}
            TurnBinding::Turn(_) | TurnBinding::Any => state.take(event, size),
        }
    }

    fn lock(&self) -> MutexGuard<'_, RouteState> {
        self.state.lock()
    }
}

impl RouteState {
    fn take(&mut self, event: &Arc<ServerNotification>, size: usize) {
        if self.outcome.is_some() {
            return;
        }
        self.last_heard = Instant::now();
        if let Some(queue) = &self.queue {
            queue.push(event, size);
        }
        if let Some(outcome) = self.collected.take(event, size) {
            self.finish(outcome);
        }
    }

    fn finish(&mut self, outcome: TurnOutcome) {
        if self.end.take().is_some() {
            self.outcome = Some(outcome);
            // From here on nothing is added.
            if let Some(queue) = &self.queue {
                queue.finish();
            }
        }
    }
}

/// All turns of a connection that are being collected.
#[derive(Debug, Default)]
pub(crate) struct TurnRoutes(Mutex<RouteTable>);

#[derive(Debug, Default)]
struct RouteTable {
    by_thread: HashMap<Arc<str>, Vec<Arc<TurnRoute>>>,
    /// Turns on threads that the server has yet to name.
    unplaced: Vec<Arc<TurnRoute>>,
    count: usize,
    ended: Option<Arc<Disconnected>>,
}

impl TurnRoutes {
    /// Adds a turn; without a thread it gets what belongs to nobody else, until it is placed.
    pub fn open(&self, thread: Option<&ThreadId>, route: &Arc<TurnRoute>) {
        let mut table = self.lock();
        if let Some(ended) = table.ended.clone() {
            return route.end(TurnOutcome::Ended(ended));
        }
        table.count += 1;
        match thread {
            Some(thread) => table.by_thread.entry(Arc::from(&**thread)).or_default().push(route.clone()),
            None => table.unplaced.push(route.clone()),
        }
    }

    /// Tells where an unplaced turn runs.
    pub fn place(&self, thread: &ThreadId, route: &Arc<TurnRoute>) {
        let mut table = self.lock();
        let before = table.unplaced.len();
        table.unplaced.retain(|other| !Arc::ptr_eq(other, route));
        if table.unplaced.len() < before {
            table.by_thread.entry(Arc::from(&**thread)).or_default().push(route.clone());
        }
    }

    /// Forgets a turn, if it has not been forgotten at its end.
    pub fn close(&self, thread: Option<&ThreadId>, route: &Arc<TurnRoute>) {
        self.lock().remove(thread.map(|thread| &**thread), |other| Arc::ptr_eq(other, route));
    }

    /// Whether any turn would get a message with these ids.
    pub fn want(&self, ids: &MessageIds<'_>) -> bool {
        let table = self.lock();
        match &ids.thread {
            Some(thread) => table.by_thread.contains_key(&**thread) || !table.unplaced.is_empty(),
            None => table.count == 1,
        }
    }

    pub fn offer(&self, ids: &MessageIds<'_>, event: &Arc<ServerNotification>, size: usize) {
        let mut table = self.lock();
        for route in table.concerned(ids) {
            route.offer(ids, event, size);
        }
        if ends_turn(event.method()) {
            table.remove_over(ids);
        }
    }

    /// The thread and turn of the only turn there is. The turn is missing while the server has not named it.
    pub fn sole(&self) -> Option<(ThreadId, Option<TurnId>)> {
        let table = self.lock();
        let route = table.sole()?;
        let thread = table.by_thread.keys().next()?;
        Some((ThreadId::from(thread.clone()), route.turn()))
    }

    /// Ends the turns that a question belongs to.
    pub fn end_turn(&self, ids: &MessageIds<'_>, outcome: impl Fn() -> TurnOutcome) {
        let mut table = self.lock();
        for route in table.concerned(ids) {
            let is_other = matches!((route.turn(), &ids.turn), (Some(own), Some(named)) if *own != **named);
            if !is_other {
                route.end(outcome());
            }
        }
        table.remove_over(ids);
    }

    pub fn end_all(&self, ended: &Arc<Disconnected>) {
        let mut table = self.lock();
        table.ended = Some(ended.clone());
        let routes = table.by_thread.drain().flat_map(|(_, routes)| routes).collect::<Vec<_>>();
        let unplaced = std::mem::take(&mut table.unplaced);
        table.count = 0;
        drop(table);
        routes.iter().chain(&unplaced).for_each(|route| route.end(TurnOutcome::Ended(ended.clone())));
    }

    fn lock(&self) -> MutexGuard<'_, RouteTable> {
        self.0.lock()
    }
}

impl RouteTable {
    fn sole(&self) -> Option<&Arc<TurnRoute>> {
        if self.count != 1 {
            return None;
        }
        self.by_thread.values().flatten().chain(&self.unplaced).next()
    }

    /// The turns that a message with these ids may be for.
    fn concerned(&self, ids: &MessageIds<'_>) -> &[Arc<TurnRoute>] {
        match &ids.thread {
            Some(thread) => self.by_thread.get(&**thread).unwrap_or(&self.unplaced),
            None => self.sole().map(std::slice::from_ref).unwrap_or_default(),
        }
    }

    fn remove_over(&mut self, ids: &MessageIds<'_>) {
        self.remove(ids.thread.as_deref(), |route| route.is_over());
    }

    /// Of one thread, so that many turns do not have to look at each other; of all if none is named.
    fn remove(&mut self, thread: Option<&str>, gone: impl Fn(&Arc<TurnRoute>) -> bool) {
        let mut removed = 0;
        let mut keep = |routes: &mut Vec<Arc<TurnRoute>>| {
            let before = routes.len();
            routes.retain(|route| !gone(route));
            removed += before - routes.len();
            !routes.is_empty()
        };
        keep(&mut self.unplaced);
        match thread {
            Some(thread) => {
                if let Some(routes) = self.by_thread.get_mut(thread)
                    && !keep(routes)
                {
                    self.by_thread.remove(thread);
                }
            }
            None => self.by_thread.retain(|_, routes| keep(routes)),
        }
        self.count -= removed;
    }
}
