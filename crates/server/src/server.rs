//! The server as a whole: what all connections share, and how it begins and ends.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use codicil_accounts::Accounts;
use codicil_config::ConfigStore;
use codicil_engine::{EngineContext, Threads};
use codicil_model::{EnvironmentSource, ProviderContext};
use codicil_protocol::SessionSource;
use codicil_sandbox::ServerPlaces;
use codicil_store::Store;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    background::BackgroundTasks,
    clients::ClientRegistry,
    ephemeral::EphemeralThreads,
    feedback::Feedback,
    files::FileServices,
    inbound::InboundBudget,
    route::Router,
    router::router,
    transport::{ListenAddress, ListenError, auth::WsAuth},
};

/// What the server is told when it starts.
pub struct ServerSetup {
    pub config: ConfigStore,
    pub store: Store,
    /// Where threads work that name no directory.
    pub cwd: PathBuf,
    /// The version of the protocol that clients are told they talk to.
    pub announced_version: String,
    /// Whether a websocket that others can reach may do without authentication.
    pub allow_unauthenticated: bool,
}

/// The version of the protocol this server speaks.
pub const PROTOCOL_VERSION: &str = "0.118.0";

pub struct ServerShared {
    pub setup: ServerSetup,
    pub clients: ClientRegistry,
    pub router: Router,
    pub background: BackgroundTasks,
    pub accounts: Accounts,
    pub files: FileServices,
    pub feedback: Feedback,
    /// The home and the listeners, which confined commands cannot reach.
    pub places: Arc<ServerPlaces>,
    pub inbound: Arc<InboundBudget>,
    pub ephemeral_threads: Arc<EphemeralThreads>,
    environment: EnvironmentSource,
    source: SessionSource,
    threads: OnceLock<Threads>,
}

impl ServerShared {
    /// The directory with configuration, credentials and threads.
    pub fn home(&self) -> &Path {
        self.setup.config.home().path()
    }

    /// The threads of this process. Made when they are first needed: most of what they share takes longer
    /// to set up than the rest of the server.
    pub fn threads(&self) -> &Threads {
        self.threads.get_or_init(|| {
            let models = ProviderContext {
                auth: Some(Arc::new(self.accounts.clone())),
                environment: self.environment.clone(),
                ..ProviderContext::default()
            };
            let mut world = EngineContext::new(
                self.setup.config.clone(),
                self.setup.store.clone(),
                Arc::new(self.clients.clone()),
                models,
                self.setup.cwd.clone(),
                self.setup.announced_version.clone(),
            );
            world.source = self.source.clone();
            world.server_places = self.places.clone();
            Threads::new(world)
        })
    }
}

impl std::fmt::Debug for ServerShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("home", &self.home()).finish_non_exhaustive()
    }
}

/// A running server. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) shared: Arc<ServerShared>,
    /// Owns every connection's tasks.
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
}

impl Server {
    pub fn new(setup: ServerSetup) -> Self {
        Self::with(setup, EnvironmentSource::default(), SessionSource::Vscode)
    }

    /// The same, for threads that do not come from a client of this protocol.
    pub fn with_source(setup: ServerSetup, source: SessionSource) -> Self {
        Self::with(setup, EnvironmentSource::default(), source)
    }

    /// The same, with other variables than those of the process.
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
            environment,
            source,
            threads: OnceLock::new(),
        };
        Self { shared: Arc::new(shared), tasks: TaskTracker::new(), stopping: CancellationToken::new() }
    }

    /// The home and the listeners of this server; [`serve`](Self::serve) adds the listeners.
    pub fn places(&self) -> &Arc<ServerPlaces> {
        &self.shared.places
    }

    /// Serves until the server is stopped or, over stdio, until its client goes away.
    pub async fn serve(&self, listen: ListenAddress, auth: WsAuth) -> Result<(), ListenError> {
        let result = listen.run(self, auth).await;
        self.stop().await;
        result
    }

    /// Asks the server to end: nothing new is taken, and what waits to be read may still be.
    pub fn begin_stop(&self) {
        self.stopping.cancel();
    }

    /// Ends every connection and waits for their tasks.
    pub async fn stop(&self) {
        self.begin_stop();
        self.shared.clients.finish_all();
        self.tasks.close();
        if tokio::time::timeout(crate::limits::FLUSH_TIME, self.tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time and are dropped");
        }
        self.shared.background.stop().await;
        if let Some(threads) = self.shared.threads.get() {
            threads.stop().await;
        }
        // Sign-ins end at once; tokens that are being exchanged are not thrown away lightly.
        if tokio::time::timeout(crate::limits::FLUSH_TIME, self.shared.accounts.stop()).await.is_err() {
            tracing::warn!("tokens were being exchanged when the server ended");
        }
    }
}
