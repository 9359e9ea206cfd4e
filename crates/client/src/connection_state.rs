//! What calls, readers and server requests see of a connection.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::RwLock;
use tokio::sync::{
    Notify,
    mpsc::{self, error::TrySendError},
};
use tokio_util::sync::CancellationToken;

/// A connection of a client: the first one, to the server that the client was made for, or one to a node that has threads of
/// the client.
#[derive(Debug)]
pub struct ConnectionState {
    /// Distinguishes the connections of a client. The first one has 0.
    pub number: u64,
    pub outgoing: mpsc::Sender<Bytes>,
    /// Cancelled when this client closes the connection.
    pub closing: CancellationToken,
    /// Notified when a thread of this connection is to be subscribed again.
    pub wanted_changed: Notify,
    /// Whether there is no connection at the moment. Answers to server requests are then kept: the next server may use their
    /// ids for other requests.
    pub is_recovering: RwLock<bool>,
    was_open: AtomicBool,
    is_lost: AtomicBool,
}

impl ConnectionState {
    /// Returns the state of the first connection, which is open.
    pub fn first(outgoing: mpsc::Sender<Bytes>, closing: CancellationToken) -> Self {
        let state = Self::node(0, outgoing, closing);
        *state.is_recovering.write() = false;
        state.was_open.store(true, Ordering::Release);
        state
    }

    /// Returns the state of a connection that is being opened.
    pub fn node(number: u64, outgoing: mpsc::Sender<Bytes>, closing: CancellationToken) -> Self {
        Self {
            number,
            outgoing,
            closing,
            wanted_changed: Notify::new(),
            is_recovering: RwLock::new(true),
            was_open: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
        }
    }

    pub fn is_first(&self) -> bool {
        self.number == 0
    }

    pub fn note_open(&self) {
        self.was_open.store(true, Ordering::Release);
    }

    /// Returns whether messages may have been sent over this connection.
    pub fn was_open(&self) -> bool {
        self.was_open.load(Ordering::Acquire)
    }

    /// Notes that the connection has ended and is not opened again.
    pub fn note_lost(&self) {
        *self.is_recovering.write() = true;
        self.is_lost.store(true, Ordering::Release);
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// Queues a message. Returns it if the queue is full; a connection that is ending takes no more messages.
    pub fn queue(&self, message: Bytes) -> Option<Bytes> {
        match self.outgoing.try_send(message) {
            Ok(()) | Err(TrySendError::Closed(_)) => None,
            Err(TrySendError::Full(message)) => Some(message),
        }
    }
}
