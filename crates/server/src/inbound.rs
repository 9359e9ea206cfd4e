//! What clients have sent of messages that are not complete yet.
//!
//! A message may be long, and a listener has many clients: together they could make the server hold far more
//! than one may. So there is a small ceiling for a client before `initialize`, and a budget for all of them. A
//! message that does not fit into the budget costs the client with the longest one its connection; that need
//! not be the one that has just sent something, so that short messages always get through.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};

use crate::{
    clients::{ClientId, ConnectedClient},
    limits::{MAX_EARLY_MESSAGE_BYTES, MAX_MESSAGE_BYTES, MAX_UNFINISHED_BYTES, UNCOUNTED_BYTES},
    outbox::OutboxClosed,
};

/// The longest message that this client may send now.
pub fn max_message_bytes(client: &ConnectedClient) -> usize {
    match client.session() {
        Some(_) => MAX_MESSAGE_BYTES,
        None => MAX_EARLY_MESSAGE_BYTES,
    }
}

/// The bytes that all connections hold of unfinished messages.
#[derive(Debug)]
pub struct InboundBudget {
    max: usize,
    held: Mutex<HeldBytes>,
}

#[derive(Debug, Default)]
struct HeldBytes {
    total: usize,
    by_client: HashMap<ClientId, (usize, Arc<ConnectedClient>)>,
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

    /// Notes how much a client holds now. Beyond the budget, those who hold most are disconnected.
    fn set(&self, client: &Arc<ConnectedClient>, bytes: usize) {
        let mut held = self.lock();
        held.remove(client.id);
        // A client that was disconnected may still read for a moment.
        if bytes == 0 || client.outbox.closed().is_some() {
            return;
        }
        held.total += bytes;
        held.by_client.insert(client.id, (bytes, client.clone()));
        while held.total > self.max {
            let Some(largest) = held.remove_largest() else { return };
            tracing::warn!("disconnected a client: unfinished messages are above {} MiB", self.max >> 20);
            largest.outbox.close(OutboxClosed::TooMuchInput);
        }
    }

    /// The total is changed together with the map, so a panic elsewhere cannot leave them apart.
    fn lock(&self) -> MutexGuard<'_, HeldBytes> {
        self.held.lock()
    }
}

impl HeldBytes {
    fn remove(&mut self, id: ClientId) -> Option<Arc<ConnectedClient>> {
        let (bytes, client) = self.by_client.remove(&id)?;
        self.total -= bytes;
        Some(client)
    }

    /// Removes the client with the longest message; of several, the one that connected last.
    fn remove_largest(&mut self) -> Option<Arc<ConnectedClient>> {
        let largest = self.by_client.iter().max_by_key(|(id, (bytes, _))| (*bytes, **id));
        let id = *largest?.0;
        self.remove(id)
    }
}

/// Counts the unfinished message of one connection.
#[derive(Debug)]
pub struct InboundMeter {
    client: Arc<ConnectedClient>,
    budget: Arc<InboundBudget>,
    bytes: AtomicUsize,
}

/// The connection has been closed because of what it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the unfinished message is too long")]
pub struct MessageRefused;

impl InboundMeter {
    pub fn new(client: Arc<ConnectedClient>, budget: Arc<InboundBudget>) -> Self {
        Self { client, budget, bytes: AtomicUsize::new(0) }
    }

    /// The longest message that the client may send now.
    pub fn max_message_bytes(&self) -> usize {
        max_message_bytes(&self.client)
    }

    /// Returns how much the unfinished message has.
    pub fn unfinished(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets how much the unfinished message has.
    pub fn set_unfinished(&self, bytes: usize) -> Result<(), MessageRefused> {
        let counted = bytes.saturating_sub(UNCOUNTED_BYTES);
        let before = self.bytes.swap(bytes, Ordering::Relaxed).saturating_sub(UNCOUNTED_BYTES);
        // Nearly always 0 and 0: no lock for short messages.
        if counted != before {
            self.budget.set(&self.client, counted);
            if self.client.outbox.closed() == Some(OutboxClosed::TooMuchInput) {
                return Err(MessageRefused);
            }
        }
        Ok(())
    }

    /// Closes the connection because a message is longer than a single one may be.
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
        let (clients, budget) = (ClientRegistry::default(), Arc::new(InboundBudget::new(budget)));
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
    fn beyond_the_budget_the_longest_message_goes_and_the_others_stay() {
        let ([small, large, other], budget) = meters(10 * UNIT);
        grow(&large, 6 * UNIT).unwrap();
        grow(&other, 3 * UNIT).unwrap();
        grow(&small, 2 * UNIT).unwrap();
        assert!(is_disconnected(&large) && !is_disconnected(&small) && !is_disconnected(&other));
        assert_eq!(budget.lock().total, 5 * UNIT);
        assert_eq!(grow(&large, 7 * UNIT), Err(MessageRefused), "it does not come back");
        assert_eq!(budget.lock().total, 5 * UNIT);
    }

    #[test]
    fn a_client_that_needs_the_whole_budget_for_itself_is_the_one_to_go() {
        let ([one, two], _) = meters(10 * UNIT);
        grow(&one, 4 * UNIT).unwrap();
        assert_eq!(grow(&two, 11 * UNIT), Err(MessageRefused));
        assert!(is_disconnected(&two) && !is_disconnected(&one));
    }

    #[test]
    fn of_equal_messages_that_of_the_newest_client_goes() {
        let ([one, two, three], _) = meters(10 * UNIT);
        for meter in [&two, &three, &one] {
            grow(meter, 5 * UNIT).ok();
        }
        assert!(!is_disconnected(&one) && !is_disconnected(&two) && is_disconnected(&three));
    }

    #[test]
    fn a_finished_message_and_a_closed_connection_give_everything_back() {
        let ([one, two], budget) = meters(10 * UNIT);
        grow(&one, 4 * UNIT).unwrap();
        grow(&two, 4 * UNIT).unwrap();
        one.set_unfinished(0).unwrap();
        assert_eq!(budget.lock().total, 4 * UNIT);
        drop(two);
        assert_eq!(budget.lock().total, 0);
        assert!(budget.lock().by_client.is_empty());
    }

    #[test]
    fn short_messages_are_not_counted() {
        let ([one], budget) = meters(10 * UNIT);
        one.set_unfinished(UNCOUNTED_BYTES).unwrap();
        assert_eq!(budget.lock().total, 0);
    }

    #[test]
    fn messages_are_short_before_initialize() {
        let client = ClientRegistry::default().connect();
        assert_eq!(max_message_bytes(&client), MAX_EARLY_MESSAGE_BYTES);
        let hello = serde_json::json!({ "clientInfo": { "name": "x", "version": "1" } });
        client.initialize(crate::clients::ClientSession::new(serde_json::from_value(hello).unwrap()));
        assert_eq!(max_message_bytes(&client), MAX_MESSAGE_BYTES);
    }
}
