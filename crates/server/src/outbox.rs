//! What waits to be read by one client.
//!
//! Frames are pushed without waiting and taken in batches by the transport's writer. A client that reads
//! slowly costs memory up to the ceilings in [`limits`](crate::limits) and nobody else anything: first its
//! new requests are refused, then nothing more is read from it, then deltas of one item are joined, and
//! at the last ceiling the outbox closes and with it the connection.

use std::collections::VecDeque;

use bytes::Bytes;
use codicil_protocol::Frame;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::limits::{
    BUSY_BYTES, JOIN_DELTAS_BYTES, MAX_JOINED_BYTES, MAX_WAITING_BYTES, PAUSE_READING_BYTES, STREAM_BYTES,
};

#[derive(Debug, Default)]
pub struct ClientOutbox {
    waiting: Mutex<WaitingSend>,
    /// Woken when there is something to take, and when the outbox closes.
    filled: Notify,
    /// Woken when a batch has been taken, and when the outbox closes.
    drained: Notify,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct WaitingSend {
    entries: VecDeque<OutboxEntry>,
    bytes: usize,
    /// Bytes of the batch that the writer holds; they count until it comes back for more.
    in_writer: usize,
    closed: Option<OutboxClosed>,
}

/// Why nothing more leaves through an outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutboxClosed {
    /// The connection is over; what waits may still be taken.
    Finished,
    /// The client stopped reading; what waits is dropped.
    TooSlow,
    /// The client sent a message that is longer than one may be.
    MessageTooLong,
    /// The client had the longest unfinished message when there was no room for all of them.
    TooMuchInput,
}

#[derive(Debug)]
enum OutboxEntry {
    Shared(Bytes),
    /// Several deltas of one item, joined.
    Joined(Vec<u8>),
}

impl ClientOutbox {
    /// Queues a frame. What arrives after the end goes nowhere.
    pub fn push(&self, frame: &Frame) {
        let mut waiting = self.lock();
        if waiting.closed.is_some() {
            return;
        }
        let total = waiting.total();
        // Without the new frame: a single large answer does not mean that nobody reads.
        if total > MAX_WAITING_BYTES {
            waiting.close(OutboxClosed::TooSlow);
            drop(waiting);
            self.wake_all();
            return;
        }
        if total < JOIN_DELTAS_BYTES || !waiting.join(frame) {
            waiting.append(frame);
        }
        drop(waiting);
        self.filled.notify_one();
    }

    /// Queues a frame once the client has read enough of what is there. Whoever produces without end is
    /// held up in this way; the order of frames pushed one after the other stays.
    pub async fn push_when_room(&self, frame: &Frame) {
        loop {
            let drained = self.drained.notified();
            {
                let mut waiting = self.lock();
                if waiting.closed.is_some() {
                    return;
                }
                // Looking and queueing are one step, so that many producers keep to the ceiling together.
                if waiting.total() <= STREAM_BYTES {
                    waiting.append(frame);
                    break;
                }
            }
            drained.await;
        }
        self.filled.notify_one();
    }

    /// Everything that waits; `None` when there is nothing left and never will be.
    pub async fn take(&self) -> Option<Vec<Bytes>> {
        loop {
            let filled = self.filled.notified();
            if let Some(result) = self.try_take() {
                return result;
            }
            filled.await;
        }
    }

    /// Whether the client reads too slowly for its requests to be served. What the writer holds does not
    /// count: the client may have read it and asked for more before the writer comes back.
    pub fn is_busy(&self) -> bool {
        self.lock().bytes > BUSY_BYTES
    }

    /// Returns once the client has read enough for it to be read from.
    pub async fn wait_for_room(&self) {
        loop {
            let drained = self.drained.notified();
            {
                let waiting = self.lock();
                if waiting.closed.is_some() || waiting.total() <= PAUSE_READING_BYTES {
                    return;
                }
            }
            drained.await;
        }
    }

    /// Nothing more will be pushed.
    pub fn finish(&self) {
        self.close(OutboxClosed::Finished);
    }

    /// The same, with a reason for the client. The first reason counts.
    pub fn close(&self, why: OutboxClosed) {
        self.lock().close(why);
        self.wake_all();
    }

    pub fn closed(&self) -> Option<OutboxClosed> {
        self.lock().closed
    }

    /// Returns when the outbox closes.
    pub async fn wait_closed(&self) {
        self.closing.cancelled().await;
    }

    fn try_take(&self) -> Option<Option<Vec<Bytes>>> {
        let mut waiting = self.lock();
        waiting.in_writer = 0;
        let result = if !waiting.entries.is_empty() {
            waiting.in_writer = std::mem::take(&mut waiting.bytes);
            let batch = std::mem::take(&mut waiting.entries);
            Some(Some(batch.into_iter().map(OutboxEntry::into_bytes).collect()))
        } else {
            waiting.closed.map(|_| None)
        };
        drop(waiting);
        self.drained.notify_waiters();
        result
    }

    fn wake_all(&self) {
        self.closing.cancel();
        self.filled.notify_one();
        self.drained.notify_waiters();
    }

    /// The queue is a list of whole messages at any time, so a panic elsewhere cannot have broken it.
    fn lock(&self) -> MutexGuard<'_, WaitingSend> {
        self.waiting.lock()
    }
}

impl WaitingSend {
    fn total(&self) -> usize {
        self.bytes + self.in_writer
    }

    fn close(&mut self, why: OutboxClosed) {
        self.closed.get_or_insert(why);
        if why == OutboxClosed::TooSlow {
            self.entries.clear();
            self.bytes = 0;
        }
    }

    fn append(&mut self, frame: &Frame) {
        self.bytes += frame.bytes().len();
        self.entries.push_back(OutboxEntry::Shared(frame.bytes().clone()));
    }

    /// Appends a delta to the last entry, if that is of the same item and not too long already.
    fn join(&mut self, frame: &Frame) -> bool {
        let Some(last) = self.entries.back_mut() else { return false };
        let Some(text) = frame.continuation(last.as_slice()) else { return false };
        if last.as_slice().len() + text.len() > MAX_JOINED_BYTES {
            return false;
        }
        let joined = last.make_joined();
        joined.truncate(joined.len().saturating_sub(Frame::DELTA_END_LEN));
        joined.extend_from_slice(text);
        self.bytes += text.len() - Frame::DELTA_END_LEN.min(text.len());
        true
    }
}

impl OutboxEntry {
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
