//! A server in the pool: not started, starting, ready or failed. All threads that use the server share the slot.
//!
//! The state is a watched value with one task that starts the server and then waits for its end. Dropping the last
//! reference to the slot ends the task and closes the connection.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_http::Backoff;
use parking_lot::Mutex;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::ServerConfig,
    connection::{ConnectionContext, ServerConnection},
    limits::RETRY_WAIT,
    start_error::StartError,
};

/// A server in the pool, shared by all threads that use it.
pub(crate) struct ServerSlot {
    name: String,
    config: Arc<ServerConfig>,
    context: Arc<ConnectionContext>,
    state: Arc<watch::Sender<SlotState>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// Delay of automatic restarts. The first retry is not delayed.
const RETRY_BACKOFF: Backoff =
    Backoff { first: Duration::from_secs(5), max: Duration::from_secs(300), jitter: 0.0 };

#[derive(Clone)]
pub(crate) enum SlotState {
    Idle,
    Starting {
        since: Instant,
        /// Number of failed starts in a row before this one.
        failures: u32,
    },
    Ready(Arc<ServerConnection>),
    Failed {
        error: StartError,
        since: Instant,
        /// Number of failed starts in a row.
        failures: u32,
    },
    /// The connection closed after the server was ready.
    Ended,
}

impl SlotState {
    fn is_settled(&self) -> bool {
        !matches!(self, SlotState::Starting { .. })
    }

    /// Returns the state after a start; `None` if the server is running already.
    fn after_start(&self) -> Option<SlotState> {
        let failures = match self {
            SlotState::Idle | SlotState::Ended => 0,
            SlotState::Failed { failures, .. } => *failures,
            SlotState::Ready(connection) if !connection.is_open() => 0,
            SlotState::Starting { .. } | SlotState::Ready(_) => return None,
        };
        Some(SlotState::Starting { since: Instant::now(), failures })
    }

    /// Returns whether the server failed so recently that it is not started again without a reason.
    fn is_backing_off(&self, now: Instant) -> bool {
        match self {
            SlotState::Failed { since, failures, .. } => now.duration_since(*since) < retry_delay(*failures),
            _ => false,
        }
    }

    /// Returns how long a turn waits for the pending start. A server that failed before does not delay turns.
    fn turn_wait(&self, now: Instant) -> Duration {
        match self {
            SlotState::Starting { failures: 0, .. } => Duration::MAX,
            SlotState::Starting { since, .. } => RETRY_WAIT.saturating_sub(now.duration_since(*since)),
            _ => Duration::ZERO,
        }
    }
}

/// Returns the time between a failed start and the next automatic one.
fn retry_delay(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        failures => RETRY_BACKOFF.delay(failures - 1),
    }
}

impl ServerSlot {
    pub(crate) fn new(
        name: &str,
        config: Arc<ServerConfig>,
        context: Arc<ConnectionContext>,
    ) -> Arc<ServerSlot> {
        let state = Arc::new(watch::Sender::new(SlotState::Idle));
        Arc::new(ServerSlot { name: name.to_owned(), config, context, state, task: Mutex::default() })
    }

    /// Starts the server like [`start`](Self::start), unless it has failed repeatedly and a short time ago.
    pub(crate) fn retry(&self) {
        let is_backing_off = self.state.borrow().is_backing_off(Instant::now());
        if !is_backing_off {
            self.start();
        }
    }

    /// Starts the server unless it is starting or running. Does not wait.
    pub(crate) fn start(&self) {
        let is_started = self.state.send_if_modified(|state| match state.after_start() {
            Some(starting) => {
                *state = starting;
                true
            }
            None => false,
        });
        if !is_started {
            return;
        }
        let run = run(self.name.clone(), self.config.clone(), self.context.clone(), self.state.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(run));
        *self.task.lock() = Some(task);
    }

    /// Makes the next start count as the first, after the cause of a failure may have gone.
    pub(crate) fn reset_failure(&self) {
        self.state.send_if_modified(|state| {
            let is_failed = matches!(state, SlotState::Failed { .. });
            if is_failed {
                *state = SlotState::Idle;
            }
            is_failed
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<SlotState> {
        self.state.subscribe()
    }

    /// Returns the open connection, if there is one.
    pub(crate) fn connection(&self) -> Option<Arc<ServerConnection>> {
        match &*self.state.borrow() {
            SlotState::Ready(connection) if connection.is_open() => Some(connection.clone()),
            _ => None,
        }
    }

    /// Starts the server if necessary and returns its connection.
    pub(crate) async fn ready(&self) -> Result<Arc<ServerConnection>, StartError> {
        self.start();
        self.settled().await
    }

    /// Waits for the pending start and returns its result.
    pub(crate) async fn settled(&self) -> Result<Arc<ServerConnection>, StartError> {
        let mut state = self.watch();
        // Cannot fail: the sender lives in this slot.
        let state = state.wait_for(SlotState::is_settled).await.map(|state| state.clone());
        match state {
            Ok(SlotState::Ready(connection)) => Ok(connection),
            Ok(SlotState::Failed { error, .. }) => Err(error),
            _ => Err(StartError::Failed("the server has ended".to_owned())),
        }
    }

    /// Returns the connection, after its pending start if there is one and a turn may wait for it. A server that has
    /// ended is started again.
    pub(crate) async fn for_turn(&self) -> Option<Arc<ServerConnection>> {
        let has_ended = matches!(&*self.state.borrow(), SlotState::Ended);
        if has_ended {
            self.start();
        }
        let wait = self.state.borrow().turn_wait(Instant::now());
        match self.connection() {
            Some(connection) => Some(connection),
            None if wait == Duration::MAX => self.settled().await.ok(),
            None => timeout(wait, self.settled()).await.ok()?.ok(),
        }
    }

    /// Closes the connection for all holders of the slot.
    pub(crate) async fn close(&self) {
        let task = self.task.lock().take();
        drop(task);
        let connection = self.connection();
        self.state.send_replace(SlotState::Ended);
        if let Some(connection) = connection {
            connection.close().await;
        }
    }
}

/// Starts a server and waits until its connection closes.
async fn run(
    name: String,
    config: Arc<ServerConfig>,
    context: Arc<ConnectionContext>,
    state: Arc<watch::Sender<SlotState>>,
) {
    let connection = match ServerConnection::start(&name, &config, &context).await {
        Ok(connection) => connection,
        Err(error) => {
            state.send_modify(|state| {
                let failures = match state {
                    SlotState::Starting { failures, .. } => failures.saturating_add(1),
                    _ => 1,
                };
                *state = SlotState::Failed { error, since: Instant::now(), failures };
            });
            return;
        }
    };
    let closed = connection.closed();
    state.send_replace(SlotState::Ready(Arc::new(connection)));
    let reason = closed.await;
    tracing::debug!(server = name, reason, "the connection to an MCP server closed");
    state.send_if_modified(|state| {
        let is_ready = matches!(state, SlotState::Ready(_));
        if is_ready {
            *state = SlotState::Ended;
        }
        is_ready
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_failures_delay_the_next_start_up_to_a_limit() {
        let seconds: Vec<u64> = (1..=9).map(|failures| retry_delay(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 5, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn only_a_first_start_delays_a_turn() {
        let since = Instant::now();
        let wait = |failures, later| SlotState::Starting { since, failures }.turn_wait(since + later);
        assert_eq!(wait(0, Duration::from_secs(9)), Duration::MAX);
        assert_eq!(wait(1, Duration::ZERO), RETRY_WAIT);
        assert_eq!(wait(1, RETRY_WAIT), Duration::ZERO, "the wait of all turns together is limited");

        let failed = SlotState::Failed { error: StartError::NotSignedIn, since, failures: 2 };
        assert_eq!(failed.turn_wait(since), Duration::ZERO);
        assert!(failed.is_backing_off(since + Duration::from_secs(4)));
        assert!(!failed.is_backing_off(since + Duration::from_secs(5)));
    }
}
