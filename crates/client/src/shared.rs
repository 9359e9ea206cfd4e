//! What a connection's task and its client handles share.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use crate::{
    error::{DisconnectCause, Disconnected},
    events::EventReaders,
    options::ClientLimits,
    pending::PendingCalls,
    routes::TurnRoutes,
};

#[derive(Debug)]
pub struct ClientShared {
    pub pending: Arc<PendingCalls>,
    pub routes: TurnRoutes,
    pub readers: EventReaders,
    pub limits: ClientLimits,
    pub naming: ThreadNaming,
    /// Cancelled when this client wants the connection to end.
    pub closing: CancellationToken,
    /// How it ended.
    pub ended: SetOnce<Arc<Disconnected>>,
}

/// Whether the server says which thread its notifications are about, as far as they have come.
#[derive(Debug, Default)]
pub struct ThreadNaming(AtomicU8);

impl ThreadNaming {
    const YES: u8 = 1;
    const NO: u8 = 2;

    /// Notes a notification. One without ids is enough: whoever relies on them would lose it.
    pub fn note(&self, method: &str, thread: Option<&str>) {
        if method.starts_with("item/") || method.starts_with("turn/") {
            let seen = if thread.is_some() { Self::YES } else { Self::NO };
            // Hot path: it changes once or twice in the life of a connection.
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
    pub fn new(limits: ClientLimits) -> Self {
        Self {
            pending: Arc::default(),
            routes: TurnRoutes::default(),
            readers: EventReaders::default(),
            limits,
            naming: ThreadNaming::default(),
            closing: CancellationToken::new(),
            ended: SetOnce::new(),
        }
    }

    /// The connection is over: tells everyone who waits for anything.
    pub fn end(&self, cause: DisconnectCause, stderr_tail: String) {
        let ended = Arc::new(Disconnected { cause, stderr_tail });
        if self.ended.set(ended.clone()).is_err() {
            return;
        }
        self.pending.end(&ended);
        self.routes.end_all(&ended);
        self.readers.finish();
    }
}
