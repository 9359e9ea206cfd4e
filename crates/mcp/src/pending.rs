//! A request that waits for its answer. Whatever ends the wait (an answer, the clock, a person, a dropped
//! future, the server's death), the server is told when it works in vain, and nothing is left behind.

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
    connection::response,
    switchboard::{CallRegistry, CallWatch},
};

pub(crate) struct PendingCall {
    answer: oneshot::Receiver<Result<ServerResult, ServiceError>>,
    watch: Option<Arc<CallWatch>>,
    board: Arc<CallRegistry>,
    guard: CancelGuard,
}

enum CallEvent {
    Answer(Result<Result<ServerResult, ServiceError>, oneshot::error::RecvError>),
    Closed,
    Cancelled,
    /// The number of open questions has changed.
    Asking,
    TimedOut,
}

impl PendingCall {
    pub(crate) fn new(handle: RequestHandle<RoleClient>, board: Arc<CallRegistry>) -> PendingCall {
        let guard = CancelGuard {
            peer: handle.peer,
            board: board.clone(),
            token: handle.progress_token,
            unanswered: Some(handle.id),
        };
        PendingCall { answer: handle.rx, watch: None, board, guard }
    }

    /// Has a person's time not count, and ends questions together with the wait.
    pub(crate) fn watched(mut self, watch: Arc<CallWatch>) -> PendingCall {
        self.watch = Some(watch);
        self
    }

    pub(crate) async fn result(
        mut self,
        within: Duration,
        cancel: &CancellationToken,
    ) -> Result<Value, CallError> {
        let over = self.watch.as_ref().map(|watch| watch.over.clone().drop_guard());
        let mut asking = self.watch.as_ref().map(|watch| watch.asking.subscribe());
        let mut clock = CallClock::new(within);
        let result = loop {
            match self.event(&clock, &mut asking, cancel).await {
                CallEvent::Answer(Ok(answer)) => {
                    self.guard.unanswered = None;
                    break response(answer, &self.board);
                }
                CallEvent::Answer(Err(_)) | CallEvent::Closed => {
                    self.guard.unanswered = None;
                    break Err(CallError::Closed(self.board.ending()));
                }
                CallEvent::Cancelled => break Err(CallError::Cancelled),
                CallEvent::Asking => clock.turn(asking.as_ref().is_some_and(|asking| *asking.borrow() > 0)),
                CallEvent::TimedOut => break Err(CallError::TimedOut(within)),
            }
        };
        drop(over);
        result
    }

    async fn event(
        &mut self,
        clock: &CallClock,
        asking: &mut Option<watch::Receiver<usize>>,
        cancel: &CancellationToken,
    ) -> CallEvent {
        tokio::select! {
            biased;
            answer = &mut self.answer => CallEvent::Answer(answer),
            () = self.board.closed.cancelled() => CallEvent::Closed,
            () = cancel.cancelled() => CallEvent::Cancelled,
            () = changed(asking) => CallEvent::Asking,
            () = clock.over() => CallEvent::TimedOut,
        }
    }
}

async fn changed(asking: &mut Option<watch::Receiver<usize>>) {
    let changed = match asking {
        Some(asking) => asking.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        pending().await
    }
}

/// The time that is left, which stands still while a person is asked.
enum CallClock {
    Runs { until: Instant },
    Stands { left: Duration },
}

impl CallClock {
    fn new(within: Duration) -> CallClock {
        let now = Instant::now();
        match now.checked_add(within) {
            Some(until) => CallClock::Runs { until },
            None => CallClock::Stands { left: within },
        }
    }

    fn turn(&mut self, asking: bool) {
        let now = Instant::now();
        *self = match *self {
            CallClock::Runs { until } if asking => {
                CallClock::Stands { left: until.saturating_duration_since(now) }
            }
            CallClock::Stands { left } if !asking => CallClock::new(left),
            CallClock::Runs { until } => CallClock::Runs { until },
            CallClock::Stands { left } => CallClock::Stands { left },
        };
    }

    async fn over(&self) {
        match self {
            CallClock::Runs { until } => sleep_until(*until).await,
            CallClock::Stands { .. } => pending().await,
        }
    }
}

/// Tells the server that nobody waits, unless it has answered.
struct CancelGuard {
    peer: Peer<RoleClient>,
    board: Arc<CallRegistry>,
    token: ProgressToken,
    unanswered: Option<RequestId>,
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        self.board.leave(&self.token);
        let Some(id) = self.unanswered.take() else { return };
        let (Ok(param), Ok(runtime)) = (cancelled(&id), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let peer = self.peer.clone();
        let closed = self.board.closed.clone();
        // Nobody owns this task: it ends when the message has left or the connection is over.
        runtime.spawn(async move {
            tokio::select! {
                _ = peer.notify_cancelled(param) => {}
                () = closed.cancelled() => {}
            }
        });
    }
}

fn cancelled(id: &RequestId) -> Result<CancelledNotificationParam, serde_json::Error> {
    serde_json::from_value(json!({ "requestId": id, "reason": "nobody waits for the answer" }))
}
