//! State shared by a connection's task and its client handles.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use codicil_protocol::InitializeResponse;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use crate::{
    error::{DisconnectCause, Disconnected},
    events::{EventQueue, EventReaders, EventStream},
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
    pub fn new(limits: ClientLimits, resilience: Option<Arc<Resilience>>) -> Self {
        Self {
            pending: Arc::default(),
            routes: TurnRoutes::default(),
            readers: EventReaders::default(),
            limits,
            naming: ThreadNaming::default(),
            resilience,
            closing: CancellationToken::new(),
            server: SetOnce::new(),
            disconnected: SetOnce::new(),
        }
    }

    /// Returns the state of a client that reconnects; `None` if it does not, or the server has no extension `codicil`.
    pub fn resilience(&self) -> Option<&Arc<Resilience>> {
        let has_extension = self.server.get().is_some_and(|server| server.codicil.is_some());
        self.resilience.as_ref().filter(|_| has_extension)
    }

    /// Returns a queue for a reader.
    pub fn new_queue(&self) -> (Arc<EventQueue>, EventStream) {
        EventQueue::new(&self.limits, self.resilience.clone())
    }

    /// Ends the connection's calls, turns and event streams.
    pub fn end(&self, cause: DisconnectCause, stderr_tail: String) {
        let reason = Arc::new(Disconnected { cause, stderr_tail });
        if self.disconnected.set(reason.clone()).is_err() {
            return;
        }
        self.pending.end_all(&reason);
        self.routes.end_all(&reason);
        self.readers.finish();
    }
}
