//! A server that comes back after a crash, and threads that go on.
//!
//! When the connection ends by itself, every call that waits fails with the reason, and a new server is started or
//! connected to: a few times, with a pause before each. After that it is given up, and tried again only when
//! somebody wants it after a while. Threads that were used through the supervisor are resumed on it before their
//! next turn, or started anew where the server no longer knows them. A turn that was cut off runs once more if
//! nothing of it had begun; otherwise its caller is told.

use std::{collections::HashMap, sync::Arc, time::Duration};

use codicil_protocol::{Thread, ThreadId, ThreadResume, ThreadStartParams, TurnStartParams};
use parking_lot::{Mutex, MutexGuard};
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
};

/// When to give up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartLimits {
    /// Restarts in a row: 3.
    pub max_restarts: u32,
    /// Before each of them: 1 s.
    pub pause: Duration,
    /// A connection that lasted so long starts the count anew: 1 min.
    pub steady_after: Duration,
    /// How long callers of a server that was given up are told so at once: 30 s. The first call after that starts
    /// it once more. `None` if it is to stay down.
    pub retry_after: Option<Duration>,
}

impl Default for RestartLimits {
    fn default() -> Self {
        Self {
            max_restarts: 3,
            pause: Duration::from_secs(1),
            steady_after: Duration::from_secs(60),
            retry_after: Some(Duration::from_secs(30)),
        }
    }
}

/// A client that is replaced when its server dies. Dropping it ends the server.
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
    /// Told when somebody wants a server that was given up.
    wanted: Arc<Notify>,
    threads: Mutex<HashMap<ThreadId, KnownThread>>,
    watching: JoinHandle<()>,
}

/// What there is of a connection at the moment.
#[derive(Clone, Debug)]
enum SupervisedLink {
    Up {
        client: Client,
        generation: u64,
    },
    Restarting,
    /// It crashed too often. Not to be tried again before this moment; never if there is none.
    GivenUp(ClientError, Option<Instant>),
    /// Whoever closed it wants it to stay closed.
    Closed(ClientError),
}

/// A thread by the id under which its user knows it.
#[derive(Clone, Debug)]
struct KnownThread {
    /// The id it has now.
    current: ThreadId,
    /// The connection that it is loaded on.
    generation: u64,
    /// How to start it anew; `None` for threads that others started.
    params: Option<ThreadStartParams>,
}

impl Supervisor {
    /// Connects for the first time; a failure here is not repeated.
    pub async fn start(
        builder: ClientBuilder,
        address: impl Into<ServerAddress>,
        supervision: RestartLimits,
    ) -> Result<Self, ClientError> {
        let address = address.into();
        let client = builder.clone().connect(address.clone()).await?;
        let (sender, link) = watch::channel(SupervisedLink::Up { client, generation: 0 });
        let wanted = Arc::<Notify>::default();
        let watch = ConnectionWatch { builder, address, supervision, link: sender, wanted: wanted.clone() };
        Ok(Self { link, wanted, threads: Mutex::default(), watching: tokio::spawn(watch.run()) })
    }

    /// The client as it is now; waits while a new server is being started.
    pub async fn client(&self) -> Result<Client, ClientError> {
        self.up().await.map(|(client, _)| client)
    }

    /// The client together with the number of its connection, the first being 0: threads that were loaded on
    /// another connection have to be resumed before they are used. Waits like [`client`](Self::client).
    pub async fn connection(&self) -> Result<(Client, u64), ClientError> {
        self.up().await
    }

    /// The same without waiting: `None` while there is no connection.
    pub fn connected(&self) -> Option<(Client, u64)> {
        match &*self.link.borrow() {
            SupervisedLink::Up { client, generation } if client.is_connected() => {
                Some((client.clone(), *generation))
            }
            _ => None,
        }
    }

    /// Starts a thread that will be there after a restart too.
    pub async fn start_thread(&self, mut params: ThreadStartParams) -> Result<Thread, ClientError> {
        let (client, generation) = self.up().await?;
        client.fill_in(&mut params);
        let thread = client.start_thread(params.clone()).await?;
        let known = KnownThread { current: thread.id.clone(), generation, params: Some(params) };
        self.threads().insert(thread.id.clone(), known);
        Ok(thread)
    }

    /// The id that a thread has now: another one if it had to be started anew.
    pub fn current_id(&self, thread: &ThreadId) -> ThreadId {
        self.threads().get(thread).map_or_else(|| thread.clone(), |known| known.current.clone())
    }

    /// No longer cares for a thread. What is known of those that are in use takes room.
    pub fn forget(&self, thread: &ThreadId) {
        self.threads().remove(thread);
    }

    /// Runs a turn, on a new server if need be. Cut off by a crash it is repeated once if nothing of it had
    /// begun; otherwise the error is [`PortExit`](ClientError::PortExit).
    pub async fn run_turn(&self, params: TurnStartParams) -> Result<CompletedTurn, ClientError> {
        match self.attempt(params.clone()).await {
            ConnectAttempt::Done(result) => result,
            ConnectAttempt::CutOff(_) => match self.attempt(params).await {
                ConnectAttempt::Done(result) => result,
                ConnectAttempt::CutOff(error) => Err(error),
            },
        }
    }

    /// Ends the server for good, and waits until it has ended.
    pub async fn close(&self) {
        self.watching.abort();
        if let Ok(client) = self.client().await {
            client.close().await;
        }
    }

    async fn attempt(&self, mut params: TurnStartParams) -> ConnectAttempt {
        let (client, generation) = match self.up().await {
            Ok(up) => up,
            Err(error) => return ConnectAttempt::Done(Err(error)),
        };
        params.thread_id = match self.ready(&client, generation, &params.thread_id).await {
            Ok(thread) => thread,
            Err(error) => return ConnectAttempt::of(Err(error), false),
        };
        let mut running = match client.begin(params, None).await {
            Ok(running) => running,
            Err(error) => return ConnectAttempt::of(Err(error), false),
        };
        running.until_over().await;
        let has_begun = running.has_begun();
        ConnectAttempt::of(running.result(), has_begun)
    }

    /// The thread's id on this connection, after it has been loaded there.
    async fn ready(
        &self,
        client: &Client,
        generation: u64,
        thread: &ThreadId,
    ) -> Result<ThreadId, ClientError> {
        let known = self.threads().get(thread).cloned().unwrap_or_else(|| KnownThread {
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
        self.threads().insert(thread.clone(), known);
        Ok(current)
    }

    async fn up(&self) -> Result<(Client, u64), ClientError> {
        let mut link = self.link.clone();
        let mut has_asked = false;
        loop {
            match link.borrow_and_update().clone() {
                // Otherwise its end has not been noticed yet.
                SupervisedLink::Up { client, generation } if client.is_connected() => {
                    return Ok((client, generation));
                }
                SupervisedLink::Up { .. } | SupervisedLink::Restarting => {}
                // One try for each call, however short the pause.
                SupervisedLink::GivenUp(_, Some(until)) if until <= Instant::now() && !has_asked => {
                    has_asked = true;
                    self.wanted.notify_one();
                }
                SupervisedLink::GivenUp(error, _) | SupervisedLink::Closed(error) => return Err(error),
            }
            if link.changed().await.is_err() {
                let ended = Disconnected { cause: DisconnectCause::Closed, stderr_tail: String::new() };
                return Err(ClientError::PortExit(Arc::new(ended)));
            }
        }
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<ThreadId, KnownThread>> {
        self.threads.lock()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

/// What became of one try.
enum ConnectAttempt {
    Done(Result<CompletedTurn, ClientError>),
    /// The connection ended before anything had begun.
    CutOff(ClientError),
}

impl ConnectAttempt {
    fn of(result: Result<CompletedTurn, ClientError>, has_begun: bool) -> Self {
        match result {
            Err(error @ ClientError::PortExit(_)) if !has_begun => Self::CutOff(error),
            result => Self::Done(result),
        }
    }
}

/// The task that notices the end of a connection and opens the next.
struct ConnectionWatch {
    builder: ClientBuilder,
    address: ServerAddress,
    supervision: RestartLimits,
    link: watch::Sender<SupervisedLink>,
    wanted: Arc<Notify>,
}

impl ConnectionWatch {
    async fn run(self) {
        let (mut generation, mut restarts) = (0, 0);
        loop {
            let SupervisedLink::Up { client, .. } = self.link.borrow().clone() else { return };
            let began = Instant::now();
            let ended = client.ended().await;
            drop(client);
            if began.elapsed() >= self.supervision.steady_after {
                restarts = 0;
            }
            let reason = ClientError::PortExit(ended.clone());
            if ended.cause == DisconnectCause::Closed {
                return drop(self.link.send(SupervisedLink::Closed(reason)));
            }
            tracing::warn!("{ended}; starting it again");
            let client = self.restart(&mut restarts, reason).await;
            generation += 1;
            self.link.send_replace(SupervisedLink::Up { client, generation });
        }
    }

    /// A new connection: after a few tries by itself, and after that one for each time that somebody wants it.
    async fn restart(&self, restarts: &mut u32, mut reason: ClientError) -> Client {
        loop {
            if *restarts < self.supervision.max_restarts {
                self.link.send_replace(SupervisedLink::Restarting);
                *restarts += 1;
                sleep(self.supervision.pause).await;
            } else {
                self.rest(reason).await;
                self.link.send_replace(SupervisedLink::Restarting);
            }
            match self.builder.clone().connect(self.address.clone()).await {
                Ok(client) => return client,
                Err(error) => reason = error,
            }
        }
    }

    /// Gives the server up until somebody wants it late enough.
    async fn rest(&self, reason: ClientError) {
        let until = self.supervision.retry_after.and_then(|pause| Instant::now().checked_add(pause));
        tracing::warn!("{reason}; the server is given up");
        self.link.send_replace(SupervisedLink::GivenUp(reason, until));
        loop {
            self.wanted.notified().await;
            // A call that came before the last try may have left its mark.
            if until.is_some_and(|until| until <= Instant::now()) {
                return;
            }
        }
    }
}
