//! Streams of notifications, each with a bounded queue.
//!
//! A queue keeps the newest notifications, up to [`ClientLimits::events`] and [`ClientLimits::event_bytes`], and
//! counts those that it drops. The next event that a slow reader receives is [`ClientEvent::Missed`] with that count.
//! A slow reader delays neither responses nor collected turns nor other readers. Missed items can be read with
//! `thread/read`.
//!
//! A client that reconnects misses no messages with a position: a full queue takes no more messages of their thread, and once
//! the reader has caught up the server sends them again. If they are too many, the next event is [`ClientEvent::Snapshot`].
//! Only notifications without a position are dropped.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker, ready},
};

use codicil_protocol::{ServerNotification, Thread, ThreadId};
use futures_util::Stream;
use parking_lot::Mutex;
use tokio::task::coop::poll_proceed;

use crate::{
    options::ClientLimits,
    resilient::{Resilience, ThreadPlace, ThreadPositions, advance},
};

/// An event of an [`EventStream`].
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// A notification. Notifications that this version does not know are `ServerNotification::Unknown`.
    Notification(ServerNotification),
    /// The number of notifications that were dropped before this point because they were not read in time. Of a client
    /// that [reconnects](crate::ClientBuilder::resilient), only notifications without a position are dropped.
    Missed(u64),
    /// A thread with all its turns, in place of messages that the server cannot send again. Only for a client that
    /// [reconnects](crate::ClientBuilder::resilient).
    Snapshot(Box<Thread>),
}

/// A stream of notifications from the moment of its creation. It ends with the connection, or with the turn.
///
/// ```no_run
/// use codicil_client::{Client, ClientEvent};
///
/// # async fn example(client: Client) {
/// let mut events = client.events();
/// while let Some(event) = events.next().await {
///     match event {
///         ClientEvent::Notification(notification) => println!("{}", notification.method()),
///         ClientEvent::Missed(count) => println!("({count} were not read in time)"),
///         ClientEvent::Snapshot(thread) => println!("{} has {} turns", thread.id, thread.turns.len()),
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct EventStream {
    queue: Arc<EventQueue>,
}

impl EventStream {
    /// Returns the next event, or `None` at the end of the stream. This method is cancel safe.
    pub async fn next(&mut self) -> Option<ClientEvent> {
        Some(self.next_placed().await?.event)
    }

    /// Returns the next event with its position, for a client that [reconnects](crate::ClientBuilder::resilient). This
    /// method is cancel safe.
    pub async fn next_placed(&mut self) -> Option<PlacedEvent> {
        std::future::poll_fn(|cx| self.queue.poll(cx)).await
    }
}

/// An event and its position in the messages of its thread.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedEvent {
    /// The event.
    pub event: ClientEvent,
    /// The `seq` of the message, which `codicil/subscribe` accepts as `after`; `None` for messages without one, and for a
    /// client that does not reconnect.
    pub seq: Option<u64>,
}

impl Stream for EventStream {
    type Item = ClientEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ClientEvent>> {
        self.queue.poll(cx).map(|placed| placed.map(|placed| placed.event))
    }
}

/// A message on its way to the readers.
#[derive(Clone, Copy)]
pub(crate) struct EventDelivery<'a> {
    pub event: &'a Arc<ServerNotification>,
    /// The bytes that it took on the wire.
    pub size: usize,
    /// Set for a client that reconnects.
    pub place: Option<ThreadPlace<'a>>,
}

/// The unread notifications of one reader.
#[derive(Debug)]
pub(crate) struct EventQueue {
    state: Mutex<QueueState>,
    max: usize,
    max_bytes: usize,
    resilience: Option<Arc<Resilience>>,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<WaitingEvent>,
    bytes: usize,
    missed: u64,
    is_finished: bool,
    /// The position of the message that ends the stream, if the reader gets it only when it is sent again.
    last: Option<u64>,
    reader: Option<Waker>,
    /// The positions up to which messages of threads were taken.
    positions: ThreadPositions,
    /// Threads whose messages are not taken at the moment, and the positions from which they are wanted.
    behind: ThreadPositions,
}

/// An event in a queue.
#[derive(Debug)]
struct WaitingEvent {
    event: QueuedEvent,
    size: usize,
    seq: Option<u64>,
}

#[derive(Debug)]
enum QueuedEvent {
    Notification(Arc<ServerNotification>),
    Snapshot(Arc<Thread>),
}

impl EventQueue {
    pub fn new(limits: &ClientLimits, resilience: Option<Arc<Resilience>>) -> (Arc<Self>, EventStream) {
        // Messages of before are not for this reader, also if they are sent again for another one.
        let positions = resilience.as_ref().map(|resilience| resilience.positions()).unwrap_or_default();
        let state = Mutex::new(QueueState { positions, ..QueueState::default() });
        let queue = Self { state, max: limits.events.max(1), max_bytes: limits.event_bytes, resilience };
        let queue = Arc::new(queue);
        (queue.clone(), EventStream { queue })
    }

    /// Appends a notification. A full queue stops taking messages that can be sent again, and drops the oldest ones that
    /// cannot.
    pub fn push(&self, delivery: EventDelivery<'_>) {
        let mut state = self.state.lock();
        if state.is_finished {
            return;
        }
        let size = delivery.size;
        let is_taken = match delivery.place {
            Some(place) => {
                let is_full = self.is_full(&state, size);
                state.takes(place, is_full)
            }
            None => self.make_room(&mut state, size),
        };
        if is_taken {
            let seq = delivery.place.map(|place| place.seq);
            state.append(WaitingEvent {
                event: QueuedEvent::Notification(delivery.event.clone()),
                size,
                seq,
            });
            state.finish_at(seq);
        }
    }

    fn is_full(&self, state: &QueueState, size: usize) -> bool {
        let is_too_long = state.bytes + size > self.max_bytes && !state.waiting.is_empty();
        is_too_long || state.waiting.len() >= self.max
    }

    /// Drops the oldest notifications without a position until one of this size fits. Returns false if it does not fit, and
    /// counts it as missed.
    fn make_room(&self, state: &mut QueueState, size: usize) -> bool {
        while self.is_full(state, size) {
            state.missed += 1;
            let oldest = state.waiting.iter().position(|event| event.seq.is_none());
            let Some(dropped) = oldest.and_then(|oldest| state.waiting.remove(oldest)) else { return false };
            state.bytes -= dropped.size;
        }
        true
    }

    /// Takes messages of a thread again, which the server sends from this position on.
    pub fn resume(&self, thread: &str, from: u64) {
        let mut state = self.state.lock();
        match state.behind.get(thread).copied() {
            Some(after) if from <= after => drop(state.behind.remove(thread)),
            Some(after) => self.subscribe_again(ThreadPlace { thread, seq: after }),
            None => {}
        }
    }

    /// Replaces what the reader has missed of a thread by the thread itself.
    pub fn replace(&self, thread: &Arc<Thread>, at: u64) {
        let mut state = self.state.lock();
        state.behind.remove(&*thread.id);
        let has_all = state.positions.get(&*thread.id).is_some_and(|position| *position >= at);
        if !state.is_finished && !has_all {
            state.positions.insert(Arc::from(&*thread.id), at);
            let event = QueuedEvent::Snapshot(thread.clone());
            state.append(WaitingEvent { event, size: 0, seq: Some(at) });
        }
        state.finish_at(Some(at));
    }

    fn subscribe_again(&self, place: ThreadPlace<'_>) {
        if let Some(resilience) = &self.resilience {
            resilience.subscribe_again(place);
        }
    }

    /// Ends the stream after the notifications that are already queued.
    pub fn finish(&self) {
        self.state.lock().finish();
    }

    /// Ends the stream after the message at this place. A reader that has fallen behind gets it when it is sent again.
    pub fn finish_after(&self, place: Option<ThreadPlace<'_>>) {
        let mut state = self.state.lock();
        match place.filter(|place| state.behind.contains_key(place.thread)) {
            Some(place) => state.last = Some(place.seq),
            None => state.finish(),
        }
    }

    pub fn is_finished(&self) -> bool {
        self.state.lock().is_finished
    }

    /// Polls for the next event, cooperating with tokio's scheduler: a reader in a loop yields now and then, so that
    /// its timers fire even during a flood of events.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<PlacedEvent>> {
        let budget = ready!(poll_proceed(cx));
        let event = self.poll_next(cx);
        if event.is_ready() {
            budget.made_progress();
        }
        event
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<PlacedEvent>> {
        let mut state = self.state.lock();
        if state.missed > 0 {
            let event = ClientEvent::Missed(std::mem::take(&mut state.missed));
            return Poll::Ready(Some(PlacedEvent { event, seq: None }));
        }
        if let Some(WaitingEvent { event, size, seq }) = state.waiting.pop_front() {
            state.bytes -= size;
            if state.waiting.is_empty() {
                let behind = &state.behind;
                behind
                    .iter()
                    .for_each(|(thread, seq)| self.subscribe_again(ThreadPlace { thread, seq: *seq }));
            }
            let event = match event {
                QueuedEvent::Notification(event) => ClientEvent::Notification(Arc::unwrap_or_clone(event)),
                QueuedEvent::Snapshot(thread) => {
                    ClientEvent::Snapshot(Box::new(Arc::unwrap_or_clone(thread)))
                }
            };
            return Poll::Ready(Some(PlacedEvent { event, seq }));
        }
        if state.is_finished {
            return Poll::Ready(None);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl QueueState {
    /// Returns whether a message is new and fits. One that does not fit is sent again later.
    fn takes(&mut self, place: ThreadPlace<'_>, is_full: bool) -> bool {
        let position = self.positions.get(place.thread).copied();
        if self.behind.contains_key(place.thread) || position.is_some_and(|position| place.seq <= position) {
            return false;
        }
        if is_full {
            let after = position.unwrap_or(place.seq.saturating_sub(1));
            self.behind.insert(Arc::from(place.thread), after);
            return false;
        }
        advance(&mut self.positions, place);
        true
    }

    fn append(&mut self, event: WaitingEvent) {
        self.bytes += event.size;
        self.waiting.push_back(event);
        self.wake();
    }

    fn finish(&mut self) {
        self.is_finished = true;
        self.wake();
    }

    /// Ends the stream if the message at this position ends it.
    fn finish_at(&mut self, seq: Option<u64>) {
        if self.last.is_some_and(|last| seq.is_some_and(|seq| seq >= last)) {
            self.finish();
        }
    }

    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The event readers of a connection.
#[derive(Debug, Default)]
pub(crate) struct EventReaders(Mutex<ReaderTable>);

#[derive(Debug, Default)]
struct ReaderTable {
    readers: Vec<EventReader>,
    is_finished: bool,
}

#[derive(Debug)]
struct EventReader {
    /// Restricts the reader to this thread's notifications.
    thread: Option<ThreadId>,
    queue: Weak<EventQueue>,
}

impl EventReaders {
    pub fn add(
        &self,
        thread: Option<ThreadId>,
        (queue, events): (Arc<EventQueue>, EventStream),
    ) -> EventStream {
        let mut table = self.0.lock();
        if table.is_finished {
            queue.finish();
        } else {
            table.readers.push(EventReader { thread, queue: Arc::downgrade(&queue) });
        }
        events
    }

    /// Returns whether any reader would receive a notification of this thread. Removes readers that were dropped.
    pub fn has_reader(&self, thread: Option<&str>) -> bool {
        let readers = &mut self.0.lock().readers;
        readers.retain(|reader| reader.queue.strong_count() > 0);
        readers.iter().any(|reader| reader.accepts(thread))
    }

    pub fn push(&self, thread: Option<&str>, delivery: EventDelivery<'_>) {
        self.for_readers_of(thread, |queue| queue.push(delivery));
    }

    /// Lets the readers take messages of a thread again that the server sends from this position on.
    pub fn resume(&self, thread: &str, from: u64) {
        self.for_readers_of(Some(thread), |queue| queue.resume(thread, from));
    }

    pub fn replace(&self, thread: &Arc<Thread>, at: u64) {
        self.for_readers_of(Some(&thread.id), |queue| queue.replace(thread, at));
    }

    fn for_readers_of(&self, thread: Option<&str>, work: impl Fn(&EventQueue)) {
        for reader in self.0.lock().readers.iter().filter(|reader| reader.accepts(thread)) {
            if let Some(queue) = reader.queue.upgrade() {
                work(&queue);
            }
        }
    }

    pub fn finish(&self) {
        let mut table = self.0.lock();
        table.is_finished = true;
        for reader in table.readers.drain(..) {
            if let Some(queue) = reader.queue.upgrade() {
                queue.finish();
            }
        }
    }
}

impl EventReader {
    fn accepts(&self, thread: Option<&str>) -> bool {
        self.thread.as_ref().is_none_or(|own| Some(&**own) == thread)
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::rpc::Notification;

    use super::*;

    fn notification(number: usize) -> Arc<ServerNotification> {
        let method = number.to_string();
        Arc::new(ServerNotification::Unknown(Notification { method, params: None }))
    }

    fn push(queue: &EventQueue, number: usize, size: usize) {
        queue.push(EventDelivery { event: &notification(number), size, place: None });
    }

    fn push_at(queue: &EventQueue, seq: u64) {
        let place = Some(ThreadPlace { thread: "t", seq });
        queue.push(EventDelivery { event: &notification(seq as usize), size: 1, place });
    }

    fn read(events: &mut EventStream) -> Vec<String> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = Vec::new();
        while let Poll::Ready(Some(event)) = Pin::new(&mut *events).poll_next(&mut cx) {
            read.push(match event {
                ClientEvent::Notification(notification) => notification.method().to_owned(),
                ClientEvent::Missed(count) => format!("missed {count}"),
                ClientEvent::Snapshot(thread) => format!("snapshot {}", thread.id),
            });
        }
        read
    }

    #[test]
    fn a_full_queue_keeps_the_newest_and_counts_the_dropped() {
        let (queue, mut events) =
            EventQueue::new(&ClientLimits { events: 3, ..ClientLimits::default() }, None);
        (0..10).for_each(|number| push(&queue, number, 1));
        assert_eq!(read(&mut events), ["missed 7", "7", "8", "9"]);
        push(&queue, 10, 1);
        assert_eq!(read(&mut events), ["10"]);
    }

    #[test]
    fn the_byte_limit_drops_the_oldest_but_never_the_newest() {
        let (queue, mut events) =
            EventQueue::new(&ClientLimits { event_bytes: 100, ..ClientLimits::default() }, None);
        push(&queue, 0, 60);
        push(&queue, 1, 60);
        push(&queue, 2, 1000);
        assert_eq!(read(&mut events), ["missed 2", "2"]);
        assert_eq!(queue.state.lock().bytes, 0);
    }

    #[test]
    fn queued_events_can_be_read_after_the_end() {
        let (queue, mut events) = EventQueue::new(&ClientLimits::default(), None);
        push(&queue, 0, 1);
        queue.finish();
        push(&queue, 1, 1);
        assert_eq!(read(&mut events), ["0"]);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut events).poll_next(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn a_reader_that_can_be_served_again_misses_nothing() {
        let resilience = Arc::new(Resilience::alone());
        let limits = ClientLimits { events: 3, ..ClientLimits::default() };
        let (queue, mut events) = EventQueue::new(&limits, Some(resilience.clone()));
        (1..=10).for_each(|seq| push_at(&queue, seq));
        assert!(
            resilience.take_wanted(&resilience.nodes.first).is_empty(),
            "not before the reader has caught up"
        );
        assert_eq!(read(&mut events), ["1", "2", "3"]);
        assert_eq!(resilience.take_wanted(&resilience.nodes.first), [(Arc::from("t"), 3)].into());
        // Messages that arrive before the answer would leave a gap.
        push_at(&queue, 11);
        queue.resume("t", 3);
        (2..=5).for_each(|seq| push_at(&queue, seq));
        assert_eq!(read(&mut events), ["4", "5"]);
    }

    #[test]
    fn a_notification_without_a_position_never_displaces_one_with_a_position() {
        let limits = ClientLimits { events: 2, ..ClientLimits::default() };
        let (queue, mut events) = EventQueue::new(&limits, Some(Arc::new(Resilience::alone())));
        push(&queue, 90, 1);
        push_at(&queue, 1);
        push(&queue, 91, 1);
        push(&queue, 92, 1);
        assert_eq!(read(&mut events), ["missed 2", "1", "92"]);
        push_at(&queue, 2);
        push_at(&queue, 3);
        push(&queue, 93, 1);
        assert_eq!(read(&mut events), ["missed 1", "2", "3"]);
        queue.replace(&thread(), 9);
        push_at(&queue, 10);
        push(&queue, 94, 1);
        assert_eq!(read(&mut events), ["missed 1", "snapshot t", "10"]);
    }

    #[test]
    fn a_queue_that_is_behind_ends_with_the_last_message() {
        let resilience = Arc::new(Resilience::alone());
        let limits = ClientLimits { events: 2, ..ClientLimits::default() };
        let (queue, mut events) = EventQueue::new(&limits, Some(resilience));
        (1..=4).for_each(|seq| push_at(&queue, seq));
        queue.finish_after(Some(ThreadPlace { thread: "t", seq: 4 }));
        assert_eq!(read(&mut events), ["1", "2"]);
        assert!(!queue.is_finished());
        queue.resume("t", 2);
        (3..=5).for_each(|seq| push_at(&queue, seq));
        assert_eq!(read(&mut events), ["3", "4"]);
        assert!(queue.is_finished());
    }

    #[test]
    fn a_queue_that_is_behind_ends_with_a_snapshot() {
        let resilience = Arc::new(Resilience::alone());
        let limits = ClientLimits { events: 1, ..ClientLimits::default() };
        let (queue, mut events) = EventQueue::new(&limits, Some(resilience));
        (1..=2).for_each(|seq| push_at(&queue, seq));
        queue.finish_after(Some(ThreadPlace { thread: "t", seq: 2 }));
        queue.replace(&thread(), 3);
        assert_eq!(read(&mut events), ["1", "snapshot t"]);
        assert!(queue.is_finished());
    }

    fn thread() -> Arc<Thread> {
        let thread = serde_json::json!({
            "id": "t", "preview": "", "ephemeral": false, "modelProvider": "p", "createdAt": 0, "updatedAt": 0,
            "status": { "type": "idle" }, "path": null, "cwd": "/", "cliVersion": "1", "source": "cli", "turns": [],
        });
        Arc::new(serde_json::from_value(thread).unwrap())
    }

    #[test]
    fn a_snapshot_replaces_what_a_reader_has_missed() {
        let resilience = Arc::new(Resilience::alone());
        let limits = ClientLimits { events: 1, ..ClientLimits::default() };
        let (queue, mut events) = EventQueue::new(&limits, Some(resilience));
        (1..=3).for_each(|seq| push_at(&queue, seq));
        assert_eq!(read(&mut events), ["1"]);
        queue.replace(&thread(), 3);
        queue.replace(&thread(), 3);
        push_at(&queue, 3);
        assert_eq!(read(&mut events), ["snapshot t"]);
    }

    #[test]
    fn thread_readers_receive_only_their_thread_and_are_removed_when_dropped() {
        let readers = EventReaders::default();
        let mut all = readers.add(None, EventQueue::new(&ClientLimits::default(), None));
        let mut one = readers.add(Some("a".into()), EventQueue::new(&ClientLimits::default(), None));
        for (thread, number) in [(Some("a"), 1), (Some("b"), 2), (None, 3)] {
            let event = notification(number);
            readers.push(thread, EventDelivery { event: &event, size: 1, place: None });
        }
        assert_eq!(read(&mut all), ["1", "2", "3"]);
        assert_eq!(read(&mut one), ["1"]);
        drop(all);
        assert!(readers.has_reader(Some("a")) && !readers.has_reader(Some("b")));
        drop(one);
        assert!(!readers.has_reader(Some("a")) && readers.0.lock().readers.is_empty());
    }
}
