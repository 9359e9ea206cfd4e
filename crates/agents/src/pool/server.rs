//! One server of the pool: supervised, with a directory of its own and a line of turns.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use codicil_client::{
    Client, ClientError, ServerAddress, Supervisor,
    protocol::{ThreadFork, ThreadForkParams, ThreadId, ThreadStart, ThreadStartParams},
};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    desk::{self, QuestionBroker},
    error::PoolError,
    handle::{PoolShared, locked},
    line::TurnQueue,
    settings::{DefaultDirectory, PoolSettings, TurnScheduling},
};

#[derive(Debug)]
pub(super) struct PoolServer {
    // Before the directory: what runs in it goes first.
    pub supervisor: Supervisor,
    pub line: TurnQueue,
    pub desk: Arc<QuestionBroker>,
    /// The newest connection that somebody has used.
    seen: AtomicU64,
    cwd: Option<String>,
    folder: Mutex<Option<TempDir>>,
    /// Among all servers that may run.
    _place: OwnedSemaphorePermit,
}

impl PoolServer {
    pub async fn start(
        shared: &PoolShared,
        address: ServerAddress,
        place: OwnedSemaphorePermit,
    ) -> Result<Arc<Self>, PoolError> {
        let settings = &shared.settings;
        let folder = match &settings.directory {
            DefaultDirectory::Isolated => Some(isolated().await?),
            DefaultDirectory::At(_) | DefaultDirectory::Servers => None,
        };
        let cwd = match (&settings.directory, &folder) {
            (DefaultDirectory::At(path), _) => Some(path.clone()),
            (_, folder) => folder.as_ref().map(|folder| folder.path().to_owned()),
        };
        let address = match (address, &cwd) {
            (ServerAddress::Launch(launch), Some(cwd)) => launch.cwd(cwd).into(),
            (address, _) => address,
        };
        let desk = QuestionBroker::new(shared.questions.clone(), settings.answer_within);
        let client = settings.client.clone().handler(desk::handler(&desk)).tools(settings.tools.clone());
        let supervisor = Supervisor::start(client, address, settings.supervision.clone()).await?;
        shared.counters.servers_started.one();
        Ok(Arc::new(Self {
            supervisor,
            line: TurnQueue::new(first_limit(settings)),
            desk,
            seen: AtomicU64::new(0),
            cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            folder: Mutex::new(folder),
            _place: place,
        }))
    }

    /// A connection and its number. Restarts that nobody had noticed before are counted, and the threads that
    /// stood ready are made again.
    pub async fn connection(&self, shared: &PoolShared) -> Result<(Client, u64), ClientError> {
        let (client, generation) = self.supervisor.connection().await?;
        let restarts = generation.saturating_sub(self.seen.fetch_max(generation, Ordering::Relaxed));
        if restarts > 0 {
            shared.counters.restarts.add(restarts);
            shared.warm.refresh();
        }
        Ok((client, generation))
    }

    /// Lets more turns run, or fewer, after what has been heard of the server.
    pub fn listen(&self, client: &Client, settings: &PoolSettings) {
        if settings.scheduling == TurnScheduling::Detect {
            match client.names_threads() {
                Some(true) => self.line.set_limit(settings.max_parallel_turns),
                Some(false) => self.line.set_limit(1),
                None => {}
            }
        }
    }

    pub async fn start_thread(
        &self,
        client: &Client,
        settings: &PoolSettings,
        instructions: &str,
    ) -> Result<ThreadId, ClientError> {
        let mut params = ThreadStartParams { cwd: self.cwd.clone(), ..settings.thread.clone() };
        params.cwd = settings.thread.cwd.clone().or(params.cwd);
        if !instructions.is_empty() {
            params.base_instructions = Some(instructions.to_owned());
        }
        if params.dynamic_tools.is_none() && !settings.tools.is_empty() {
            params.dynamic_tools = Some(settings.tools.specs().into_iter().map(Into::into).collect());
        }
        Ok(client.call::<ThreadStart>(params).await?.thread.id)
    }

    pub async fn fork_thread(
        &self,
        client: &Client,
        settings: &PoolSettings,
        source: &ThreadId,
    ) -> Result<ThreadId, ClientError> {
        let given = settings.thread.clone();
        let params = ThreadForkParams {
            model: given.model,
            model_provider: given.model_provider,
            cwd: given.cwd.or_else(|| self.cwd.clone()),
            approval_policy: given.approval_policy,
            approvals_reviewer: given.approvals_reviewer,
            sandbox: given.sandbox,
            config: given.config,
            ephemeral: given.ephemeral,
            ..ThreadForkParams::new(source.clone())
        };
        Ok(client.call::<ThreadFork>(params).await?.thread.id)
    }

    /// Sends away who waits, ends the server and removes its directory.
    pub async fn close(&self) {
        self.line.close();
        self.supervisor.close().await;
        let folder = locked(&self.folder).take();
        if let Some(folder) = folder {
            let removed = tokio::task::spawn_blocking(move || folder.close()).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!("a working directory is left behind: {error}");
            }
        }
    }
}

fn first_limit(settings: &PoolSettings) -> usize {
    match settings.scheduling {
        TurnScheduling::Parallel => settings.max_parallel_turns,
        TurnScheduling::Detect | TurnScheduling::OneAtATime => 1,
    }
}

/// An empty directory that nobody else can look into.
async fn isolated() -> std::io::Result<TempDir> {
    let make = || {
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        builder.prefix("codicil-").tempdir()
    };
    tokio::task::spawn_blocking(make).await.map_err(std::io::Error::other)?
}
