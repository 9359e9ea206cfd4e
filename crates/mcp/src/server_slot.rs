//! A server in the pool: not started, starting, ready or failed. All threads that use the server share the slot.
//!
//! The state is a watched value with one task that starts the server and then waits for its end. Dropping the last
//! reference to the slot ends the task and closes the connection.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::ServerConfig,
    connection::{ConnectionContext, ServerConnection},
    start_error::StartError,
};

pub(crate) struct ServerSlot {
    name: String,
    config: Arc<ServerConfig>,
    context: Arc<ConnectionContext>,
    state: Arc<watch::Sender<SlotState>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Clone)]
pub(crate) enum SlotState {
    Idle,
    Starting {
        /// The previous start failed.
        is_retry: bool,
    },
    Ready(Arc<ServerConnection>),
    Failed(StartError),
    /// The server was ready before.
    Ended,
}

impl SlotState {
    fn is_settled(&self) -> bool {
        !matches!(self, SlotState::Starting { .. })
    }

    /// Returns the state after a start; `None` if the server is running already.
    fn after_start(&self) -> Option<SlotState> {
        match self {
            SlotState::Idle | SlotState::Ended => Some(SlotState::Starting { is_retry: false }),
            SlotState::Failed(_) => Some(SlotState::Starting { is_retry: true }),
            SlotState::Ready(connection) if !connection.is_open() => {
                Some(SlotState::Starting { is_retry: false })
            }
            SlotState::Starting { .. } | SlotState::Ready(_) => None,
        }
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
            let is_failed = matches!(state, SlotState::Failed(_));
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
            Ok(SlotState::Failed(error)) => Err(error),
            _ => Err(StartError::Failed("the server has ended".to_owned())),
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
            state.send_replace(SlotState::Failed(error));
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
