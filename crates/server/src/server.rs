//! The server: the state that all connections share, its start and its shutdown.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use codicil_accounts::Accounts;
use codicil_config::ConfigStore;
use codicil_engine::{EngineContext, Threads};
use codicil_model::{EnvironmentSource, ProviderContext};
use codicil_protocol::SessionSource;
use codicil_sandbox::ServerPlaces;
use codicil_store::Store;
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    background::BackgroundTasks,
    clients::ClientRegistry,
    cluster::{self, ClusterDuty},
    ephemeral::EphemeralThreads,
    feedback::Feedback,
    files::FileServices,
    generation::ProtocolDefaults,
    inbound::InboundBudget,
    limits::FLUSH_TIME,
    route::Router,
    router::router,
    transport::{ListenAddress, ListenError, auth::WsAuth, metrics, socket_lock::SocketLock},
};

/// The parts and options that a server is made of.
pub struct ServerSetup {
    pub config: ConfigStore,
    pub store: Store,
    /// The working directory of threads that name none.
    pub cwd: PathBuf,
    pub protocol: ProtocolDefaults,
    /// Whether a websocket that other machines can reach needs no authentication.
    pub allow_unauthenticated: bool,
}

/// The state that all connections share.
pub struct ServerShared {
    pub setup: ServerSetup,
    pub clients: ClientRegistry,
    pub router: Router,
    pub background: BackgroundTasks,
    pub accounts: Accounts,
    pub files: FileServices,
    pub feedback: Feedback,
    /// The home and the listeners, which sandboxed commands cannot reach.
    pub places: Arc<ServerPlaces>,
    pub inbound: Arc<InboundBudget>,
    pub ephemeral_threads: Arc<EphemeralThreads>,
    /// How this server proves to other nodes that it may connect: as its own clients do.
    pub cluster_auth: OnceLock<WsAuth>,
    /// Requests that are being served.
    pub requests: AtomicUsize,
    /// Whether the listeners of clients answer `/metrics`.
    shows_metrics: AtomicBool,
    environment: EnvironmentSource,
    source: SessionSource,
    threads: OnceLock<Threads>,
}

impl ServerShared {
    /// Returns the directory with configuration, credentials and threads.
    pub fn home(&self) -> &Path {
        self.setup.config.home().path()
    }

    /// Returns the threads if they have been used.
    pub fn started_threads(&self) -> Option<&Threads> {
        self.threads.get()
    }

    /// Returns the threads. Created on first use: the engine takes longer to set up than the rest of the server.
    pub fn threads(&self) -> &Threads {
        self.threads.get_or_init(|| {
            let models = ProviderContext {
                auth: Some(Arc::new(self.accounts.clone())),
                environment: self.environment.clone(),
                ..ProviderContext::default()
            };
            let mut engine = EngineContext::new(
                self.setup.config.clone(),
                self.setup.store.clone(),
                Arc::new(self.clients.clone()),
                models,
                self.setup.cwd.clone(),
                self.setup.protocol.version().to_owned(),
            );
            engine.source = self.source.clone();
            engine.server_places = self.places.clone();
            Threads::new(engine)
        })
    }
}

impl std::fmt::Debug for ServerShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerShared").field("home", &self.home()).finish_non_exhaustive()
    }
}

/// A running server. Clones share one server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) shared: Arc<ServerShared>,
    /// The tasks of all connections.
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    /// Cancelled when a listener accepts connections.
    pub(crate) listening: CancellationToken,
    /// The lock of a unix socket. Held until the process ends or the last clone of the server is dropped, so that the
    /// next server of the socket starts when the threads of this one are stored.
    pub(crate) socket_lock: Arc<Mutex<Option<SocketLock>>>,
}

impl Server {
    pub fn new(setup: ServerSetup) -> Self {
        Self::with(setup, EnvironmentSource::default(), SessionSource::Vscode)
    }

    /// Creates a server whose threads have another source than a client of this protocol.
    pub fn with_source(setup: ServerSetup, source: SessionSource) -> Self {
        Self::with(setup, EnvironmentSource::default(), source)
    }

    /// Creates a server that reads other environment variables than those of the process.
    pub fn with_environment(setup: ServerSetup, environment: EnvironmentSource) -> Self {
        Self::with(setup, environment, SessionSource::Vscode)
    }

    fn with(setup: ServerSetup, environment: EnvironmentSource, source: SessionSource) -> Self {
        let shared = ServerShared {
            accounts: Accounts::new(setup.config.clone(), environment.clone()),
            feedback: Feedback::new(setup.config.home().path()),
            places: Arc::new(ServerPlaces::new(setup.config.home().path())),
            setup,
            clients: ClientRegistry::default(),
            router: router(),
            background: BackgroundTasks::default(),
            files: FileServices::default(),
            inbound: Arc::default(),
            ephemeral_threads: Arc::default(),
            cluster_auth: OnceLock::new(),
            requests: AtomicUsize::new(0),
            shows_metrics: AtomicBool::new(false),
            environment,
            source,
            threads: OnceLock::new(),
        };
        Self {
            shared: Arc::new(shared),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            listening: CancellationToken::new(),
            socket_lock: Arc::default(),
        }
    }

    /// Returns the home and the listeners of this server. [`serve`](Self::serve) adds the listeners.
    pub fn places(&self) -> &Arc<ServerPlaces> {
        &self.shared.places
    }

    /// Serves until the server is stopped or, over stdio, until the client disconnects.
    pub async fn serve(&self, listen: ListenAddress, auth: WsAuth) -> Result<(), ListenError> {
        self.join_cluster(ClusterDuty::AllThreads);
        // Fails for a second listener, whose clients are relayed with the token of the first.
        let _ = self.shared.cluster_auth.set(auth.clone());
        let result = listen.run(self, auth).await;
        self.stop().await;
        drop(self.socket_lock.lock().take());
        result
    }

    /// Starts what a server over a database does besides serving clients. [`serve`](Self::serve) does this itself; programs
    /// that connect to a server within their process call it once.
    pub fn join_cluster(&self, duty: ClusterDuty) {
        cluster::start(self, duty);
    }

    /// Lets the listeners of clients answer `/metrics`, to clients that may connect.
    pub fn show_metrics(&self) {
        self.shared.shows_metrics.store(true, Ordering::Relaxed);
    }

    pub(crate) fn shows_metrics(&self) -> bool {
        self.shared.shows_metrics.load(Ordering::Relaxed)
    }

    /// Serves `/metrics` on an address of its own until the server stops, to everyone who reaches it. Returns once it
    /// listens.
    pub async fn serve_metrics(&self, address: SocketAddr) -> Result<(), ListenError> {
        metrics::listen(self, address).await
    }

    /// Waits until a listener accepts connections. Never returns over stdio.
    pub async fn listening(&self) {
        self.listening.cancelled().await;
    }

    /// Waits until for `quiet_time` no client has been connected and no thread has worked.
    pub async fn idle(&self, quiet_time: Duration) {
        let mut connected = self.shared.clients.watch_count();
        // The channel never closes: its sender lives as long as the server.
        while connected.wait_for(|count| *count == 0).await.is_ok() {
            tokio::select! {
                _ = connected.wait_for(|count| *count > 0) => {}
                () = sleep(quiet_time) => {
                    if !self.is_working().await {
                        return;
                    }
                }
            }
        }
    }

    /// Returns whether a thread has a running turn or a background terminal. A turn that only waits for answers
    /// continues in the next process.
    async fn is_working(&self) -> bool {
        match self.shared.threads.get() {
            Some(threads) => threads.is_working().await,
            None => false,
        }
    }

    /// Starts the shutdown: no new messages are accepted, and queued messages are still sent.
    pub fn begin_stop(&self) {
        self.stopping.cancel();
    }

    /// Ends every connection and thread, and waits for their tasks.
    pub async fn stop(&self) {
        self.begin_stop();
        self.shared.clients.finish_all();
        self.tasks.close();
        if timeout(FLUSH_TIME, self.tasks.wait()).await.is_err() {
            tracing::warn!("dropped connections that did not end in time");
        }
        self.shared.background.stop().await;
        match self.shared.threads.get() {
            Some(threads) => threads.stop().await,
            None => cluster::leave(self).await,
        }
        // Sign-ins end at once, but a token exchange gets time to store its result.
        if timeout(FLUSH_TIME, self.shared.accounts.stop()).await.is_err() {
            tracing::warn!("a token exchange did not end in time");
        }
    }
}
