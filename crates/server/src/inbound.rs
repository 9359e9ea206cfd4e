//! The memory for incomplete messages.
//!
//! A message may be long, and a listener has many clients. So a client has a low limit before `initialize`, and all
//! clients share a budget. When incomplete messages exceed the budget, the client with the longest one is
//! disconnected. That need not be the client that has just sent something, so short messages always arrive.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{
    clients::{ClientId, ConnectedClient},
    limits::{MAX_EARLY_MESSAGE_BYTES, MAX_MESSAGE_BYTES, MAX_UNFINISHED_BYTES, UNCOUNTED_BYTES},
    outbox::OutboxClosed,
};

/// Returns the longest message that this client may send now.
pub fn max_message_bytes(client: &ConnectedClient) -> usize {
    match client.session() {
        Some(_) => MAX_MESSAGE_BYTES,
        None => MAX_EARLY_MESSAGE_BYTES,
    }
}

/// The bytes of incomplete messages of all connections.
#[derive(Debug)]
pub struct InboundBudget {
    max: usize,
    held: Mutex<HeldBytes>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    total: usize,
    by_client: HashMap<ClientId, ClientBytes>,
}

#[derive(Debug)]
struct ClientBytes {
    bytes: usize,
    client: Arc<ConnectedClient>,
}

impl Default for InboundBudget {
    fn default() -> Self {
        Self::new(MAX_UNFINISHED_BYTES)
    }
}

impl InboundBudget {
    pub fn new(max: usize) -> Self {
        Self { max, held: Mutex::default() }
    }

    /// Sets the bytes of a client. Beyond the budget, the clients with the longest messages are disconnected.
    fn set(&self, client: &Arc<ConnectedClient>, bytes: usize) {
        let mut held = self.held.lock();
        held.remove(client.id);
        // The reader of a disconnected client may go on for a moment.
        if bytes == 0 || client.outbox.closed().is_some() {
            return;
        }
        held.total += bytes;
        held.by_client.insert(client.id, ClientBytes { bytes, client: client.clone() });
        while held.total > self.max {
            let Some(largest) = held.remove_largest() else { return };
            tracing::warn!("disconnected a client: incomplete messages exceed {} MiB", self.max >> 20);
            largest.outbox.close(OutboxClosed::TooMuchInput);
        }
    }
}

impl HeldBytes {
    fn remove(&mut self, id: ClientId) -> Option<Arc<ConnectedClient>> {
        let removed = self.by_client.remove(&id)?;
        self.total -= removed.bytes;
        Some(removed.client)
    }

    /// Removes the client with the longest message, or the newest of several such clients.
    fn remove_largest(&mut self) -> Option<Arc<ConnectedClient>> {
        let (id, _) = self.by_client.iter().max_by_key(|(id, held)| (held.bytes, **id))?;
        let id = *id;
        self.remove(id)
    }
}

/// Counts the bytes of one connection's incomplete message.
#[derive(Debug)]
pub struct InboundMeter {
    client: Arc<ConnectedClient>,
    budget: Arc<InboundBudget>,
    bytes: AtomicUsize,
}

/// The connection was closed because its message is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the unfinished message is too long")]
pub struct MessageRefused;

impl InboundMeter {
    pub fn new(client: Arc<ConnectedClient>, budget: Arc<InboundBudget>) -> Self {
        Self { client, budget, bytes: AtomicUsize::new(0) }
    }

    /// Returns the longest message that the client may send now.
    pub fn max_message_bytes(&self) -> usize {
        max_message_bytes(&self.client)
    }

    /// Returns the length of the incomplete message.
    pub fn unfinished(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets the length of the incomplete message. Fails if the budget closes this connection.
    pub fn set_unfinished(&self, bytes: usize) -> Result<(), MessageRefused> {
        let counted = bytes.saturating_sub(UNCOUNTED_BYTES);
        let before = self.bytes.swap(bytes, Ordering::Relaxed).saturating_sub(UNCOUNTED_BYTES);
        // Both are 0 for short messages, which therefore take no lock.
        if counted != before {
            self.budget.set(&self.client, counted);
            if self.client.outbox.closed() == Some(OutboxClosed::TooMuchInput) {
                return Err(MessageRefused);
            }
        }
        Ok(())
    }

    /// Closes the connection because a single message is too long.
    pub fn refuse(&self) -> MessageRefused {
        let max = self.max_message_bytes() >> 20;
        tracing::warn!("disconnected a client: it sent a message of more than {max} MiB");
        self.client.outbox.close(OutboxClosed::MessageTooLong);
        MessageRefused
    }
}

impl Drop for InboundMeter {
    fn drop(&mut self) {
        self.budget.set(&self.client, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::ClientRegistry;

    const UNIT: usize = 1 << 20;

    fn meters<const N: usize>(budget: usize) -> ([InboundMeter; N], Arc<InboundBudget>) {
        let clients = ClientRegistry::default();
        let budget = Arc::new(InboundBudget::new(budget));
        let meters = std::array::from_fn(|_| InboundMeter::new(clients.connect(), budget.clone()));
        (meters, budget)
    }

    fn grow(meter: &InboundMeter, bytes: usize) -> Result<(), MessageRefused> {
        meter.set_unfinished(bytes + UNCOUNTED_BYTES)
    }

    fn is_disconnected(meter: &InboundMeter) -> bool {
        meter.client.outbox.closed() == Some(OutboxClosed::TooMuchInput)
    }

    #[test]
    fn beyond_the_budget_the_client_with_the_longest_message_is_disconnected() {
        let ([small, large, other], budget) = meters(10 * UNIT);
        grow(&large, 6 * UNIT).unwrap();
        grow(&other, 3 * UNIT).unwrap();
        grow(&small, 2 * UNIT).unwrap();
        assert!(is_disconnected(&large) && !is_disconnected(&small) && !is_disconnected(&other));
        assert_eq!(budget.held.lock().total, 5 * UNIT);
        assert_eq!(grow(&large, 7 * UNIT), Err(MessageRefused), "a disconnected client stays disconnected");
        assert_eq!(budget.held.lock().total, 5 * UNIT);
    }

    #[test]
    fn a_client_that_exceeds_the_budget_alone_is_disconnected() {
        let ([first, second], _) = meters(10 * UNIT);
        grow(&first, 4 * UNIT).unwrap();
        assert_eq!(grow(&second, 11 * UNIT), Err(MessageRefused));
        assert!(is_disconnected(&second) && !is_disconnected(&first));
    }

    #[test]
    fn of_clients_with_equal_messages_the_newest_is_disconnected() {
        let ([first, second, third], _) = meters(10 * UNIT);
        for meter in [&second, &third, &first] {
            grow(meter, 5 * UNIT).ok();
        }
        assert!(!is_disconnected(&first) && !is_disconnected(&second) && is_disconnected(&third));
    }

    #[test]
    fn complete_messages_and_closed_connections_free_the_budget() {
        let ([first, second], budget) = meters(10 * UNIT);
        grow(&first, 4 * UNIT).unwrap();
        grow(&second, 4 * UNIT).unwrap();
        first.set_unfinished(0).unwrap();
        assert_eq!(budget.held.lock().total, 4 * UNIT);
        drop(second);
        assert_eq!(budget.held.lock().total, 0);
        assert!(budget.held.lock().by_client.is_empty());
    }

    #[test]
    fn short_messages_are_not_counted() {
        let ([meter], budget) = meters(10 * UNIT);
        meter.set_unfinished(UNCOUNTED_BYTES).unwrap();
        assert_eq!(budget.held.lock().total, 0);
    }

    #[test]
    fn messages_are_short_before_initialize() {
        let client = ClientRegistry::default().connect();
        assert_eq!(max_message_bytes(&client), MAX_EARLY_MESSAGE_BYTES);
        let hello = serde_json::json!({ "clientInfo": { "name": "x", "version": "1" } });
        client.initialize(crate::clients::ClientSession::new(
            serde_json::from_value(hello).unwrap(),
            codicil_protocol::ProtocolGeneration::V118,
        ));
        assert_eq!(max_message_bytes(&client), MAX_MESSAGE_BYTES);
    }
}
