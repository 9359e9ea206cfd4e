//! Limits for ephemeral threads.
//!
//! An ephemeral thread exists in memory only, so it is not unloaded while it has a subscriber. It ends when its last
//! subscriber unsubscribes. A client that disconnects without unsubscribing abandons its threads. There is a limit for
//! each connection and one for the server; at a limit, the oldest abandoned thread is closed for a new one.

use std::{collections::BTreeMap, sync::Arc};

use codicil_engine::{ThreadClients, ThreadHandle};
use codicil_protocol::{ThreadId, ThreadStatus};
use parking_lot::Mutex;

use crate::{
    clients::ClientId,
    cx::Cx,
    limits::{MAX_CLIENT_EPHEMERAL_THREADS, MAX_EPHEMERAL_THREADS},
};

/// The ephemeral threads of all clients.
#[derive(Debug)]
pub struct EphemeralThreads {
    max_per_client: usize,
    max: usize,
    slots: Mutex<ThreadSlots>,
}

#[derive(Debug, Default)]
struct ThreadSlots {
    /// The clients of the threads that are being opened.
    opening: Vec<ClientId>,
    /// The clients of the open threads. Thread ids begin with the time, so the oldest come first. Some threads may
    /// have been unloaded since.
    opened: BTreeMap<ThreadId, ClientId>,
}

impl Default for EphemeralThreads {
    fn default() -> Self {
        Self::new(MAX_CLIENT_EPHEMERAL_THREADS, MAX_EPHEMERAL_THREADS)
    }
}

impl EphemeralThreads {
    pub fn new(max_per_client: usize, max: usize) -> Self {
        Self { max_per_client, max, slots: Mutex::default() }
    }

    /// Reserves a slot for a thread that a client is about to open.
    fn try_reserve(self: &Arc<Self>, client: ClientId) -> Result<EphemeralSlot, TooManyEphemeralThreads> {
        let mut slots = self.slots.lock();
        let owners = || slots.opening.iter().chain(slots.opened.values());
        let of_client = owners().filter(|owner| **owner == client).count();
        if of_client >= self.max_per_client || owners().count() >= self.max {
            let Self { max_per_client, max, .. } = **self;
            return Err(TooManyEphemeralThreads { max_per_client, max });
        }
        slots.opening.push(client);
        drop(slots);
        Ok(EphemeralSlot { client, threads: self.clone() })
    }
}

/// The refusal of a thread beyond the limits.
#[derive(Debug, thiserror::Error)]
#[error(
    "too many ephemeral threads are loaded: at most {max_per_client} of one connection and {max} in all; unsubscribe \
     from those that are not needed"
)]
pub struct TooManyEphemeralThreads {
    max_per_client: usize,
    max: usize,
}

/// A slot for a thread that is being opened. Dropping it instead of calling [`keep`](Self::keep) frees it.
#[derive(Debug)]
pub struct EphemeralSlot {
    client: ClientId,
    threads: Arc<EphemeralThreads>,
}

impl EphemeralSlot {
    /// Assigns the slot to an open thread until that is unloaded.
    pub fn keep(self, id: ThreadId) {
        self.threads.slots.lock().opened.insert(id, self.client);
    }
}

impl Drop for EphemeralSlot {
    fn drop(&mut self) {
        let mut slots = self.threads.slots.lock();
        if let Some(index) = slots.opening.iter().position(|client| *client == self.client) {
            slots.opening.swap_remove(index);
        }
    }
}

/// Reserves a slot for an ephemeral thread of this client, and closes an abandoned thread if necessary.
pub async fn reserve(cx: &Cx) -> Result<EphemeralSlot, TooManyEphemeralThreads> {
    let all = cx.ephemeral_threads();
    if let Ok(slot) = all.try_reserve(cx.client.id) {
        return Ok(slot);
    }
    all.slots.lock().opened.retain(|id, _| cx.threads().get(id).is_ok());
    if let Ok(slot) = all.try_reserve(cx.client.id) {
        return Ok(slot);
    }
    close_abandoned(cx).await;
    all.try_reserve(cx.client.id)
}

/// Closes the oldest ephemeral thread without subscribers, running turn, background commands and subagents.
async fn close_abandoned(cx: &Cx) {
    let opened: Vec<_> = cx.ephemeral_threads().slots.lock().opened.keys().cloned().collect();
    for id in opened.iter().filter(|id| !cx.clients().has_subscribers(id)) {
        let Ok(thread) = cx.threads().get(id) else { continue };
        if is_idle(&thread).await && cx.threads().agents_of(id).is_empty() {
            tracing::info!(thread = %id, "closed an ephemeral thread without subscribers");
            cx.threads().close(id).await;
            cx.ephemeral_threads().slots.lock().opened.remove(id);
            return;
        }
    }
}

async fn is_idle(thread: &ThreadHandle) -> bool {
    let has_turn = || matches!(thread.status(), Some(ThreadStatus::Active { .. }));
    // Checked before the mailbox is asked, so that a busy thread does not delay the request.
    if has_turn() {
        return false;
    }
    let has_commands = thread.terminals().await.is_ok_and(|terminals| !terminals.is_empty());
    !has_commands && !has_turn()
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{ThreadLoadedListParams, ThreadStartParams, ThreadUnsubscribeParams};
    use tempfile::TempDir;

    use super::*;
    use crate::{
        clients::ClientRegistry, error::RpcError, fixture, handlers::thread, request_keys::OnceResponse,
        server::Server,
    };

    #[test]
    fn a_slot_that_is_not_kept_is_free_again() {
        let clients = ClientRegistry::default();
        let all = Arc::new(EphemeralThreads::new(2, 3));
        let client = clients.connect().id;
        let other = clients.connect().id;
        let first = all.try_reserve(client).unwrap();
        all.try_reserve(client).unwrap().keep("a".into());
        assert!(all.try_reserve(client).is_err(), "two of one client");
        let third = all.try_reserve(other).unwrap();
        assert!(all.try_reserve(other).is_err(), "three in all");
        drop(first);
        assert!(all.try_reserve(client).is_ok());
        drop(third);
        assert!(all.try_reserve(other).is_ok());
    }

    fn limited_server(max_per_client: usize, max: usize) -> (Server, TempDir) {
        let (mut server, home) = fixture::server();
        let shared = Arc::get_mut(&mut server.shared).unwrap();
        shared.ephemeral_threads = Arc::new(EphemeralThreads::new(max_per_client, max));
        (server, home)
    }

    fn connect(server: &Server) -> Cx {
        Cx::new(server.shared.clients.connect(), server.shared.clone())
    }

    async fn start_ephemeral(cx: &Cx) -> Result<ThreadId, RpcError> {
        let params = ThreadStartParams { ephemeral: Some(true), ..ThreadStartParams::default() };
        match thread::start(cx.clone(), params).await? {
            OnceResponse::Made(response) => Ok(response.thread.id),
            OnceResponse::Encoded(_) => unreachable!("the request has no key"),
        }
    }

    #[tokio::test]
    async fn too_many_ephemeral_threads_of_a_connection_are_refused_until_one_is_closed() {
        let (server, _home) = limited_server(2, 10);
        let cx = connect(&server);
        let other = connect(&server);
        let first = start_ephemeral(&cx).await.unwrap();
        start_ephemeral(&cx).await.unwrap();

        let error = start_ephemeral(&cx).await.unwrap_err();
        assert_eq!(error.object().code, -32001);
        let expected = "too many ephemeral threads are loaded: at most 2 of one connection and 10 in all; \
                        unsubscribe from those that are not needed";
        assert_eq!(error.object().message, expected);
        thread::start(cx.clone(), ThreadStartParams::default()).await.expect("stored threads do not count");
        start_ephemeral(&other).await.expect("each connection has its own limit");

        thread::unsubscribe(cx.clone(), ThreadUnsubscribeParams { thread_id: first.clone() }).await.unwrap();
        for work in cx.take_after_response() {
            work();
        }
        while cx.threads().get(&first).is_ok() {
            tokio::task::yield_now().await;
        }
        start_ephemeral(&cx).await.expect("a slot is free again");
        server.stop().await;
    }

    #[tokio::test]
    async fn the_oldest_abandoned_thread_is_closed_for_a_new_one() {
        let (server, _home) = limited_server(2, 2);
        let gone = connect(&server);
        let oldest = start_ephemeral(&gone).await.unwrap();
        let other = start_ephemeral(&gone).await.unwrap();
        let cx = connect(&server);
        start_ephemeral(&cx).await.expect_err("both have a subscriber");
        server.shared.clients.disconnect(gone.client.id);

        let new = start_ephemeral(&cx).await.unwrap();

        let loaded = thread::loaded_list(cx, ThreadLoadedListParams::default()).await.unwrap().data;
        assert!(loaded.contains(&new) && loaded.contains(&other) && !loaded.contains(&oldest), "{loaded:?}");
        server.stop().await;
    }
}
