//! A request that waits for its response.
//!
//! The wait ends with a response, a timeout, a cancellation, a dropped future or the end of the server. Without a
//! response the server is sent a cancellation, and the call is removed from the registry in every case.

use std::{future::pending, sync::Arc, time::Duration};

use rmcp::{
    Peer, RoleClient,
    model::{CancelledNotificationParam, ProgressToken, RequestId, ServerResult},
    service::{RequestHandle, ServiceError},
};
use serde_json::{Value, json};
use tokio::{
    sync::{oneshot, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    call::CallError,
    call_registry::{CallRegistry, CallWatch},
    connection::response,
};

pub(crate) struct PendingCall {
    response: oneshot::Receiver<Result<ServerResult, ServiceError>>,
    watch: Option<Arc<CallWatch>>,
    registry: Arc<CallRegistry>,
    guard: CancelGuard,
}

enum CallEvent {
    Response(Result<Result<ServerResult, ServiceError>, oneshot::error::RecvError>),
    Closed,
    Cancelled,
    /// The number of open elicitation requests has changed.
    QuestionsChanged,
    TimedOut,
}

impl PendingCall {
    pub(crate) fn new(handle: RequestHandle<RoleClient>, registry: Arc<CallRegistry>) -> PendingCall {
        let guard = CancelGuard {
            peer: handle.peer,
            registry: registry.clone(),
            token: handle.progress_token,
            unanswered: Some(handle.id),
        };
        PendingCall { response: handle.rx, watch: None, registry, guard }
    }

    /// Pauses the timeout during elicitation requests, and ends those requests together with the wait.
    pub(crate) fn watched(mut self, watch: Arc<CallWatch>) -> PendingCall {
        self.watch = Some(watch);
        self
    }

    pub(crate) async fn result(
        mut self,
        within: Duration,
        cancel: &CancellationToken,
    ) -> Result<Value, CallError> {
        let end_questions = self.watch.as_ref().map(|watch| watch.ended.clone().drop_guard());
        let mut open_questions = self.watch.as_ref().map(|watch| watch.open_questions.subscribe());
        let mut clock = CallClock::new(within);
        let result = loop {
            match self.next_event(&clock, &mut open_questions, cancel).await {
                CallEvent::Response(Ok(received)) => {
                    self.guard.unanswered = None;
                    break response(received, &self.registry);
                }
                CallEvent::Response(Err(_)) | CallEvent::Closed => {
                    self.guard.unanswered = None;
                    break Err(CallError::Closed(self.registry.close_reason()));
                }
                CallEvent::Cancelled => break Err(CallError::Cancelled),
                CallEvent::QuestionsChanged => {
                    if open_questions.as_ref().is_some_and(|open| *open.borrow() > 0) {
                        clock.pause();
                    } else {
                        clock.resume();
                    }
                }
                CallEvent::TimedOut => break Err(CallError::TimedOut(within)),
            }
        };
        drop(end_questions);
        result
    }

    async fn next_event(
        &mut self,
        clock: &CallClock,
        open_questions: &mut Option<watch::Receiver<usize>>,
        cancel: &CancellationToken,
    ) -> CallEvent {
        tokio::select! {
            biased;
            response = &mut self.response => CallEvent::Response(response),
            () = self.registry.closed.cancelled() => CallEvent::Closed,
            () = cancel.cancelled() => CallEvent::Cancelled,
            () = changed(open_questions) => CallEvent::QuestionsChanged,
            () = clock.expired() => CallEvent::TimedOut,
        }
    }
}

async fn changed(open_questions: &mut Option<watch::Receiver<usize>>) {
    let has_changed = match open_questions {
        Some(open) => open.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        pending().await
    }
}

/// The timeout of a call, which is paused while an elicitation request is open.
enum CallClock {
    Running { until: Instant },
    Paused { remaining: Duration },
}

impl CallClock {
    fn new(within: Duration) -> CallClock {
        let now = Instant::now();
        match now.checked_add(within) {
            Some(until) => CallClock::Running { until },
            // Too far in the future to be represented: it never expires.
            None => CallClock::Paused { remaining: within },
        }
    }

    fn pause(&mut self) {
        if let CallClock::Running { until } = *self {
            *self = CallClock::Paused { remaining: until.saturating_duration_since(Instant::now()) };
        }
    }

    fn resume(&mut self) {
        if let CallClock::Paused { remaining } = *self {
            *self = CallClock::new(remaining);
        }
    }

    async fn expired(&self) {
        match self {
            CallClock::Running { until } => sleep_until(*until).await,
            CallClock::Paused { .. } => pending().await,
        }
    }
}

/// Sends a cancellation on drop, unless the server has responded.
struct CancelGuard {
    peer: Peer<RoleClient>,
    registry: Arc<CallRegistry>,
    token: ProgressToken,
    unanswered: Option<RequestId>,
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.registry.unregister(&self.token);
        let Some(id) = self.unanswered.take() else { return };
        let (Ok(param), Ok(runtime)) = (cancelled(&id), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let peer = self.peer.clone();
        let closed = self.registry.closed.clone();
        // The task needs no owner: it ends when the message is sent or the connection closes.
        runtime.spawn(async move {
            tokio::select! {
                _ = peer.notify_cancelled(param) => {}
                () = closed.cancelled() => {}
            }
        });
    }
}

fn cancelled(id: &RequestId) -> Result<CancelledNotificationParam, serde_json::Error> {
    serde_json::from_value(json!({ "requestId": id, "reason": "the answer is no longer needed" }))
}
