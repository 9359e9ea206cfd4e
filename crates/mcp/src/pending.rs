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
    switchboard::{CallWatch, Switchboard},
};

pub(crate) struct Pending {
    answer: oneshot::Receiver<Result<ServerResult, ServiceError>>,
    watch: Option<Arc<CallWatch>>,
    board: Arc<Switchboard>,
    guard: Guard,
}

enum Event {
    Answer(Result<Result<ServerResult, ServiceError>, oneshot::error::RecvError>),
    Closed,
    Cancelled,
    /// The number of open questions has changed.
    Asking,
    TimedOut,
}

impl Pending {
    pub(crate) fn new(handle: RequestHandle<RoleClient>, board: Arc<Switchboard>) -> Pending {
        let guard = Guard {
            peer: handle.peer,
            board: board.clone(),
            token: handle.progress_token,
            unanswered: Some(handle.id),
        };
        Pending { answer: handle.rx, watch: None, board, guard }
    }

    /// Has a person's time not count, and ends questions together with the wait.
    pub(crate) fn watched(mut self, watch: Arc<CallWatch>) -> Pending {
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
        let mut clock = Clock::new(within);
        let result = loop {
            match self.event(&clock, &mut asking, cancel).await {
                Event::Answer(Ok(answer)) => {
                    self.guard.unanswered = None;
                    break response(answer, &self.board);
                }
                Event::Answer(Err(_)) | Event::Closed => {
                    self.guard.unanswered = None;
                    break Err(CallError::Closed(self.board.ending()));
                }
                Event::Cancelled => break Err(CallError::Cancelled),
                Event::Asking => clock.turn(asking.as_ref().is_some_and(|asking| *asking.borrow() > 0)),
                Event::TimedOut => break Err(CallError::TimedOut(within)),
            }
        };
        drop(over);
        result
    }

    async fn event(
        &mut self,
        clock: &Clock,
        asking: &mut Option<watch::Receiver<usize>>,
        cancel: &CancellationToken,
    ) -> Event {
        tokio::select! {
            biased;
            answer = &mut self.answer => Event::Answer(answer),
            () = self.board.closed.cancelled() => Event::Closed,
            () = cancel.cancelled() => Event::Cancelled,
            () = changed(asking) => Event::Asking,
            () = clock.over() => Event::TimedOut,
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
enum Clock {
    Runs { until: Instant },
    Stands { left: Duration },
}

impl Clock {
    fn new(within: Duration) -> Clock {
        let now = Instant::now();
        match now.checked_add(within) {
            Some(until) => Clock::Runs { until },
            None => Clock::Stands { left: within },
        }
    }

    fn turn(&mut self, asking: bool) {
        let now = Instant::now();
        *self = match *self {
            Clock::Runs { until } if asking => Clock::Stands { left: until.saturating_duration_since(now) },
            Clock::Stands { left } if !asking => Clock::new(left),
            Clock::Runs { until } => Clock::Runs { until },
            Clock::Stands { left } => Clock::Stands { left },
        };
    }

    async fn over(&self) {
        match self {
            Clock::Runs { until } => sleep_until(*until).await,
            Clock::Stands { .. } => pending().await,
        }
    }
}

/// Tells the server that nobody waits, unless it has answered.
struct Guard {
    peer: Peer<RoleClient>,
    board: Arc<Switchboard>,
    token: ProgressToken,
    unanswered: Option<RequestId>,
}

impl Drop for Guard {
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
