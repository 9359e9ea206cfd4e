//! How many ephemeral threads there may be.
//!
//! An ephemeral thread is kept in memory only, so it is never unloaded for being idle. It goes when its last
//! subscriber unsubscribes; one whose client went away without that stays. So there are ceilings, for each
//! connection and for all, and at a ceiling a thread that was left behind gives way to a new one.

use std::{collections::BTreeMap, sync::Arc};

use codicil_engine::{ThreadClients, ThreadHandle};
use codicil_protocol::ThreadId;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    clients::ClientId,
    cx::Cx,
    error::RpcError,
    limits::{MAX_CLIENT_EPHEMERAL_THREADS, MAX_EPHEMERAL_THREADS},
};

/// The ephemeral threads that clients have opened.
#[derive(Debug)]
pub struct EphemeralThreads {
    max_of_client: usize,
    max: usize,
    slots: Mutex<ThreadSlots>,
}

#[derive(Debug, Default)]
struct ThreadSlots {
    /// For each thread that is being opened, the client that asked for it.
    opening: Vec<ClientId>,
    /// The same for threads that were opened, the oldest first: their ids begin with the time. Some may have
    /// been unloaded since.
    opened: BTreeMap<ThreadId, ClientId>,
}

impl Default for EphemeralThreads {
    fn default() -> Self {
        Self::new(MAX_CLIENT_EPHEMERAL_THREADS, MAX_EPHEMERAL_THREADS)
    }
}

impl EphemeralThreads {
    pub fn new(max_of_client: usize, max: usize) -> Self {
        Self { max_of_client, max, slots: Mutex::default() }
    }

    /// Takes a slot for a thread that a client is about to open.
    fn try_reserve(self: &Arc<Self>, client: ClientId) -> Option<EphemeralSlot> {
        let mut slots = self.lock();
        let clients = || slots.opening.iter().chain(slots.opened.values());
        let of_client = clients().filter(|owner| **owner == client).count();
        if of_client >= self.max_of_client || clients().count() >= self.max {
            return None;
        }
        slots.opening.push(client);
        drop(slots);
        Some(EphemeralSlot { client, threads: self.clone() })
    }

    fn refusal(&self) -> RpcError {
        RpcError::overloaded_with(format_args!(
            "too many ephemeral threads are loaded: at most {} of one connection and {} in all; unsubscribe from \
             those that are not needed",
            self.max_of_client, self.max
        ))
    }

    /// Lists are changed in single steps, so a panic elsewhere cannot leave them half done.
    fn lock(&self) -> MutexGuard<'_, ThreadSlots> {
        self.slots.lock()
    }
}

/// A slot for a thread that is being opened. Dropped before [`keep`](Self::keep), it is free again.
#[derive(Debug)]
pub struct EphemeralSlot {
    client: ClientId,
    threads: Arc<EphemeralThreads>,
}

impl EphemeralSlot {
    /// The thread was opened and has the slot until it is unloaded.
    pub fn keep(self, id: ThreadId) {
        self.threads.lock().opened.insert(id, self.client);
    }
}

impl Drop for EphemeralSlot {
    fn drop(&mut self) {
        let mut slots = self.threads.lock();
        if let Some(at) = slots.opening.iter().position(|client| *client == self.client) {
            slots.opening.swap_remove(at);
        }
    }
}

/// Takes a slot for an ephemeral thread of this client, if there is one or one can be made free.
pub async fn reserve(cx: &Cx) -> Result<EphemeralSlot, RpcError> {
    let all = cx.ephemeral_threads();
    if let Some(slot) = all.try_reserve(cx.client.id) {
        return Ok(slot);
    }
    all.lock().opened.retain(|id, _| cx.threads().get(id).is_ok());
    if let Some(slot) = all.try_reserve(cx.client.id) {
        return Ok(slot);
    }
    close_abandoned(cx).await;
    all.try_reserve(cx.client.id).ok_or_else(|| all.refusal())
}

/// Closes the oldest ephemeral thread that has neither subscribers nor work.
async fn close_abandoned(cx: &Cx) {
    let opened: Vec<_> = cx.ephemeral_threads().lock().opened.keys().cloned().collect();
    for id in opened.iter().filter(|id| !cx.clients().has_subscribers(id)) {
        let Ok(thread) = cx.threads().get(id) else { continue };
        if is_idle(&thread).await && cx.threads().agents_of(id).is_empty() {
            tracing::info!(%id, "closed an ephemeral thread that has no subscribers");
            cx.threads().close(id).await;
            cx.ephemeral_threads().lock().opened.remove(id);
            return;
        }
    }
}

async fn is_idle(thread: &ThreadHandle) -> bool {
    let has_turn = thread.snapshot().await.is_ok_and(|snapshot| snapshot.active_turn.is_some());
    let has_commands = thread.terminals().await.is_ok_and(|terminals| !terminals.is_empty());
    !has_turn && !has_commands
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{ThreadLoadedListParams, ThreadStartParams, ThreadUnsubscribeParams};
    use tempfile::TempDir;

    use super::*;
    use crate::{clients::ClientRegistry, fixture, handlers::threads, server::Server};

    #[test]
    fn a_slot_that_is_not_kept_is_free_again() {
        let (clients, all) = (ClientRegistry::default(), Arc::new(EphemeralThreads::new(2, 3)));
        let (one, two) = (clients.connect().id, clients.connect().id);
        let first = all.try_reserve(one).unwrap();
        all.try_reserve(one).unwrap().keep("a".into());
        assert!(all.try_reserve(one).is_none(), "two of one client");
        let third = all.try_reserve(two).unwrap();
        assert!(all.try_reserve(two).is_none(), "three in all");
        drop(first);
        assert!(all.try_reserve(one).is_some());
        drop(third);
        assert!(all.try_reserve(two).is_some());
    }

    fn limited_server(max_of_client: usize, max: usize) -> (Server, TempDir) {
        let (mut server, home) = fixture::server();
        let shared = Arc::get_mut(&mut server.shared).unwrap();
        shared.ephemeral_threads = Arc::new(EphemeralThreads::new(max_of_client, max));
        (server, home)
    }

    fn connect(server: &Server) -> Cx {
        Cx::new(server.shared.clients.connect(), server.shared.clone())
    }

    async fn start(cx: &Cx, ephemeral: bool) -> Result<ThreadId, RpcError> {
        let params = ThreadStartParams { ephemeral: Some(ephemeral), ..ThreadStartParams::default() };
        threads::start(cx.clone(), params).await.map(|response| response.thread.id)
    }

    #[tokio::test]
    async fn too_many_ephemeral_threads_of_a_connection_are_refused_until_one_is_given_up() {
        let (server, _home) = limited_server(2, 10);
        let (cx, other) = (connect(&server), connect(&server));
        let first = start(&cx, true).await.unwrap();
        start(&cx, true).await.unwrap();

        let error = start(&cx, true).await.unwrap_err();
        assert_eq!(error.object().code, -32001);
        let expected = "too many ephemeral threads are loaded: at most 2 of one connection and 10 in all; \
                        unsubscribe from those that are not needed";
        assert_eq!(error.object().message, expected);
        start(&cx, false).await.expect("stored threads do not count");
        start(&other, true).await.expect("other connections go on");

        threads::unsubscribe(cx.clone(), ThreadUnsubscribeParams { thread_id: first.clone() }).await.unwrap();
        for work in cx.take_afterwards() {
            work();
        }
        while cx.threads().get(&first).is_ok() {
            tokio::task::yield_now().await;
        }
        start(&cx, true).await.expect("there is room again");
        server.stop().await;
    }

    #[tokio::test]
    async fn threads_that_were_left_behind_give_way_to_new_ones() {
        let (server, _home) = limited_server(2, 2);
        let gone = connect(&server);
        let (oldest, other) = (start(&gone, true).await.unwrap(), start(&gone, true).await.unwrap());
        let cx = connect(&server);
        start(&cx, true).await.expect_err("both have a subscriber");
        server.shared.clients.disconnect(gone.client.id);

        let new = start(&cx, true).await.unwrap();

        let loaded = threads::loaded_list(cx, ThreadLoadedListParams::default()).await.unwrap().data;
        assert!(loaded.contains(&new) && loaded.contains(&other) && !loaded.contains(&oldest), "{loaded:?}");
        server.stop().await;
    }
}
