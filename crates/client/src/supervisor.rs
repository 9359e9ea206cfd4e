//! A client that reconnects after a crash and resumes its threads.
//!
//! With a server that has the extension `codicil`, the client itself reconnects and continues its turns, within the limits
//! of the supervisor. With another server, every pending call fails with the reason, and the supervisor starts or connects
//! to the server again: a few times, with a delay before each attempt. Threads used through the supervisor are resumed
//! before their next turn, or started anew if the server no longer knows them.
//!
//! In both cases a turn that was cut off is repeated once if the agent had not started any work, and the supervisor gives
//! up after too many crashes in a row. It then tries once more only for a call that comes later.
//!
//! A server that is not needed for a while can be suspended: it ends, and the next call starts it again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use codicil_protocol::{Thread, ThreadId, ThreadResume, ThreadStartParams, TurnStartParams};
use futures_util::FutureExt;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    builder::ClientBuilder,
    client::Client,
    collect::CompletedTurn,
    endpoint::ServerAddress,
    error::{ClientError, DisconnectCause, Disconnected},
    params,
    resilient::ReconnectOptions,
};

/// When the supervisor restarts a server, and when it gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartLimits {
    /// Consecutive restarts: 3.
    pub max_restarts: u32,
    /// Delay before each restart: 1 s.
    pub delay: Duration,
    /// Duration after which a connection counts as stable and resets the count of restarts: 1 min.
    pub stable_after: Duration,
    /// Time after giving up during which calls fail at once: 30 s. The first call after that starts the server once
    /// more. `None` never starts it again.
    pub retry_after: Option<Duration>,
}

impl Default for RestartLimits {
    fn default() -> Self {
        Self {
            max_restarts: 3,
            delay: Duration::from_secs(1),
            stable_after: Duration::from_secs(60),
            retry_after: Some(Duration::from_secs(30)),
        }
    }
}

impl RestartLimits {
    /// Returns the same limits for a client that reconnects by itself.
    fn reconnect_options(&self) -> ReconnectOptions {
        ReconnectOptions {
            first_delay: self.delay,
            max_delay: self.delay,
            give_up_after: None,
            max_attempts: Some(self.max_restarts),
            stable_after: self.stable_after,
        }
    }
}

/// A client that is replaced when its server crashes. Dropping it ends the server.
///
/// ```no_run
/// use codicil_client::{Client, ServerLaunch, RestartLimits, Supervisor, turn};
///
/// # async fn example() -> Result<(), codicil_client::ClientError> {
/// let supervisor =
///     Supervisor::start(Client::builder(), ServerLaunch::new("codicil"), RestartLimits::default()).await?;
/// let thread = supervisor.start_thread(Default::default()).await?;
/// let done = supervisor.run_turn(turn(&thread.id, "Go on")).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Supervisor {
    link: watch::Receiver<SupervisedLink>,
    /// Notified when a call needs a server that was suspended or given up.
    wanted: Arc<Notify>,
    /// The generation that [`suspend`](Self::suspend) has ended.
    suspended: Arc<SuspendedGeneration>,
    threads: Mutex<HashMap<ThreadId, KnownThread>>,
    watching: JoinHandle<()>,
}

/// The state of the supervised connection.
#[derive(Clone, Debug)]
enum SupervisedLink {
    Up {
        client: Client,
        generation: u64,
        /// The number of connections of earlier clients.
        earlier_connections: u64,
    },
    Restarting,
    /// The server was ended by [`Supervisor::suspend`], until a call needs it.
    Suspended,
    /// The server crashed too often. It is not started again before this time, or never if there is none.
    GivenUp(ClientError, Option<Instant>),
    /// The connection was closed deliberately and is not opened again.
    Closed(ClientError),
}

/// A thread, stored under the id by which its user knows it.
#[derive(Clone, Debug)]
struct KnownThread {
    /// The current id.
    current: ThreadId,
    /// The connection on which the thread is loaded.
    generation: u64,
    /// The params to start it anew; `None` for threads that were not started through the supervisor.
    params: Option<ThreadStartParams>,
}

impl Supervisor {
    /// Connects for the first time. A failure of the first connection is returned, not retried.
    pub async fn start(
        builder: ClientBuilder,
        address: impl Into<ServerAddress>,
        limits: RestartLimits,
    ) -> Result<Self, ClientError> {
        let address = address.into();
        let builder = match &builder.reconnect {
            Some(_) => builder,
            None => builder.resilient_if_supported(limits.reconnect_options()),
        };
        let client = builder.clone().connect(address.clone()).await?;
        let up = SupervisedLink::Up { client, generation: 0, earlier_connections: 0 };
        let (sender, link) = watch::channel(up);
        let wanted = Arc::<Notify>::default();
        let suspended = Arc::<SuspendedGeneration>::default();
        let watch = ConnectionWatch {
            builder,
            address,
            limits,
            link: sender,
            wanted: wanted.clone(),
            suspended: suspended.clone(),
        };
        let watching = tokio::spawn(watch.run());
        Ok(Self { link, wanted, suspended, threads: Mutex::default(), watching })
    }

    /// Returns the current client. Waits while the server is being restarted.
    pub async fn client(&self) -> Result<Client, ClientError> {
        self.connected_client().await.map(|(client, _)| client)
    }

    /// Returns the current client with its generation, which counts clients from 0. A thread that was loaded on another
    /// generation must be resumed before use. A client that reconnects by itself loads its threads again. Waits like
    /// [`client`](Self::client).
    pub async fn connection(&self) -> Result<(Client, u64), ClientError> {
        self.connected_client().await
    }

    /// Returns the current client with its generation; `None` while there is no connection.
    pub fn connected(&self) -> Option<(Client, u64)> {
        match &*self.link.borrow() {
            SupervisedLink::Up { client, generation, .. } if client.is_connected() => {
                Some((client.clone(), *generation))
            }
            _ => None,
        }
    }

    /// Returns the number of connections so far; 0 while there is none.
    pub fn connection_count(&self) -> u64 {
        match &*self.link.borrow() {
            SupervisedLink::Up { client, earlier_connections, .. } => {
                earlier_connections + *client.connections().borrow()
            }
            _ => 0,
        }
    }

    /// Starts a thread that is restored after a restart.
    pub async fn start_thread(&self, mut params: ThreadStartParams) -> Result<Thread, ClientError> {
        let (client, generation) = self.connected_client().await?;
        client.apply_thread_defaults(&mut params);
        let thread = client.start_thread(params.clone()).await?;
        let known = KnownThread { current: thread.id.clone(), generation, params: Some(params) };
        self.threads.lock().insert(thread.id.clone(), known);
        Ok(thread)
    }

    /// Returns the current id of a thread. It changes when the thread had to be started anew.
    pub fn current_id(&self, thread: &ThreadId) -> ThreadId {
        self.threads.lock().get(thread).map_or_else(|| thread.clone(), |known| known.current.clone())
    }

    /// Stops tracking a thread. Tracked threads take memory until they are forgotten.
    pub fn forget(&self, thread: &ThreadId) {
        self.threads.lock().remove(thread);
    }

    /// Runs a turn, on a restarted server if necessary. A turn that a crash interrupts is repeated once if the agent
    /// had not started any work; otherwise the error is [`ClientError::Disconnected`].
    pub async fn run_turn(&self, params: TurnStartParams) -> Result<CompletedTurn, ClientError> {
        match self.attempt(params.clone()).await {
            TurnAttempt::Done(result) => result,
            TurnAttempt::CutOff(_) => match self.attempt(params).await {
                TurnAttempt::Done(result) => result,
                TurnAttempt::CutOff(error) => Err(error),
            },
        }
    }

    /// Ends the server until a call needs it again, and waits until it has ended. Pending calls fail. Does nothing if
    /// there is no connection.
    pub async fn suspend(&self) {
        let Some((client, generation)) = self.connected() else { return };
        self.suspended.set(generation);
        client.close().await;
        // The watch task has processed the end when the state changes.
        let mut link = self.link.clone();
        let has_ended = |link: &SupervisedLink| match link {
            SupervisedLink::Up { generation: current, .. } => *current != generation,
            _ => true,
        };
        // Fails if the supervisor is closed meanwhile.
        let _ = link.wait_for(has_ended).await;
    }

    /// Ends the server permanently and waits until it has ended.
    pub async fn close(&self) {
        self.watching.abort();
        let link = self.link.borrow().clone();
        if let SupervisedLink::Up { client, .. } = link {
            client.close().await;
        }
    }

    async fn attempt(&self, mut params: TurnStartParams) -> TurnAttempt {
        let (client, generation) = match self.connected_client().await {
            Ok(connected) => connected,
            Err(error) => return TurnAttempt::Done(Err(error)),
        };
        params.thread_id = match self.load_thread(&client, generation, &params.thread_id).await {
            Ok(thread) => thread,
            Err(error) => return TurnAttempt::of_error(error),
        };
        let mut running = match client.begin_turn(params, None).await {
            Ok(running) => running,
            Err(error) => return TurnAttempt::of_error(error),
        };
        running.wait_until_over().await;
        let was_cut_off = running.was_cut_off();
        match running.result() {
            Err(error) if was_cut_off => TurnAttempt::CutOff(error),
            result => TurnAttempt::Done(result),
        }
    }

    /// Loads the thread on this connection and returns its current id.
    async fn load_thread(
        &self,
        client: &Client,
        generation: u64,
        thread: &ThreadId,
    ) -> Result<ThreadId, ClientError> {
        let known = self.threads.lock().get(thread).cloned().unwrap_or_else(|| KnownThread {
            current: thread.clone(),
            generation: 0,
            params: None,
        });
        if known.generation == generation {
            return Ok(known.current);
        }
        let resumed = client.call::<ThreadResume>(params::resume(&known.current)).await;
        let current = match (resumed, &known.params) {
            (Ok(resumed), _) => resumed.thread.id,
            (Err(ClientError::ResponseError { .. }), Some(params)) => {
                client.start_thread(params.clone()).await?.id
            }
            (Err(error), _) => return Err(error),
        };
        let known = KnownThread { current: current.clone(), generation, ..known };
        self.threads.lock().insert(thread.clone(), known);
        Ok(current)
    }

    async fn connected_client(&self) -> Result<(Client, u64), ClientError> {
        let mut link = self.link.clone();
        let mut has_requested = false;
        loop {
            match link.borrow_and_update().clone() {
                // If it is not connected, the watch task has not processed the end yet.
                SupervisedLink::Up { client, generation, .. } if client.is_connected() => {
                    return Ok((client, generation));
                }
                SupervisedLink::Up { .. } | SupervisedLink::Restarting => {}
                SupervisedLink::Suspended => self.wanted.notify_one(),
                // Each call requests one attempt, however short `retry_after` is.
                SupervisedLink::GivenUp(_, Some(until)) if until <= Instant::now() && !has_requested => {
                    has_requested = true;
                    self.wanted.notify_one();
                }
                SupervisedLink::GivenUp(error, _) | SupervisedLink::Closed(error) => return Err(error),
            }
            if link.changed().await.is_err() {
                let cause = DisconnectCause::ClosedByClient;
                let reason = Disconnected { cause, stderr_tail: String::new() };
                return Err(ClientError::Disconnected(Arc::new(reason)));
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// The outcome of one attempt to run a turn.
enum TurnAttempt {
    Done(Result<CompletedTurn, ClientError>),
    /// The connection ended before the agent had started any work.
    CutOff(ClientError),
}

impl TurnAttempt {
    fn of_error(error: ClientError) -> Self {
        match error {
            ClientError::Disconnected(_) => Self::CutOff(error),
            error => Self::Done(Err(error)),
        }
    }
}

/// The task that waits for the end of a connection and opens the next one.
struct ConnectionWatch {
    builder: ClientBuilder,
    address: ServerAddress,
    limits: RestartLimits,
    link: watch::Sender<SupervisedLink>,
    wanted: Arc<Notify>,
    suspended: Arc<SuspendedGeneration>,
}

/// The newest generation that was suspended, if any.
#[derive(Debug, Default)]
struct SuspendedGeneration(Mutex<Option<u64>>);

impl SuspendedGeneration {
    fn set(&self, generation: u64) {
        *self.0.lock() = Some(generation);
    }

    fn is(&self, generation: u64) -> bool {
        *self.0.lock() == Some(generation)
    }
}

impl ConnectionWatch {
    async fn run(self) {
        let mut generation = 0;
        let mut earlier_connections = 0;
        let mut restarts = 0;
        loop {
            let SupervisedLink::Up { client, .. } = self.link.borrow().clone() else { return };
            let began = Instant::now();
            let disconnected = client.disconnected().await;
            let reconnects = client.reconnects();
            let connections = *client.connections().borrow();
            drop(client);
            if began.elapsed() >= self.limits.stable_after {
                restarts = 0;
            }
            let reason = ClientError::Disconnected(disconnected.clone());
            let is_suspended = self.suspended.is(generation);
            earlier_connections += connections;
            if reconnects {
                // It has made all attempts.
                restarts = self.limits.max_restarts;
            }
            if disconnected.cause == DisconnectCause::ClosedByClient && !is_suspended {
                return drop(self.link.send(SupervisedLink::Closed(reason)));
            }
            let client = if is_suspended {
                // A call from before the last attempt may have left a notification.
                let _ = self.wanted.notified().now_or_never();
                self.link.send_replace(SupervisedLink::Suspended);
                self.wanted.notified().await;
                self.link.send_replace(SupervisedLink::Restarting);
                match self.connect().await {
                    Ok(client) => client,
                    Err(error) => self.restart(&mut restarts, error).await,
                }
            } else {
                tracing::warn!("{disconnected}; restarting");
                self.restart(&mut restarts, reason).await
            };
            generation += 1;
            self.link.send_replace(SupervisedLink::Up { client, generation, earlier_connections });
        }
    }

    /// Returns a new connection: by itself for the first restarts, after that once per request.
    async fn restart(&self, restarts: &mut u32, mut reason: ClientError) -> Client {
        loop {
            if *restarts < self.limits.max_restarts {
                self.link.send_replace(SupervisedLink::Restarting);
                *restarts += 1;
                sleep(self.limits.delay).await;
            } else {
                self.wait_for_request(reason).await;
                self.link.send_replace(SupervisedLink::Restarting);
            }
            match self.connect().await {
                Ok(client) => return client,
                Err(error) => reason = error,
            }
        }
    }

    async fn connect(&self) -> Result<Client, ClientError> {
        self.builder.clone().connect(self.address.clone()).await
    }

    /// Gives up on the server until a call requests it after `retry_after`.
    async fn wait_for_request(&self, reason: ClientError) {
        let until = self.limits.retry_after.and_then(|time| Instant::now().checked_add(time));
        tracing::warn!("{reason}; giving up on the server");
        self.link.send_replace(SupervisedLink::GivenUp(reason, until));
        loop {
            self.wanted.notified().await;
            // A call from before the last attempt may have left a notification.
            if until.is_some_and(|until| until <= Instant::now()) {
                return;
            }
        }
    }
}
