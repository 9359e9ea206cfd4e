//! The active calls of a connection, for progress and elicitation requests, and the reason why the connection closed.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use rmcp::model::{ProgressNotificationParam, ProgressToken, RequestId};
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::{
    call::{ProgressSink, ToolProgress},
    elicitation::Elicitor,
    limits::OPEN_QUESTIONS,
    stdio::StderrTail,
};

pub(crate) struct CallRegistry {
    pub(crate) server: String,
    /// By progress token. Entries of ended calls are removed with the next registration.
    calls: Mutex<HashMap<ProgressToken, Weak<CallWatch>>>,
    /// Limits the open elicitation requests.
    pub(crate) questions: Semaphore,
    /// Pages that users were asked to open, by elicitation id. Cancelled when the server reports the end of a page's
    /// interaction.
    pages: Mutex<HashMap<String, CancellationToken>>,
    tools_changed: AtomicBool,
    /// Cancelled when the connection can deliver no more messages.
    pub(crate) closed: CancellationToken,
    /// Cancelled when the transport, and with it the process, has ended.
    pub(crate) transport_closed: CancellationToken,
    close_reason: OnceLock<String>,
    /// The end of the standard error of a server that is a process.
    pub(crate) stderr: StderrTail,
}

/// An active call, kept alive by the caller that waits for it.
pub(crate) struct CallWatch {
    pub(crate) progress: Option<ProgressSink>,
    pub(crate) elicitor: Option<Arc<dyn Elicitor>>,
    /// Number of open elicitation requests. The call's timeout is paused while it is not 0.
    pub(crate) open_questions: watch::Sender<usize>,
    /// Cancelled when the caller no longer waits.
    pub(crate) ended: CancellationToken,
    request: OnceLock<RequestId>,
}

/// Extension of a request: makes the transport register the call before it sends the message.
#[derive(Clone)]
pub(crate) struct WatchedRequest(pub(crate) Weak<CallWatch>);

/// The call to which an elicitation request belongs.
pub(crate) enum AskedBy {
    Call(Arc<CallWatch>),
    NoCall,
    /// Calls with different elicitors are active, and the request does not name one.
    Ambiguous,
}

/// A page that the user was asked to open. Dropping it ends the wait.
pub(crate) struct PageWatch<'a> {
    registry: &'a CallRegistry,
    elicitation_id: String,
    completed: CancellationToken,
}

impl PageWatch<'_> {
    /// Waits until the server reports the end of the interaction.
    pub(crate) async fn completed(&self) {
        self.completed.cancelled().await;
    }
}

impl Drop for PageWatch<'_> {
    fn drop(&mut self) {
        self.registry.pages.lock().remove(&self.elicitation_id);
    }
}

impl CallWatch {
    pub(crate) fn new(progress: Option<ProgressSink>, elicitor: Option<Arc<dyn Elicitor>>) -> Arc<CallWatch> {
        Arc::new(CallWatch {
            progress,
            elicitor,
            open_questions: watch::Sender::new(0),
            ended: CancellationToken::new(),
            request: OnceLock::new(),
        })
    }

    /// Returns the request id. Ids increase in the order of the requests.
    fn number(&self) -> i64 {
        match self.request.get() {
            Some(RequestId::Number(number)) => *number,
            _ => 0,
        }
    }

    fn has_same_elicitor(&self, other: &CallWatch) -> bool {
        match (&self.elicitor, &other.elicitor) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
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
            pages: Mutex::default(),
            tools_changed: AtomicBool::new(false),
            closed: CancellationToken::new(),
            transport_closed: CancellationToken::new(),
            close_reason: OnceLock::new(),
            stderr: StderrTail::default(),
        })
    }

    /// Adds a call whose message is about to be sent.
    pub(crate) fn register(&self, token: ProgressToken, id: RequestId, watch: &Weak<CallWatch>) {
        let Some(call) = watch.upgrade() else { return };
        let _ = call.request.set(id);
        let mut calls = self.calls.lock();
        calls.retain(|_, watch| watch.strong_count() > 0);
        calls.insert(token, watch.clone());
    }

    /// Removes a call. Later progress for it is dropped.
    pub(crate) fn unregister(&self, token: &ProgressToken) {
        self.calls.lock().remove(token);
    }

    /// Passes progress to the caller, if it still waits.
    pub(crate) fn report_progress(&self, report: ProgressNotificationParam) {
        let call = self.calls.lock().get(&report.progress_token).and_then(Weak::upgrade);
        if let Some(progress) = call.as_ref().and_then(|call| call.progress.as_ref()) {
            progress(ToolProgress::of(report));
        }
    }

    /// Finds the call to which an elicitation request belongs. HTTP names the call's request; stdio does not.
    pub(crate) fn find_asking_call(&self, request: Option<&RequestId>) -> AskedBy {
        let calls: Vec<Arc<CallWatch>> = self.calls.lock().values().filter_map(Weak::upgrade).collect();
        if let Some(id) = request {
            let call = calls.into_iter().find(|call| call.request.get() == Some(id));
            return call.map_or(AskedBy::NoCall, AskedBy::Call);
        }
        let Some(latest) = calls.iter().max_by_key(|call| call.number()).cloned() else {
            return AskedBy::NoCall;
        };
        // A guess could show the request to the user of another thread.
        if calls.iter().all(|call| call.has_same_elicitor(&latest)) {
            AskedBy::Call(latest)
        } else {
            AskedBy::Ambiguous
        }
    }

    /// Begins to wait for the end of a page's interaction.
    pub(crate) fn watch_page(&self, elicitation_id: &str) -> PageWatch<'_> {
        let completed = CancellationToken::new();
        self.pages.lock().insert(elicitation_id.to_owned(), completed.clone());
        PageWatch { registry: self, elicitation_id: elicitation_id.to_owned(), completed }
    }

    /// Handles `notifications/elicitation/complete`. Unknown ids are ignored.
    pub(crate) fn complete_page(&self, elicitation_id: &str) {
        if let Some(completed) = self.pages.lock().get(elicitation_id) {
            completed.cancel();
        }
    }

    pub(crate) fn note_tools_changed(&self) {
        self.tools_changed.store(true, Ordering::Relaxed);
    }

    /// Returns whether the list of tools has changed since the last call of this function.
    pub(crate) fn take_tools_changed(&self) -> bool {
        self.tools_changed.swap(false, Ordering::Relaxed)
    }

    /// Marks the connection as closed. The first reason is kept.
    pub(crate) fn close(&self, reason: impl Into<String>) {
        let _ = self.close_reason.set(reason.into());
        self.closed.cancel();
    }

    pub(crate) fn close_reason(&self) -> String {
        self.close_reason.get().cloned().unwrap_or_else(|| "the connection was closed".to_owned())
    }
}
