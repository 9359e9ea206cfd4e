//! A server's place in the pool: not started, starting, ready or failed; the same for everybody who holds it.
//!
//! The state is a watched value. One task at a time works on it: it starts the server and then waits for its
//! end. When the last holder lets go of the slot, the task and the connection go with it.

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
    surroundings: Arc<ConnectionContext>,
    state: Arc<watch::Sender<SlotState>>,
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

#[derive(Clone)]
pub(crate) enum SlotState {
    Idle,
    Starting {
        /// It has failed before.
        again: bool,
    },
    Ready(Arc<ServerConnection>),
    Failed(StartError),
    /// It was ready once.
    Ended,
}

impl SlotState {
    fn is_settled(&self) -> bool {
        !matches!(self, SlotState::Starting { .. })
    }

    /// What it becomes when it is started, unless it runs already.
    fn started(&self) -> Option<SlotState> {
        match self {
            SlotState::Idle | SlotState::Ended => Some(SlotState::Starting { again: false }),
            SlotState::Failed(_) => Some(SlotState::Starting { again: true }),
            SlotState::Ready(connection) if !connection.is_open() => {
                Some(SlotState::Starting { again: false })
            }
            SlotState::Starting { .. } | SlotState::Ready(_) => None,
        }
    }
}

impl ServerSlot {
    pub(crate) fn new(
        name: &str,
        config: Arc<ServerConfig>,
        surroundings: Arc<ConnectionContext>,
    ) -> Arc<ServerSlot> {
        let state = Arc::new(watch::Sender::new(SlotState::Idle));
        Arc::new(ServerSlot { name: name.to_owned(), config, surroundings, state, task: Mutex::default() })
    }

    /// Sees to it that the server is being started or runs. Does not wait.
    pub(crate) fn start(&self) {
        let starts = self.state.send_if_modified(|state| match state.started() {
            Some(starting) => {
                *state = starting;
                true
            }
            None => false,
        });
        if !starts {
            return;
        }
        let run = run(self.name.clone(), self.config.clone(), self.surroundings.clone(), self.state.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(run));
        *self.task.lock() = Some(task);
    }

    /// Lets the next start count as the first, after something has changed that made it fail.
    pub(crate) fn forgive(&self) {
        self.state.send_if_modified(|state| {
            let failed = matches!(state, SlotState::Failed(_));
            if failed {
                *state = SlotState::Idle;
            }
            failed
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<SlotState> {
        self.state.subscribe()
    }

    /// The connection, if there is one now.
    pub(crate) fn connection(&self) -> Option<Arc<ServerConnection>> {
        match &*self.state.borrow() {
            SlotState::Ready(connection) if connection.is_open() => Some(connection.clone()),
            _ => None,
        }
    }

    /// The connection, started if it has to be.
    pub(crate) async fn ready(&self) -> Result<Arc<ServerConnection>, StartError> {
        self.start();
        self.settled().await
    }

    /// How the start that is under way ends.
    pub(crate) async fn settled(&self) -> Result<Arc<ServerConnection>, StartError> {
        let mut state = self.watch();
        // The sender lives in this slot, so there is no other error.
        let state = state.wait_for(SlotState::is_settled).await.map(|state| state.clone());
        match state {
            Ok(SlotState::Ready(connection)) => Ok(connection),
            Ok(SlotState::Failed(error)) => Err(error),
            _ => Err(StartError::Failed("the server has ended".to_owned())),
        }
    }

    /// Ends the server, whoever holds it.
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

/// Starts a server and waits for its end.
async fn run(
    name: String,
    config: Arc<ServerConfig>,
    surroundings: Arc<ConnectionContext>,
    state: Arc<watch::Sender<SlotState>>,
) {
    let connection = match ServerConnection::start(&name, &config, &surroundings).await {
        Ok(connection) => connection,
        Err(error) => {
            state.send_replace(SlotState::Failed(error));
            return;
        }
    };
    let ended = connection.ended();
    state.send_replace(SlotState::Ready(Arc::new(connection)));
    let reason = ended.await;
    tracing::debug!(server = name, reason, "an MCP server has ended");
    state.send_if_modified(|state| {
        let ready = matches!(state, SlotState::Ready(_));
        if ready {
            *state = SlotState::Ended;
        }
        ready
    });
}
