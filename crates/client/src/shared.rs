//! What a connection's task and its client handles share.

use std::sync::Arc;

use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;

use crate::{
    error::{Cause, Ended},
    events::Readers,
    options::Limits,
    pending::Pending,
    routes::Routes,
};

#[derive(Debug)]
pub struct Shared {
    pub pending: Arc<Pending>,
    pub routes: Routes,
    pub readers: Readers,
    pub limits: Limits,
    /// Cancelled when this client wants the connection to end.
    pub closing: CancellationToken,
    /// How it ended.
    pub ended: SetOnce<Arc<Ended>>,
}

impl Shared {
    pub fn new(limits: Limits) -> Self {
        Self {
            pending: Arc::default(),
            routes: Routes::default(),
            readers: Readers::default(),
            limits,
            closing: CancellationToken::new(),
            ended: SetOnce::new(),
        }
    }

    /// The connection is over: tells everyone who waits for anything.
    pub fn end(&self, cause: Cause, stderr_tail: String) {
        let ended = Arc::new(Ended { cause, stderr_tail });
        if self.ended.set(ended.clone()).is_err() {
            return;
        }
        self.pending.end(&ended);
        self.routes.end_all(&ended);
        self.readers.finish();
    }
}
