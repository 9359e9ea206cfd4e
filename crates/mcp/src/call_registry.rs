//! What a connection keeps about the calls that are under way: who is told of their progress, who answers
//! the server's questions, and how the connection ended.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    call::{ProgressSink, ToolProgress},
    elicitation::Elicitor,
    limits::OPEN_QUESTIONS,
};

pub(crate) struct CallRegistry {
    pub(crate) server: String,
    /// By the token that progress comes with. Those who have ended may still be here for a while.
    calls: Mutex<HashMap<ProgressToken, Weak<CallWatch>>>,
    pub(crate) questions: Semaphore,
    tools_changed: AtomicBool,
    /// Set when nothing can come any more.
    pub(crate) closed: CancellationToken,
    /// Set when the transport, and with it the process, is gone.
    pub(crate) gone: CancellationToken,
    ending: OnceLock<String>,
}

/// One call under way, kept alive by whoever waits for it.
pub(crate) struct CallWatch {
    pub(crate) progress: Option<ProgressSink>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
    /// How many questions to a person are open; the clock stands still meanwhile.
    pub(crate) asking: watch::Sender<usize>,
    /// Cancelled when nobody waits for the call any more.
    pub(crate) over: CancellationToken,
    request: OnceLock<RequestId>,
}

/// In the extensions of a request: has the transport enter the call before the message leaves.
#[derive(Clone)]
pub(crate) struct WatchedRequest(pub(crate) Weak<CallWatch>);

/// Whose question it is.
pub(crate) enum AskedBy {
    Call(Arc<CallWatch>),
    Nobody,
    /// Calls of several askers are under way, and the question does not say which it belongs to.
    Unclear,
}

impl CallWatch {
    pub(crate) fn new(progress: Option<ProgressSink>, elicitor: Option<Arc<dyn Elicitor>>) -> Arc<CallWatch> {
        Arc::new(CallWatch {
            progress,
            elicitor,
            asking: watch::Sender::new(0),
            over: CancellationToken::new(),
            request: OnceLock::new(),
        })
    }

    /// Requests are numbered in the order in which they were made.
    fn number(&self) -> i64 {
        match self.request.get() {
            Some(RequestId::Number(number)) => *number,
            _ => 0,
        }
    }

    fn has_asker_of(&self, other: &CallWatch) -> bool {
        match (&self.elicitor, &other.elicitor) {
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            (None, None) => true,
            _ => false,
        }
    }
}

impl CallRegistry {
    pub(crate) fn new(server: &str) -> Arc<CallRegistry> {
        Arc::new(CallRegistry {
            server: server.to_owned(),
            calls: Mutex::default(),
            questions: Semaphore::new(OPEN_QUESTIONS),
            tools_changed: AtomicBool::new(false),
            closed: CancellationToken::new(),
            gone: CancellationToken::new(),
            ending: OnceLock::new(),
        })
    }

    /// Enters a call whose message is about to leave.
    pub(crate) fn enter(&self, token: ProgressToken, id: RequestId, watch: &Weak<CallWatch>) {
        let Some(call) = watch.upgrade() else { return };
        let _ = call.request.set(id);
        let mut calls = self.calls();
        calls.retain(|_, watch| watch.strong_count() > 0);
        calls.insert(token, watch.clone());
    }

    /// Forgets a call; its progress is dropped from now on.
    pub(crate) fn leave(&self, token: &ProgressToken) {
        self.calls().remove(token);
    }

    /// Hands progress to whoever called, if that one still waits.
    pub(crate) fn progress(&self, report: ProgressNotificationParam) {
        let call = self.calls().get(&report.progress_token).and_then(Weak::upgrade);
        if let Some(progress) = call.as_ref().and_then(|call| call.progress.as_ref()) {
            progress(ToolProgress::of(report));
        }
    }

    /// Who is to answer a question. HTTP tells which request it came with; by pipes nothing does.
    pub(crate) fn asked(&self, request: Option<&RequestId>) -> AskedBy {
        let calls: Vec<Arc<CallWatch>> = self.calls().values().filter_map(Weak::upgrade).collect();
        if let Some(id) = request {
            let call = calls.into_iter().find(|call| call.request.get() == Some(id));
            return call.map_or(AskedBy::Nobody, AskedBy::Call);
        }
        let Some(latest) = calls.iter().max_by_key(|call| call.number()).cloned() else {
            return AskedBy::Nobody;
        };
        // Guessing would show one person's question to another.
        if calls.iter().all(|call| call.has_asker_of(&latest)) {
            AskedBy::Call(latest)
        } else {
            AskedBy::Unclear
        }
    }

    pub(crate) fn note_tools_changed(&self) {
        self.tools_changed.store(true, Ordering::Relaxed);
    }

    /// Whether the list of tools has changed since this was last asked.
    pub(crate) fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::Relaxed)
    }

    /// Notes why nothing can come any more; the first reason stays.
    pub(crate) fn ended(&self, reason: impl Into<String>) {
        let _ = self.ending.set(reason.into());
        self.closed.cancel();
    }

    pub(crate) fn ending(&self) -> String {
        self.ending.get().cloned().unwrap_or_else(|| "the connection was closed".to_owned())
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, Weak<CallWatch>>> {
        self.calls.lock()
    }
}
