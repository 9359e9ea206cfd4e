//! Streams of notifications, each with a bounded queue.
//!
//! A queue keeps the newest notifications, up to [`ClientLimits::events`] and [`ClientLimits::event_bytes`], and
//! counts those that it drops. The next event that a slow reader receives is [`ClientEvent::Missed`] with that count.
//! A slow reader delays neither responses nor collected turns nor other readers. Missed items can be read with
//! `thread/read`.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker, ready},
};

use codicil_protocol::{ServerNotification, ThreadId};
use futures_util::Stream;
use parking_lot::Mutex;
use tokio::task::coop::poll_proceed;

use crate::options::ClientLimits;

/// An event of an [`EventStream`].
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// A notification. Notifications that this version does not know are `ServerNotification::Unknown`.
    Notification(ServerNotification),
    /// The number of notifications that were dropped before this point because they were not read in time.
    Missed(u64),
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
        std::future::poll_fn(|cx| self.queue.poll(cx)).await
    }
}

impl Stream for EventStream {
    type Item = ClientEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ClientEvent>> {
        self.queue.poll(cx)
    }
}

/// The unread notifications of one reader.
#[derive(Debug)]
pub(crate) struct EventQueue {
    state: Mutex<QueueState>,
    max: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<(Arc<ServerNotification>, usize)>,
    bytes: usize,
    missed: u64,
    is_finished: bool,
    reader: Option<Waker>,
}

impl EventQueue {
    pub fn new(limits: &ClientLimits) -> (Arc<Self>, EventStream) {
        let queue =
            Self { state: Mutex::default(), max: limits.events.max(1), max_bytes: limits.event_bytes };
        let queue = Arc::new(queue);
        (queue.clone(), EventStream { queue })
    }

    /// Appends a notification that took `size` bytes on the wire, dropping the oldest ones if necessary.
    pub fn push(&self, event: &Arc<ServerNotification>, size: usize) {
        let mut state = self.state.lock();
        if state.is_finished {
            return;
        }
        while state.waiting.len() >= self.max
            || (state.bytes + size > self.max_bytes && !state.waiting.is_empty())
        {
            let Some((_, dropped)) = state.waiting.pop_front() else { break };
            state.bytes -= dropped;
            state.missed += 1;
        }
        state.waiting.push_back((event.clone(), size));
        state.bytes += size;
        state.wake();
    }

    /// Ends the stream after the notifications that are already queued.
    pub fn finish(&self) {
        let mut state = self.state.lock();
        state.is_finished = true;
        state.wake();
    }

    /// Polls for the next event, cooperating with tokio's scheduler: a reader in a loop yields now and then, so that
    /// its timers fire even during a flood of events.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<ClientEvent>> {
        let budget = ready!(poll_proceed(cx));
        let event = self.poll_next(cx);
        if event.is_ready() {
            budget.made_progress();
        }
        event
    }

    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<ClientEvent>> {
        let mut state = self.state.lock();
        if state.missed > 0 {
            return Poll::Ready(Some(ClientEvent::Missed(std::mem::take(&mut state.missed))));
        }
        if let Some((event, size)) = state.waiting.pop_front() {
            state.bytes -= size;
            return Poll::Ready(Some(ClientEvent::Notification(Arc::unwrap_or_clone(event))));
        }
        if state.is_finished {
            return Poll::Ready(None);
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl QueueState {
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
    pub fn add(&self, thread: Option<ThreadId>, limits: &ClientLimits) -> EventStream {
        let (queue, events) = EventQueue::new(limits);
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

    pub fn push(&self, thread: Option<&str>, event: &Arc<ServerNotification>, size: usize) {
        for reader in self.0.lock().readers.iter().filter(|reader| reader.accepts(thread)) {
            if let Some(queue) = reader.queue.upgrade() {
                queue.push(event, size);
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

    fn read(events: &mut EventStream) -> Vec<String> {
        let mut cx = Context::from_waker(Waker::noop());
        let mut read = Vec::new();
        while let Poll::Ready(Some(event)) = Pin::new(&mut *events).poll_next(&mut cx) {
            read.push(match event {
                ClientEvent::Notification(notification) => notification.method().to_owned(),
                ClientEvent::Missed(count) => format!("missed {count}"),
            });
        }
        read
    }

    #[test]
    fn a_full_queue_keeps_the_newest_and_counts_the_dropped() {
        let (queue, mut events) = EventQueue::new(&ClientLimits { events: 3, ..ClientLimits::default() });
        (0..10).for_each(|number| queue.push(&notification(number), 1));
        assert_eq!(read(&mut events), ["missed 7", "7", "8", "9"]);
        queue.push(&notification(10), 1);
        assert_eq!(read(&mut events), ["10"]);
    }

    #[test]
    fn the_byte_limit_drops_the_oldest_but_never_the_newest() {
        let (queue, mut events) =
            EventQueue::new(&ClientLimits { event_bytes: 100, ..ClientLimits::default() });
        queue.push(&notification(0), 60);
        queue.push(&notification(1), 60);
        queue.push(&notification(2), 1000);
        assert_eq!(read(&mut events), ["missed 2", "2"]);
        assert_eq!(queue.state.lock().bytes, 0);
    }

    #[test]
    fn queued_events_can_be_read_after_the_end() {
        let (queue, mut events) = EventQueue::new(&ClientLimits::default());
        queue.push(&notification(0), 1);
        queue.finish();
        queue.push(&notification(1), 1);
        assert_eq!(read(&mut events), ["0"]);
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(Pin::new(&mut events).poll_next(&mut cx), Poll::Ready(None));
    }

    #[test]
    fn thread_readers_receive_only_their_thread_and_are_removed_when_dropped() {
        let readers = EventReaders::default();
        let mut all = readers.add(None, &ClientLimits::default());
        let mut one = readers.add(Some("a".into()), &ClientLimits::default());
        readers.push(Some("a"), &notification(1), 1);
        readers.push(Some("b"), &notification(2), 1);
        readers.push(None, &notification(3), 1);
        assert_eq!(read(&mut all), ["1", "2", "3"]);
        assert_eq!(read(&mut one), ["1"]);
        drop(all);
        assert!(readers.has_reader(Some("a")) && !readers.has_reader(Some("b")));
        drop(one);
        assert!(!readers.has_reader(Some("a")) && readers.0.lock().readers.is_empty());
    }
}
