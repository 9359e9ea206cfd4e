//! A server of the pool: supervised, with its own directory and turn queue.

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
    error::PoolError,
    handle::PoolShared,
    questions::{self, QuestionBroker},
    settings::{DefaultDirectory, PoolSettings, TurnScheduling},
    turn_queue::TurnQueue,
};

#[derive(Debug)]
pub(super) struct PoolServer {
    // Dropped before the directory, since its processes run there.
    pub supervisor: Supervisor,
    pub queue: TurnQueue,
    pub broker: Arc<QuestionBroker>,
    /// The newest generation that was used.
    newest_generation: AtomicU64,
    cwd: Option<String>,
    directory: Mutex<Option<TempDir>>,
    /// Counts towards the maximum number of servers.
    _permit: OwnedSemaphorePermit,
}

impl PoolServer {
    pub async fn start(
        shared: &PoolShared,
        address: ServerAddress,
        permit: OwnedSemaphorePermit,
    ) -> Result<Arc<Self>, PoolError> {
        let settings = &shared.settings;
        let directory = match &settings.directory {
            DefaultDirectory::Isolated => Some(isolated_directory().await?),
            DefaultDirectory::At(_) | DefaultDirectory::ServerDefault => None,
        };
        let cwd = match (&settings.directory, &directory) {
            (DefaultDirectory::At(path), _) => Some(path.clone()),
            (_, directory) => directory.as_ref().map(|directory| directory.path().to_owned()),
        };
        let address = match (address, &cwd) {
            (ServerAddress::Launch(launch), Some(cwd)) => launch.cwd(cwd).into(),
            (address, _) => address,
        };
        let broker = QuestionBroker::new(shared.questions.clone(), settings.answer_within);
        let client =
            settings.client.clone().handler(questions::handler(&broker)).tools(settings.tools.clone());
        let supervisor = Supervisor::start(client, address, settings.restart_limits.clone()).await?;
        shared.counters.servers_started.increment();
        Ok(Arc::new(Self {
            supervisor,
            queue: TurnQueue::new(initial_limit(settings)),
            broker,
            newest_generation: AtomicU64::new(0),
            cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            directory: Mutex::new(directory),
            _permit: permit,
        }))
    }

    /// Returns the connection and its generation. Counts restarts since the last use, and has lost warm threads
    /// replaced.
    pub async fn connection(&self, shared: &PoolShared) -> Result<(Client, u64), ClientError> {
        let (client, generation) = self.supervisor.connection().await?;
        let restarts =
            generation.saturating_sub(self.newest_generation.fetch_max(generation, Ordering::Relaxed));
        if restarts > 0 {
            shared.counters.restarts.add(restarts);
            shared.warm.refresh();
        }
        Ok((client, generation))
    }

    /// Adapts the turn limit to what is known about the server's notifications.
    pub fn adapt_turn_limit(&self, client: &Client, settings: &PoolSettings) {
        if settings.scheduling == TurnScheduling::Detect {
            match client.names_threads() {
                Some(true) => self.queue.set_limit(settings.max_parallel_turns),
                Some(false) => self.queue.set_limit(1),
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

    /// Fails waiting turns, ends the server and removes its directory.
    pub async fn close(&self) {
        self.queue.close();
        self.supervisor.close().await;
        let directory = self.directory.lock().take();
        if let Some(directory) = directory {
            let removed = tokio::task::spawn_blocking(move || directory.close()).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!("failed to remove a working directory: {error}");
            }
        }
    }
}

fn initial_limit(settings: &PoolSettings) -> usize {
    match settings.scheduling {
        TurnScheduling::Parallel => settings.max_parallel_turns,
        TurnScheduling::Detect | TurnScheduling::OneAtATime => 1,
    }
}

/// Creates an empty directory that only its owner can access.
async fn isolated_directory() -> std::io::Result<TempDir> {
    let make = || {
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        builder.prefix("codicil-").tempdir()
    };
    tokio::task::spawn_blocking(make).await.map_err(std::io::Error::other)?
}
