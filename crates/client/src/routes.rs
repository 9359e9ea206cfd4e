//! Routes notifications to the turns that are being collected.
//!
//! A notification that names a thread and a turn goes to that turn. One that names neither goes to the only running
//! turn; if several run, to none of them. Notifications that arrive before the server has named the turn are held
//! until it has.
//!
//! A turn that waits for a person has no deadline: its clock is paused until the answer.

use std::{collections::HashMap, sync::Arc, time::Duration};

use codicil_protocol::{ServerNotification, Thread, ThreadId, Turn, TurnId, TurnStatus};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use crate::{
    collect::{CollectedTurn, CompletedTurn, TurnOutcome, ends_turn},
    error::{ClientError, Disconnected},
    events::{EventDelivery, EventQueue},
    ids::MessageIds,
    resilient::ThreadPlace,
};

/// A turn that is being collected.
#[derive(Debug)]
pub(crate) struct TurnRoute {
    state: Mutex<RouteState>,
    /// Notified when the clock is paused or continues, for the one caller that waits for a deadline.
    pub clock_changed: Notify,
}

#[derive(Debug)]
struct RouteState {
    binding: TurnBinding,
    collected: CollectedTurn,
    /// The queue of the caller that follows the turn.
    queue: Option<Arc<EventQueue>>,
    outcome: Option<TurnOutcome>,
    /// An end that arrived before the turn was named. Held messages precede it.
    early_outcome: Option<TurnOutcome>,
    /// Dropped at the end of the turn, which wakes the caller that waits for it.
    end: Option<oneshot::Sender<()>>,
    last_message_at: Instant,
    clock: TurnClock,
    /// The position of the last message, for a client that reconnects.
    position: u64,
}

/// The time that a turn has spent waiting for a person.
#[derive(Debug, Default)]
struct TurnClock {
    /// Requests that a person has to answer, and since when there is one.
    open_requests: usize,
    paused_at: Option<Instant>,
    /// The time of earlier requests.
    paused: Duration,
}

/// Which turn a route collects.
#[derive(Debug)]
enum TurnBinding {
    /// Not known yet. Messages are held, with the turn that they name.
    Waiting {
        held: Vec<HeldMessages>,
        bytes: usize,
        max_bytes: usize,
    },
    Turn(TurnId),
    /// Any turn of the thread. Some servers use another turn id in a review's messages than in the response.
    Any,
}

#[derive(Debug)]
struct HeldMessages {
    thread: Option<String>,
    turn: Option<String>,
    event: Arc<ServerNotification>,
    size: usize,
    seq: Option<u64>,
}

impl TurnRoute {
    pub fn new(max_bytes: usize, queue: Option<Arc<EventQueue>>) -> (Arc<Self>, oneshot::Receiver<()>) {
        let (end, when_ended) = oneshot::channel();
        let state = RouteState {
            binding: TurnBinding::Waiting { held: Vec::new(), bytes: 0, max_bytes },
            collected: CollectedTurn::new(max_bytes),
            queue,
            outcome: None,
            early_outcome: None,
            end: Some(end),
            last_message_at: Instant::now(),
            clock: TurnClock::default(),
            position: 0,
        };
        (Arc::new(Self { state: Mutex::new(state), clock_changed: Notify::new() }), when_ended)
    }

    /// Binds the route to a turn, or to any turn of the thread, and processes the messages held so far.
    pub fn bind(&self, thread: &ThreadId, turn: Option<&TurnId>) {
        let mut state = self.state.lock();
        let bound = turn.map_or(TurnBinding::Any, |turn| TurnBinding::Turn(turn.clone()));
        let TurnBinding::Waiting { held, .. } = std::mem::replace(&mut state.binding, bound) else { return };
        for held in held {
            let is_thread = held.thread.as_deref().is_none_or(|named| named == &**thread);
            let is_turn = turn.is_none_or(|turn| held.turn.as_deref().is_none_or(|named| named == &**turn));
            if is_thread && is_turn {
                let place = held.seq.map(|seq| ThreadPlace { thread, seq });
                state.add(EventDelivery { event: &held.event, size: held.size, place });
            }
        }
        if let Some(outcome) = state.early_outcome.take() {
            state.finish(outcome, None);
        }
    }

    /// Ends the turn, unless it has ended already.
    pub fn end(&self, outcome: TurnOutcome) {
        let mut state = self.state.lock();
        match state.binding {
            TurnBinding::Waiting { .. } => drop(state.early_outcome.get_or_insert(outcome)),
            TurnBinding::Turn(_) | TurnBinding::Any => {
                if let (TurnOutcome::Disconnected(_), Some(queue)) = (&outcome, &state.queue) {
                    // A reader that has fallen behind cannot catch up any more.
                    queue.finish();
                }
                state.finish(outcome, None);
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.state.lock().outcome.is_some()
    }

    /// Returns whether the turn is over and its reader has all messages, or none is left.
    fn is_delivered(&self) -> bool {
        let state = self.state.lock();
        state.outcome.is_some() && state.queue.as_ref().is_none_or(|queue| queue.is_finished())
    }

    /// Returns whether the turn has ended with its connection, before the agent did anything that a repetition would do
    /// twice. A server that was restarted reports such a turn as interrupted.
    pub fn was_cut_off(&self, has_reconnected: bool) -> bool {
        let state = self.state.lock();
        let has_held = matches!(&state.binding, TurnBinding::Waiting { held, .. } if !held.is_empty());
        let is_cut_off = match &state.outcome {
            Some(TurnOutcome::Disconnected(_)) => true,
            Some(TurnOutcome::Completed(turn)) => has_reconnected && turn.status == TurnStatus::Interrupted,
            _ => false,
        };
        is_cut_off && !has_held && !state.collected.has_begun()
    }

    /// Returns the time of the turn's latest message or answer.
    pub fn last_message_at(&self) -> Instant {
        self.state.lock().last_message_at
    }

    /// Returns how long the turn has waited for a person; `None` while it waits.
    pub fn paused_time(&self) -> Option<Duration> {
        let state = self.state.lock();
        state.clock.paused_at.is_none().then_some(state.clock.paused)
    }

    fn pause(&self) {
        let clock = &mut self.state.lock().clock;
        clock.open_requests += 1;
        clock.paused_at.get_or_insert_with(Instant::now);
        self.clock_changed.notify_one();
    }

    fn unpause(&self) {
        let mut state = self.state.lock();
        state.clock.open_requests = state.clock.open_requests.saturating_sub(1);
        if state.clock.open_requests == 0
            && let Some(since) = state.clock.paused_at.take()
        {
            state.clock.paused += since.elapsed();
            state.last_message_at = Instant::now();
            self.clock_changed.notify_one();
        }
    }

    /// Returns the result once the turn is over. The collected events are moved out, so this can be called only once.
    pub fn result(&self, thread: ThreadId, started: Turn) -> Result<CompletedTurn, ClientError> {
        let mut state = self.state.lock();
        let outcome = state
            .outcome
            .take()
            .unwrap_or_else(|| TurnOutcome::TimedOut("the turn was abandoned".to_owned()));
        let collected = std::mem::replace(&mut state.collected, CollectedTurn::new(0));
        drop(state);
        collected.finish(thread, started, outcome)
    }

    fn turn(&self) -> Option<TurnId> {
        match &self.state.lock().binding {
            TurnBinding::Turn(turn) => Some(turn.clone()),
            TurnBinding::Waiting { .. } | TurnBinding::Any => None,
        }
    }

    fn deliver(&self, ids: &MessageIds<'_>, delivery: EventDelivery<'_>) {
        let EventDelivery { event, size, place } = delivery;
        let turn = ids.turn.as_deref();
        let mut state = self.state.lock();
        match &mut state.binding {
            TurnBinding::Waiting { held, bytes, max_bytes } => {
                // The message that ends the turn is kept regardless of its size.
                if *bytes + size <= *max_bytes || ends_turn(event.method()) {
                    *bytes += size;
                    let thread = ids.thread.as_deref().map(str::to_owned);
                    let turn = turn.map(str::to_owned);
                    let seq = place.map(|place| place.seq);
                    held.push(HeldMessages { thread, turn, event: event.clone(), size, seq });
                }
            }
            TurnBinding::Turn(bound) if turn.is_some_and(|turn| turn != &**bound) => {}
            TurnBinding::Turn(_) | TurnBinding::Any => state.add(delivery),
        }
    }

    /// Replaces what was collected, and what the reader has missed, by a snapshot of the thread. Nothing is collected anew of a
    /// turn that the thread does not have any more.
    fn replace(&self, thread: &Arc<Thread>, at: u64) {
        let mut state = self.state.lock();
        if let (TurnBinding::Turn(_) | TurnBinding::Any, Some(queue)) = (&state.binding, &state.queue) {
            queue.replace(thread, at);
        }
        let TurnBinding::Turn(bound) = &state.binding else { return };
        let Some(turn) = thread.turns.iter().find(|turn| turn.id == *bound) else { return };
        if state.outcome.is_some() || state.position >= at {
            return;
        }
        state.position = at;
        state.last_message_at = Instant::now();
        state.collected.replace_items(&turn.items);
        if turn.status != TurnStatus::InProgress {
            state.finish(TurnOutcome::Completed(turn.clone()), None);
        }
    }

    fn resume(&self, thread: &str, from: u64) {
        if let Some(queue) = &self.state.lock().queue {
            queue.resume(thread, from);
        }
    }
}

impl RouteState {
    fn add(&mut self, delivery: EventDelivery<'_>) {
        // The queue of a slow reader may need a message again that was collected before, also after the end of the turn.
        if let Some(queue) = &self.queue {
            queue.push(delivery);
        }
        if self.outcome.is_some() {
            return;
        }
        if let Some(ThreadPlace { seq, .. }) = delivery.place {
            if seq <= self.position {
                return;
            }
            self.position = seq;
        }
        self.last_message_at = Instant::now();
        if let Some(outcome) = self.collected.add(delivery.event, delivery.size) {
            self.finish(outcome, delivery.place);
        }
    }

    /// Ends the turn with the message at this place, if it has one.
    fn finish(&mut self, outcome: TurnOutcome, last: Option<ThreadPlace<'_>>) {
        if self.end.take().is_some() {
            self.outcome = Some(outcome);
            // The queue accepts no further events.
            if let Some(queue) = &self.queue {
                queue.finish_after(last);
            }
        }
    }
}

/// Turns whose clocks are paused. Dropping it lets them continue.
#[derive(Debug)]
pub(crate) struct PausedTurns(Vec<Arc<TurnRoute>>);

impl Drop for PausedTurns {
    fn drop(&mut self) {
        self.0.iter().for_each(|route| route.unpause());
    }
}

/// All turns of a connection that are being collected.
#[derive(Debug, Default)]
pub(crate) struct TurnRoutes(Mutex<RouteTable>);

#[derive(Debug, Default)]
struct RouteTable {
    by_thread: HashMap<Arc<str>, Vec<Arc<TurnRoute>>>,
    /// Turns whose thread the server has not named yet.
    without_thread: Vec<Arc<TurnRoute>>,
    count: usize,
    disconnected: Option<Arc<Disconnected>>,
}

impl TurnRoutes {
    /// Adds a turn. A turn without a thread receives messages that belong to no other turn until its thread is
    /// assigned.
    pub fn open(&self, thread: Option<&ThreadId>, route: &Arc<TurnRoute>) {
        let mut table = self.0.lock();
        if let Some(reason) = table.disconnected.clone() {
            return route.end(TurnOutcome::Disconnected(reason));
        }
        table.count += 1;
        match thread {
            Some(thread) => table.by_thread.entry(Arc::from(&**thread)).or_default().push(route.clone()),
            None => table.without_thread.push(route.clone()),
        }
    }

    /// Assigns the thread of a turn that was added without one.
    pub fn assign_thread(&self, thread: &ThreadId, route: &Arc<TurnRoute>) {
        let mut table = self.0.lock();
        let before = table.without_thread.len();
        table.without_thread.retain(|other| !Arc::ptr_eq(other, route));
        if table.without_thread.len() < before {
            table.by_thread.entry(Arc::from(&**thread)).or_default().push(route.clone());
        }
    }

    /// Removes a turn, if it was not removed at its end.
    pub fn close(&self, thread: Option<&ThreadId>, route: &Arc<TurnRoute>) {
        self.0.lock().remove(thread.map(|thread| &**thread), |other| Arc::ptr_eq(other, route));
    }

    /// Returns whether any turn would receive a message with these ids.
    pub fn has_route(&self, ids: &MessageIds<'_>) -> bool {
        let table = self.0.lock();
        match &ids.thread {
            Some(thread) => table.by_thread.contains_key(&**thread) || !table.without_thread.is_empty(),
            None => table.count == 1,
        }
    }

    pub fn deliver(&self, ids: &MessageIds<'_>, delivery: EventDelivery<'_>) {
        let mut table = self.0.lock();
        for route in table.candidates(ids) {
            route.deliver(ids, delivery);
        }
        if ends_turn(delivery.event.method()) {
            table.remove_delivered(ids);
        }
    }

    /// Replaces what was collected of the turns of a thread by a snapshot.
    pub fn replace(&self, thread: &Arc<Thread>, at: u64) {
        let mut table = self.0.lock();
        for route in table.by_thread.get(&*thread.id).into_iter().flatten() {
            route.replace(thread, at);
        }
        table.remove(Some(&thread.id), |route| route.is_delivered());
    }

    /// Lets the readers of turns take messages of a thread again that the server sends from this position on.
    pub fn resume(&self, thread: &str, from: u64) {
        for route in self.0.lock().by_thread.get(thread).into_iter().flatten() {
            route.resume(thread, from);
        }
    }

    /// Returns whether a turn of the thread is being collected.
    pub fn has_thread(&self, thread: &str) -> bool {
        self.0.lock().by_thread.contains_key(thread)
    }

    /// Ends the turns of a thread that cannot be followed any more.
    pub fn lose_thread(&self, thread: &str, reason: &Arc<Disconnected>) {
        let mut table = self.0.lock();
        for route in table.by_thread.get(thread).into_iter().flatten() {
            route.end(TurnOutcome::Disconnected(reason.clone()));
        }
        table.remove(Some(thread), |route| route.is_delivered());
    }

    /// Returns the thread and turn of the only turn. The turn id is `None` until the server has named it.
    pub fn only_turn(&self) -> Option<(ThreadId, Option<TurnId>)> {
        let table = self.0.lock();
        let route = table.only_route()?;
        let thread = table.by_thread.keys().next()?;
        Some((ThreadId::from(thread.clone()), route.turn()))
    }

    /// Ends the turns that a request belongs to.
    pub fn end_turn(&self, ids: &MessageIds<'_>, outcome: impl Fn() -> TurnOutcome) {
        let mut table = self.0.lock();
        table.requesters(ids).for_each(|route| route.end(outcome()));
        table.remove_delivered(ids);
    }

    /// Pauses the clocks of the turns that a request belongs to.
    pub fn pause_turns(&self, ids: &MessageIds<'_>) -> PausedTurns {
        let table = self.0.lock();
        let routes: Vec<_> = table.requesters(ids).cloned().collect();
        routes.iter().for_each(|route| route.pause());
        PausedTurns(routes)
    }

    pub fn end_all(&self, reason: &Arc<Disconnected>) {
        let mut table = self.0.lock();
        table.disconnected = Some(reason.clone());
        let routes = table.by_thread.drain().flat_map(|(_, routes)| routes).collect::<Vec<_>>();
        let without_thread = std::mem::take(&mut table.without_thread);
        table.count = 0;
        drop(table);
        routes
            .iter()
            .chain(&without_thread)
            .for_each(|route| route.end(TurnOutcome::Disconnected(reason.clone())));
    }
}

impl RouteTable {
    fn only_route(&self) -> Option<&Arc<TurnRoute>> {
        if self.count != 1 {
            return None;
        }
        self.by_thread.values().flatten().chain(&self.without_thread).next()
    }

    /// Returns the turns that may own a message with these ids.
    fn candidates(&self, ids: &MessageIds<'_>) -> &[Arc<TurnRoute>] {
        match &ids.thread {
            Some(thread) => self.by_thread.get(&**thread).unwrap_or(&self.without_thread),
            None => self.only_route().map(std::slice::from_ref).unwrap_or_default(),
        }
    }

    /// Returns the turns that a request with these ids belongs to.
    fn requesters<'t>(&'t self, ids: &'t MessageIds<'_>) -> impl Iterator<Item = &'t Arc<TurnRoute>> {
        self.candidates(ids)
            .iter()
            .filter(|route| !matches!((route.turn(), &ids.turn), (Some(own), Some(named)) if *own != **named))
    }

    fn remove_delivered(&mut self, ids: &MessageIds<'_>) {
        self.remove(ids.thread.as_deref(), |route| route.is_delivered());
    }

    /// Removes matching turns of one thread, which keeps the cost independent of other threads; of all threads if none
    /// is named.
    fn remove(&mut self, thread: Option<&str>, gone: impl Fn(&Arc<TurnRoute>) -> bool) {
        let mut removed = 0;
        let mut keep = |routes: &mut Vec<Arc<TurnRoute>>| {
            let before = routes.len();
            routes.retain(|route| !gone(route));
            removed += before - routes.len();
            !routes.is_empty()
        };
        keep(&mut self.without_thread);
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
