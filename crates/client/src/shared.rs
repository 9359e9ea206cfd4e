//! State shared by the tasks of connections and their client handles.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use codicil_protocol::{Frame, InitializeResponse, Method};
use parking_lot::Mutex;
use tokio::{
    sync::SetOnce,
    task::{AbortHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::{
    connection_state::ConnectionState,
    error::{DisconnectCause, Disconnected},
    events::{EventQueue, EventReaders, EventStream},
    open_edits::OpenEdits,
    open_requests::OpenRequests,
    options::ClientLimits,
    pending::PendingCalls,
    resilient::Resilience,
    routes::TurnRoutes,
};

#[derive(Debug)]
pub struct ClientShared {
    pub pending: Arc<PendingCalls>,
    pub routes: TurnRoutes,
    pub readers: EventReaders,
    pub limits: ClientLimits,
    pub naming: ThreadNaming,
    /// The server requests of all connections.
    pub requests: OpenRequests,
    pub edits: Mutex<OpenEdits>,
    /// What runs beside the first connection: answers to server requests, and connections to nodes.
    pub tasks: ClientTasks,
    /// The connection to the server that the client was made for.
    pub first: Arc<ConnectionState>,
    /// Set for a client that reconnects if the server has the extension.
    resilience: Option<Arc<Resilience>>,
    /// Cancelled when this client closes the connection.
    pub closing: CancellationToken,
    /// Set after the handshake.
    pub server: SetOnce<InitializeResponse>,
    /// Set when the connection has ended.
    pub disconnected: SetOnce<Arc<Disconnected>>,
}

/// Whether the server's notifications name their threads, as seen so far.
#[derive(Debug, Default)]
pub struct ThreadNaming(AtomicU8);

impl ThreadNaming {
    const YES: u8 = 1;
    const NO: u8 = 2;

    /// Records a notification. A single one without ids decides: a reader that relies on ids would lose it.
    pub fn record(&self, method: &str, thread: Option<&str>) {
        if method.starts_with("item/") || method.starts_with("turn/") {
            let seen = if thread.is_some() { Self::YES } else { Self::NO };
            // Checked first because this is a hot path: the value changes once or twice during a connection.
            if self.0.load(Ordering::Relaxed) < seen {
                self.0.fetch_max(seen, Ordering::Relaxed);
            }
        }
    }

    pub fn get(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            seen => Some(seen == Self::YES),
        }
    }
}

impl ClientShared {
    pub fn new(
        limits: ClientLimits,
        first: Arc<ConnectionState>,
        resilience: Option<Arc<Resilience>>,
    ) -> Self {
        Self {
            pending: Arc::default(),
            routes: TurnRoutes::default(),
            readers: EventReaders::default(),
            limits,
            naming: ThreadNaming::default(),
            requests: OpenRequests::default(),
            edits: Mutex::default(),
            tasks: ClientTasks::default(),
            resilience,
            closing: first.closing.clone(),
            first,
            server: SetOnce::new(),
            disconnected: SetOnce::new(),
        }
    }

    /// Returns the state of a client that reconnects; `None` if it does not, or the server has no extension `codicil`.
    pub fn resilience(&self) -> Option<&Arc<Resilience>> {
        let has_extension = self.server.get().is_some_and(|server| server.codicil.is_some());
        self.resilience.as_ref().filter(|_| has_extension)
    }

    /// Returns the number of connections that were lost, of a client that reconnects.
    pub fn losses(&self) -> u64 {
        self.resilience().map_or(0, |resilience| resilience.losses.load(Ordering::Relaxed))
    }

    /// Returns a queue for a reader.
    pub fn new_queue(&self) -> (Arc<EventQueue>, EventStream) {
        EventQueue::new(&self.limits, self.resilience.clone())
    }

    /// Sends a request and ignores its response. The request is dropped if the outgoing queue is full.
    pub fn send_and_forget<M: Method>(&self, params: &M::Params) {
        let call = self.pending.open();
        let message = Frame::request::<M>(&call.id(), params).bytes().clone();
        if self.connection_for(&message).queue(message).is_some() {
            tracing::debug!(method = M::NAME, "request not sent: the queue is full");
        }
    }

    /// Ends the client's calls, turns, event streams and tasks.
    pub fn end(&self, cause: DisconnectCause, stderr_tail: String) {
        let reason = Arc::new(Disconnected { cause, stderr_tail });
        if self.disconnected.set(reason.clone()).is_err() {
            return;
        }
        self.pending.end_all(&reason);
        self.routes.end_all(&reason);
        self.readers.finish();
        self.tasks.end();
    }
}

/// The tasks of a client. They end with it.
#[derive(Debug)]
pub struct ClientTasks(Mutex<Option<JoinSet<()>>>);

impl Default for ClientTasks {
    fn default() -> Self {
        Self(Mutex::new(Some(JoinSet::new())))
    }
}

impl ClientTasks {
    /// Starts a task. Returns `None` if the client has ended.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Option<AbortHandle> {
        let mut tasks = self.0.lock();
        let tasks = tasks.as_mut()?;
        while tasks.try_join_next().is_some() {}
        Some(tasks.spawn(task))
    }

    fn end(&self) {
        // Not dropped under the lock.
        let tasks = self.0.lock().take();
        drop(tasks);
    }
}
