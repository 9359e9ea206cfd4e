//! Which connection each thread is followed over.
//!
//! Several servers, *nodes*, can share their threads. A server answers a request for a thread of another node with the address
//! of that node (`moved`). The client then has a connection to it as long as it follows a thread or waits for an answer there.
//! When a node is lost, its threads are searched: the first server is asked for them, from their positions on, and either has
//! taken them over or says where they are. Calls to a thread wait while it is searched.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use codicil_protocol::{
    CodicilMovedThread, SubagentPosition, SubscriptionScope,
    rpc::{ErrorObject, codes},
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep},
};

use crate::{
    builder::ClientBuilder,
    connection,
    connection_state::ConnectionState,
    endpoint::WebSocket,
    error::{DisconnectCause, Disconnected},
    ids::MessageIds,
    options::backoff,
    receiver::MessageReceiver,
    reconnect::ConnectionRecovery,
    resilient::{ReconnectOptions, Resilience, ThreadPlace},
    responder::RequestResponder,
    shared::ClientShared,
};

/// How long a thread is searched.
const SEARCH_TIME: Duration = Duration::from_secs(300);

/// The connections of a client's threads.
pub(crate) struct ThreadNodes {
    pub first: Arc<ConnectionState>,
    options: ClientBuilder,
    /// The address of the first server, whose credentials the other nodes accept too.
    address: Option<WebSocket>,
    table: Mutex<NodeTable>,
    /// Notified when a search has ended.
    search_ended: Notify,
}

#[derive(Default)]
struct NodeTable {
    /// The threads that are not at the first server.
    threads: HashMap<Arc<str>, Arc<ConnectionState>>,
    /// The connections to nodes, by address.
    nodes: HashMap<String, Arc<ConnectionState>>,
    searches: HashMap<Arc<str>, OwnerSearch>,
    last_number: u64,
}

/// A thread whose node is lost or has changed, now or some time ago.
struct OwnerSearch {
    is_open: bool,
    /// The answers so far that did not lead to the thread.
    attempts: u32,
    since: Instant,
    last: Instant,
}

impl ThreadNodes {
    pub fn new(first: Arc<ConnectionState>, options: ClientBuilder, address: Option<WebSocket>) -> Self {
        Self { first, options, address, table: Mutex::default(), search_ended: Notify::new() }
    }

    /// Returns the connection that a thread is followed over.
    pub fn connection_of(&self, thread: &str) -> Arc<ConnectionState> {
        self.table.lock().threads.get(thread).unwrap_or(&self.first).clone()
    }

    /// Notes that a thread is at the node of a connection, unless it is known to be elsewhere.
    pub fn note_thread(&self, thread: &str, connection: &Arc<ConnectionState>) {
        if !connection.is_first() && !connection.is_lost() {
            self.table.lock().threads.entry(Arc::from(thread)).or_insert_with(|| connection.clone());
        }
    }

    pub fn is_searching(&self, thread: &str) -> bool {
        self.table.lock().searches.get(thread).is_some_and(|search| search.is_open)
    }

    /// Waits until a thread is not searched any more.
    pub async fn searched(&self, thread: &str) {
        loop {
            let mut ended = std::pin::pin!(self.search_ended.notified());
            ended.as_mut().enable();
            if !self.is_searching(thread) {
                return;
            }
            ended.await;
        }
    }

    pub fn end_search(&self, thread: &str) {
        if let Some(search) = self.table.lock().searches.get_mut(thread) {
            search.is_open = false;
        }
        self.search_ended.notify_waiters();
    }

    fn reconnect_options(&self) -> ReconnectOptions {
        self.options.reconnect.clone().unwrap_or_default()
    }

    /// Returns the delay before the next step of a search; `None` if it has taken too long.
    fn next_attempt(&self, thread: &Arc<str>) -> Option<Duration> {
        let options = self.reconnect_options();
        let mut table = self.table.lock();
        let search = table.begin_search(thread, options.stable_after);
        if search.since.elapsed() >= SEARCH_TIME {
            return None;
        }
        let delay = match search.attempts.checked_sub(1) {
            None => Duration::ZERO,
            Some(number) => backoff(options.first_delay, options.max_delay, number),
        };
        search.attempts += 1;
        Some(delay)
    }

    /// Returns the address of a node. Credentials are never sent in the clear if they were not before.
    fn address_of(&self, url: &str) -> Result<WebSocket, String> {
        let Some(first) = &self.address else { return Err("there are no credentials for it".to_owned()) };
        if first.url.starts_with("wss:") && !url.starts_with("wss:") {
            return Err("its address is not wss://, unlike that of the first server".to_owned());
        }
        Ok(WebSocket { url: url.to_owned(), headers: first.headers.clone() })
    }

    /// Returns the connection to a node. If there is none, it is being opened from now on.
    fn connection_to(
        &self,
        table: &mut NodeTable,
        shared: &Arc<ClientShared>,
        url: &str,
    ) -> Result<Arc<ConnectionState>, String> {
        if self.address.as_ref().is_some_and(|first| first.url == url) {
            return Ok(self.first.clone());
        }
        if let Some(connection) = table.nodes.get(url) {
            return Ok(connection.clone());
        }
        let address = self.address_of(url)?;
        let resilience = shared.resilience().ok_or("the client does not reconnect")?;
        let (outgoing, posted) = mpsc::channel(shared.limits.outgoing.max(1));
        table.last_number += 1;
        let closing = shared.closing.child_token();
        let connection = Arc::new(ConnectionState::node(table.last_number, outgoing, closing));
        let responder = RequestResponder::new(&self.options, shared.clone());
        let receiver = MessageReceiver::new(shared.clone(), connection.clone(), responder);
        let recovery = ConnectionRecovery::new(&self.options, address.into(), resilience.clone());
        let running = connection::run_node(recovery, posted, receiver, self.options.timeouts.close);
        shared.tasks.spawn(running).ok_or("the client has ended")?;
        table.nodes.insert(url.to_owned(), connection.clone());
        Ok(connection)
    }
}

impl NodeTable {
    /// Begins a search, or goes on with one that began lately.
    fn begin_search(&mut self, thread: &Arc<str>, stable_after: Duration) -> &mut OwnerSearch {
        let now = Instant::now();
        let new = || OwnerSearch { is_open: true, attempts: 0, since: now, last: now };
        let search = self.searches.entry(thread.clone()).or_insert_with(new);
        if !search.is_open && search.last.elapsed() >= stable_after {
            *search = new();
        }
        search.is_open = true;
        search.last = now;
        search
    }
}

impl ClientShared {
    /// Returns the connection for a request: that of the thread which it names, or the first one.
    pub fn connection_for(&self, message: &Bytes) -> Arc<ConnectionState> {
        let thread = self.resilience().filter(|resilience| !resilience.nodes.table.lock().threads.is_empty());
        let place = thread.and_then(|resilience| Some((resilience, thread_of(message)?)));
        place.map_or_else(
            || self.first.clone(),
            |(resilience, thread)| resilience.nodes.connection_of(&thread),
        )
    }

    /// Returns the thread of a request, if it is being searched.
    pub fn searched_thread(&self, message: &Bytes) -> Option<Arc<str>> {
        let nodes = &self.resilience()?.nodes;
        if nodes.table.lock().searches.is_empty() {
            return None;
        }
        thread_of(message).filter(|thread| nodes.is_searching(thread))
    }

    /// Waits until a thread is not searched any more.
    pub async fn searched(&self, thread: &str) {
        if let Some(resilience) = self.resilience() {
            resilience.nodes.searched(thread).await;
        }
    }

    /// Follows a thread that a call has subscribed to.
    pub fn note_subscribed(&self, thread: &str, result: &[u8], connection: &Arc<ConnectionState>) {
        #[derive(Deserialize)]
        struct SubscribedAt {
            /// Absent for a snapshot.
            from: Option<u64>,
            at: u64,
            /// Present for the scope `tree`.
            #[serde(default)]
            subagents: Option<Vec<SubagentPosition>>,
        }
        if let Some(resilience) = self.resilience()
            && let Ok(SubscribedAt { from, at, subagents }) = serde_json::from_slice(result)
        {
            let scope = if subagents.is_some() { SubscriptionScope::Tree } else { SubscriptionScope::Thread };
            resilience.subagents.note_subscribed(thread, &scope);
            for subagent in subagents.into_iter().flatten() {
                resilience.subagents.note_idle(&subagent.thread_id, subagent.at);
            }
            resilience.advance(ThreadPlace { thread, seq: from.unwrap_or(at) });
            resilience.nodes.note_thread(thread, connection);
        }
    }

    /// Follows a thread over the connection to a node from now on.
    pub fn move_thread(self: &Arc<Self>, thread: &Arc<str>, url: &str) -> Result<(), String> {
        let Some(resilience) = self.resilience() else { return Ok(()) };
        let nodes = &resilience.nodes;
        let position = resilience.position(thread);
        let before = {
            let mut table = nodes.table.lock();
            let connection = nodes.connection_to(&mut table, self, url)?;
            let before = table.threads.get(thread).unwrap_or(&nodes.first).clone();
            let is_searching = table.searches.get(thread).is_some_and(|search| search.is_open);
            if Arc::ptr_eq(&before, &connection) && !is_searching {
                return Ok(());
            }
            if position.is_some() {
                table.begin_search(thread, nodes.reconnect_options().stable_after);
            }
            if connection.is_first() {
                table.threads.remove(thread);
            } else {
                table.threads.insert(thread.clone(), connection);
            }
            before
        };
        tracing::info!(%thread, "the thread is at another node");
        if let Some(seq) = position {
            resilience.subscribe_again(ThreadPlace { thread, seq });
        }
        self.close_if_unused(&before);
        Ok(())
    }

    /// Goes on with the search of a thread whose subscription was refused, or gives it up.
    pub fn handle_refusal(self: &Arc<Self>, thread: &Arc<str>, error: &ErrorObject) {
        let moved = moved_thread(error);
        let can_go_on = moved.is_some() || is_temporary(error);
        let delay = self
            .resilience()
            .filter(|_| can_go_on)
            .and_then(|resilience| resilience.nodes.next_attempt(thread));
        let Some(delay) = delay else { return self.lose_thread(thread, &error.message) };
        let (shared, thread) = (self.clone(), thread.clone());
        self.tasks.spawn(async move {
            sleep(delay).await;
            match moved {
                Some(moved) => {
                    if let Err(reason) = shared.move_thread(&thread, &moved.url) {
                        shared.lose_thread(&thread, &reason);
                    }
                }
                None => shared.search_again(&thread),
            }
        });
    }

    fn search_again(&self, thread: &str) {
        if let Some(resilience) = self.resilience()
            && let Some(seq) = resilience.position(thread)
        {
            resilience.subscribe_again(ThreadPlace { thread, seq });
        }
    }

    /// Gives up the connection to a node that has ended, and searches its threads.
    pub fn lose_node(&self, connection: &Arc<ConnectionState>, reason: Disconnected) {
        connection.note_lost();
        let Some(resilience) = self.resilience().filter(|_| !self.closing.is_cancelled()) else { return };
        tracing::info!("the connection to a node has ended: {reason}");
        let lost = self.take_threads(resilience, connection);
        if !connection.closing.is_cancelled() {
            resilience.losses.fetch_add(1, Ordering::Relaxed);
        }
        self.requests.note_end(connection);
        self.pending.lose_node(connection, &Arc::new(reason));
        lost.iter().for_each(|thread| self.search_again(thread));
    }

    /// Gives the threads of a node to the first server. Returns those that are followed; they are searched now.
    fn take_threads(&self, resilience: &Resilience, connection: &Arc<ConnectionState>) -> Vec<Arc<str>> {
        let nodes = &resilience.nodes;
        let stable_after = nodes.reconnect_options().stable_after;
        let mut table = nodes.table.lock();
        table.nodes.retain(|_, node| !Arc::ptr_eq(node, connection));
        let lost = table.threads.extract_if(|_, node| Arc::ptr_eq(node, connection));
        let lost: Vec<_> =
            lost.map(|(thread, _)| thread).filter(|thread| resilience.position(thread).is_some()).collect();
        for thread in &lost {
            table.begin_search(thread, stable_after);
        }
        lost
    }

    /// Searches a thread that its server has given up while this client collects a turn of it. Returns false if there is no
    /// such turn.
    pub fn search_closed(&self, thread: &str) -> bool {
        let Some(resilience) = self.resilience() else { return false };
        if !self.routes.has_thread(thread) || resilience.position(thread).is_none() {
            return false;
        }
        let nodes = &resilience.nodes;
        let stable_after = nodes.reconnect_options().stable_after;
        let mut table = nodes.table.lock();
        let before = table.threads.remove(thread);
        table.begin_search(&Arc::from(thread), stable_after);
        drop(table);
        self.search_again(thread);
        if let Some(before) = before {
            self.close_if_unused(&before);
        }
        true
    }

    /// Closes the connection to a node without threads and calls.
    pub fn close_if_unused(&self, connection: &Arc<ConnectionState>) {
        let Some(resilience) = self.resilience().filter(|_| !connection.is_first()) else { return };
        let mut table = resilience.nodes.table.lock();
        let is_followed = |(thread, node): (&Arc<str>, &Arc<ConnectionState>)| {
            Arc::ptr_eq(node, connection) && resilience.position(thread).is_some()
        };
        if self.pending.has_calls_of(connection) || table.threads.iter().any(is_followed) {
            return;
        }
        table.nodes.retain(|_, node| !Arc::ptr_eq(node, connection));
        table.threads.retain(|_, node| !Arc::ptr_eq(node, connection));
        connection.closing.cancel();
    }

    /// Stops following a thread that its server has unloaded.
    pub fn end_thread(&self, thread: &str) {
        if let Some(resilience) = self.resilience()
            && let Some(position) = resilience.position(thread)
        {
            resilience.subagents.note_ended(thread, position);
        }
        self.forget_thread(thread);
    }

    /// Stops following a thread.
    pub fn forget_thread(&self, thread: &str) {
        let Some(resilience) = self.resilience() else { return };
        resilience.forget(thread);
        let mut table = resilience.nodes.table.lock();
        let before = table.threads.remove(thread);
        let had_search = table.searches.remove(thread).is_some();
        drop(table);
        if had_search {
            resilience.nodes.search_ended.notify_waiters();
        }
        if let Some(before) = before {
            self.close_if_unused(&before);
        }
    }

    /// Ends the turns of a thread that no server knows any more.
    pub fn lose_thread(&self, thread: &str, reason: &str) {
        tracing::warn!(thread, "cannot follow the thread any more: {reason}");
        self.forget_thread(thread);
        self.requests.end_search(thread);
        let cause = DisconnectCause::Failed(format!("thread {thread} cannot be followed: {reason}"));
        let reason = Arc::new(Disconnected { cause, stderr_tail: String::new() });
        self.routes.lose_thread(thread, &reason);
    }
}

/// Returns where the thread of a request is, if the error says so.
pub(crate) fn moved_thread(error: &ErrorObject) -> Option<CodicilMovedThread> {
    let moved = error.data.as_ref()?.get("codicil")?;
    let moved: CodicilMovedThread = serde_json::from_value(moved.clone()).ok()?;
    Some(moved).filter(|moved| moved.code == CodicilMovedThread::CODE)
}

/// Returns whether a request can be repeated later, with the same server.
fn is_temporary(error: &ErrorObject) -> bool {
    let code = error.data.as_ref().and_then(|data| data.pointer("/codicil/code")).and_then(Value::as_str);
    error.code == codes::OVERLOADED || matches!(code, Some("storeUnavailable" | "threadClosed"))
}

/// Returns the thread that a request names.
pub(crate) fn thread_of(message: &Bytes) -> Option<Arc<str>> {
    #[derive(Deserialize)]
    struct RequestMembers<'a> {
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    let request: RequestMembers<'_> = serde_json::from_slice(message).ok()?;
    MessageIds::of(request.params).thread.map(Arc::from)
}

impl fmt::Debug for ThreadNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.lock();
        f.debug_struct("ThreadNodes")
            .field("threads", &table.threads.len())
            .field("nodes", &table.nodes.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_are_not_sent_in_the_clear() {
        let check = |first: &str, node: &str, is_followed: bool| {
            let (outgoing, _) = mpsc::channel(1);
            let state = Arc::new(ConnectionState::first(outgoing, Default::default()));
            let address = WebSocket::new(first).bearer("s3cret");
            let nodes = ThreadNodes::new(state, ClientBuilder::default(), Some(address));
            let address = nodes.address_of(node);
            assert_eq!(address.is_ok(), is_followed, "{first} to {node}");
            assert!(address.is_err() || address.is_ok_and(|address| address.headers.len() == 1));
        };
        check("ws://a:1", "ws://b:1", true);
        check("ws://a:1", "wss://b:1", true);
        check("wss://a:1", "wss://b:1", true);
        check("wss://a:1", "ws://b:1", false);
    }

    #[test]
    fn only_the_code_moved_leads_to_another_node() {
        let check = |data: Value, expected: Option<&str>| {
            let error = ErrorObject { code: -32600, message: String::new(), data: Some(data.clone()) };
            assert_eq!(moved_thread(&error).map(|moved| moved.url).as_deref(), expected, "{data}");
        };
        check(json!({ "codicil": { "code": "moved", "node": "a", "url": "ws://a:1" } }), Some("ws://a:1"));
        check(json!({ "codicil": { "code": "ownedByNode", "node": "a", "url": "ws://a:1" } }), None);
        check(json!({ "codicil": { "code": "moved", "node": "a" } }), None);
        check(json!({ "reason": "moved" }), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_search_waits_longer_and_longer_and_ends() {
        let nodes = Resilience::alone().nodes;
        let thread = Arc::from("t");
        let began = Instant::now();
        let mut attempts = 0;
        while let Some(delay) = nodes.next_attempt(&thread) {
            assert_eq!(delay.is_zero(), attempts == 0);
            assert!(delay <= ReconnectOptions::default().max_delay);
            sleep(delay).await;
            attempts += 1;
        }
        assert!(began.elapsed() >= SEARCH_TIME && (60..200).contains(&attempts), "{attempts}");
        // The next search begins anew.
        nodes.end_search("t");
        sleep(ReconnectOptions::default().stable_after).await;
        assert_eq!(nodes.next_attempt(&thread), Some(Duration::ZERO));
    }
}
