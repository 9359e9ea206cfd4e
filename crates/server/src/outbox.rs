//! The queue of messages for one client.
//!
//! Frames are pushed without waiting and taken in batches by the transport's writer. A client that reads slowly costs
//! memory up to the [`limits`](crate::limits) and does not slow down the other clients: first its new requests are
//! refused, then nothing more is read from it, then deltas of one item are joined, and at the last limit the outbox
//! closes and ends the connection.
//!
//! The queue of a client with a cursor is dropped instead, as far as it can be replayed: the client receives
//! `codicil/behind` for each thread concerned, and no notifications of that thread until it subscribes again.

use std::collections::{BTreeMap, HashSet, VecDeque};

use bytes::Bytes;
use codicil_protocol::{
    CodicilBehind, CodicilBehindNotification, Frame, FrameAudience, MessagePlace, MessageSeq, PLACE_LEN,
    ProtocolGeneration, TIME_LEN, ThreadId, append_place, append_time,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::limits::{
    BUSY_BYTES, JOIN_DELTAS_BYTES, MAX_JOINED_BYTES, MAX_UNREAD_BYTES, PAUSE_READING_BYTES, STREAM_BYTES,
};

/// The messages that a client has not read yet.
#[derive(Debug, Default)]
pub struct ClientOutbox {
    queue: Mutex<OutboxQueue>,
    /// Notified when a frame is pushed and when the outbox closes.
    filled: Notify,
    /// Notified when a batch is taken and when the outbox closes.
    drained: Notify,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct OutboxQueue {
    entries: VecDeque<OutboxEntry>,
    bytes: usize,
    /// Bytes of the batch that the writer is sending. They count until it takes the next one.
    in_writer: usize,
    closed: Option<OutboxClosed>,
    /// The form in which the client receives messages.
    generation: ProtocolGeneration,
    /// Whether the client subscribes at positions.
    has_cursor: bool,
    /// Whether messages are sent with their positions: to a client with a cursor, or to a server that relays them.
    shows_places: bool,
    /// Threads whose notifications are dropped until the client subscribes again.
    behind: HashSet<ThreadId>,
}

/// Why an outbox is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboxClosed {
    /// The connection is over. Queued frames may still be taken.
    Finished,
    /// The client stopped reading. Queued frames are dropped.
    TooSlow,
    /// The client sent a message beyond the limit for a single one.
    MessageTooLong,
    /// The client had the longest incomplete message when all of them exceeded their limit.
    TooMuchInput,
}

/// The result of looking for frames.
enum TakenBatch {
    Frames(Vec<Bytes>),
    Empty,
    Closed,
}

#[derive(Debug)]
struct OutboxEntry {
    bytes: EntryBytes,
    /// The position that is sent with the message; that of the last part of a joined delta.
    place: Option<MessagePlace>,
    /// The position of the first part, for a message that can be replayed.
    replayable_from: Option<MessageSeq>,
    /// Whether the client is told when the message was sent.
    has_time: bool,
}

#[derive(Debug)]
enum EntryBytes {
    Shared(Bytes),
    /// Several deltas of one item, joined.
    Joined(Vec<u8>),
}

impl ClientOutbox {
    /// Queues a frame. A closed outbox drops it.
    pub fn push(&self, frame: &Frame) {
        let mut queue = self.queue.lock();
        if queue.closed.is_some() {
            return;
        }
        // Without the new frame: one large response does not mean that the client has stopped reading.
        if queue.total() > MAX_UNREAD_BYTES && !queue.drop_replayable() {
            queue.close(OutboxClosed::TooSlow);
            drop(queue);
            self.wake_all();
            return;
        }
        if !queue.takes(frame) {
            return;
        }
        if queue.total() < JOIN_DELTAS_BYTES || !queue.join(frame) {
            queue.append(frame);
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// Queues a frame once the client has read enough. For producers without end, such as the output of a command;
    /// frames of one producer stay in order.
    pub async fn push_when_room(&self, frame: &Frame) {
        loop {
            let drained = self.drained.notified();
            {
                let mut queue = self.queue.lock();
                if queue.closed.is_some() {
                    return;
                }
                // Checked and queued under one lock, so that all producers together keep to the limit.
                if queue.total() <= STREAM_BYTES {
                    queue.append(frame);
                    break;
                }
            }
            drained.await;
        }
        self.filled.notify_one();
    }

    /// Sends messages in the form of a generation from now on.
    pub fn use_generation(&self, generation: ProtocolGeneration) {
        self.queue.lock().generation = generation;
    }

    /// Sends positions with the messages of threads from now on.
    pub fn use_cursor(&self) {
        let mut queue = self.queue.lock();
        queue.has_cursor = true;
        queue.shows_places = true;
    }

    /// Sends positions to a server that relays the messages to its client, whether the client has a cursor or not.
    pub fn show_places(&self) {
        self.queue.lock().shows_places = true;
    }

    /// Ends the wait for a new subscription to a thread.
    pub fn catch_up(&self, thread: &ThreadId) {
        self.queue.lock().behind.remove(thread);
    }

    /// Asks a client with a cursor to subscribe to a thread again, and drops the thread's notifications until then.
    pub fn fall_behind(&self, thread: &ThreadId, after: MessageSeq) {
        let mut queue = self.queue.lock();
        if queue.has_cursor && queue.closed.is_none() {
            queue.fall_behind(thread.clone(), after);
            drop(queue);
            self.filled.notify_one();
        }
    }

    /// Waits for frames and takes all of them. Returns `None` once the outbox is closed and empty.
    pub async fn take(&self) -> Option<Vec<Bytes>> {
        loop {
            let filled = self.filled.notified();
            match self.try_take() {
                TakenBatch::Frames(frames) => return Some(frames),
                TakenBatch::Closed => return None,
                TakenBatch::Empty => filled.await,
            }
        }
    }

    /// Returns whether the client reads too slowly for its requests to be served. The writer's batch does not count:
    /// the client may have read it and sent a request before the writer returns.
    pub fn is_busy(&self) -> bool {
        self.queue.lock().bytes > BUSY_BYTES
    }

    /// Returns how many bytes the client has not read, those that the writer is sending included.
    pub fn unread_bytes(&self) -> usize {
        self.queue.lock().total()
    }

    /// Waits until the client has read enough to be read from again.
    pub async fn wait_for_room(&self) {
        self.wait_until_below(PAUSE_READING_BYTES).await;
    }

    /// Waits until the client has read enough for a producer without end. For producers whose messages may not be dropped and
    /// who are the only ones of their kind: more than one message may be queued at once.
    pub async fn wait_for_stream_room(&self) {
        self.wait_until_below(STREAM_BYTES).await;
    }

    async fn wait_until_below(&self, limit: usize) {
        loop {
            let drained = self.drained.notified();
            {
                let queue = self.queue.lock();
                if queue.closed.is_some() || queue.total() <= limit {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Closes the outbox at the end of a connection.
    pub fn finish(&self) {
        self.close(OutboxClosed::Finished);
    }

    /// Closes the outbox. The first reason counts.
    pub fn close(&self, reason: OutboxClosed) {
        self.queue.lock().close(reason);
        self.wake_all();
    }

    pub fn closed(&self) -> Option<OutboxClosed> {
        self.queue.lock().closed
    }

    /// Waits until the outbox is closed.
    pub async fn wait_closed(&self) {
        self.closing.cancelled().await;
    }

    fn try_take(&self) -> TakenBatch {
        let mut queue = self.queue.lock();
        queue.in_writer = std::mem::take(&mut queue.bytes);
        let entries = std::mem::take(&mut queue.entries);
        let is_closed = queue.closed.is_some();
        drop(queue);
        self.drained.notify_waiters();
        if !entries.is_empty() {
            let now = Timestamp::now().as_millisecond();
            TakenBatch::Frames(entries.into_iter().map(|entry| entry.into_bytes(now)).collect())
        } else if is_closed {
            TakenBatch::Closed
        } else {
            TakenBatch::Empty
        }
    }

    fn wake_all(&self) {
        self.closing.cancel();
        self.filled.notify_one();
        self.drained.notify_waiters();
    }
}

impl OutboxQueue {
    fn total(&self) -> usize {
        self.bytes + self.in_writer
    }

    fn close(&mut self, reason: OutboxClosed) {
        self.closed.get_or_insert(reason);
        if reason == OutboxClosed::TooSlow {
            self.entries.clear();
            self.bytes = 0;
        }
    }

    fn append(&mut self, frame: &Frame) {
        let place = frame.place().filter(|_| self.shows_places).cloned();
        let replayable_from = place.as_ref().filter(|_| frame.is_notification()).map(|place| place.seq);
        let bytes = EntryBytes::Shared(frame.bytes_for(self.generation).clone());
        let has_time = frame.is_notification() && self.generation == ProtocolGeneration::V166;
        let entry = OutboxEntry { bytes, place, replayable_from, has_time };
        self.bytes += entry.len();
        self.entries.push_back(entry);
    }

    /// Returns whether a message is for this client and not one that it waits to receive by a new subscription.
    fn takes(&self, frame: &Frame) -> bool {
        let is_addressed = match frame.audience() {
            FrameAudience::Everyone => true,
            FrameAudience::WithCursor => self.has_cursor,
            FrameAudience::WithoutCursor => !self.has_cursor,
        };
        let is_behind = || frame.place().is_some_and(|place| self.behind.contains(&place.thread_id));
        is_addressed
            && frame.is_in(self.generation)
            && (self.behind.is_empty() || !frame.is_notification() || !is_behind())
    }

    /// Drops the messages that can be replayed, and asks the client to subscribe again. Returns false if that is not
    /// possible, or leaves too much.
    fn drop_replayable(&mut self) -> bool {
        if !self.has_cursor {
            return false;
        }
        let mut dropped: BTreeMap<ThreadId, MessageSeq> = BTreeMap::new();
        self.entries.retain(|entry| {
            let (Some(first), Some(place)) = (entry.replayable_from, &entry.place) else { return true };
            let known = dropped.entry(place.thread_id.clone()).or_insert(first);
            *known = first.min(*known);
            false
        });
        self.bytes = self.entries.iter().map(OutboxEntry::len).sum();
        for (thread, first) in dropped {
            self.fall_behind(thread, first.before());
        }
        self.bytes <= MAX_UNREAD_BYTES
    }

    fn fall_behind(&mut self, thread_id: ThreadId, after: MessageSeq) {
        if self.behind.insert(thread_id.clone()) {
            self.append(&Frame::notification::<CodicilBehind>(&CodicilBehindNotification {
                thread_id,
                after,
            }));
        }
    }

    /// Appends a delta to the last entry, and returns whether that was possible: the entry must be a delta of the same
    /// item and stay within the limit.
    fn join(&mut self, frame: &Frame) -> bool {
        let Some(last) = self.entries.back_mut() else { return false };
        let Some(text) = frame.continuation(last.bytes.as_slice()) else { return false };
        let place = frame.place().filter(|_| self.shows_places);
        let is_replay = |place: Option<&MessagePlace>| place.map(|place| place.is_replay);
        let is_too_long = last.bytes.as_slice().len() + text.len() > MAX_JOINED_BYTES;
        if is_too_long || is_replay(last.place.as_ref()) != is_replay(place) {
            return false;
        }
        last.place = place.cloned();
        let joined = last.bytes.make_joined();
        joined.truncate(joined.len().saturating_sub(Frame::DELTA_END_LEN));
        joined.extend_from_slice(text);
        self.bytes += text.len() - Frame::DELTA_END_LEN.min(text.len());
        true
    }
}

impl OutboxEntry {
    fn len(&self) -> usize {
        let place = self.place.as_ref().map_or(0, |_| PLACE_LEN);
        let time = if self.has_time { TIME_LEN } else { 0 };
        self.bytes.as_slice().len() + place + time
    }

    /// Returns the message with what only this client gets: its position and the time, in Unix milliseconds.
    fn into_bytes(self, now: i64) -> Bytes {
        if self.place.is_none() && !self.has_time {
            return self.bytes.into_bytes();
        }
        let mut message = Vec::with_capacity(self.len());
        message.extend_from_slice(self.bytes.as_slice());
        if self.has_time {
            append_time(&mut message, now);
        }
        if let Some(place) = &self.place {
            append_place(&mut message, place);
        }
        message.into()
    }
}

impl EntryBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Joined(bytes) => bytes,
        }
    }

    fn make_joined(&mut self) -> &mut Vec<u8> {
        if let Self::Shared(bytes) = self {
            *self = Self::Joined(bytes.to_vec());
        }
        match self {
            Self::Joined(bytes) => bytes,
            Self::Shared(_) => unreachable!("replaced above"),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Joined(bytes) => bytes.into(),
        }
    }
}

#[cfg(test)]
mod tests;
