//! The pool: its servers, its warm threads, and closing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use codicil_client::{ApprovalDecision, ServerAddress, protocol::ThreadId};
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    agent::{Agent, AgentThread},
    counters::{PoolCounters, PoolCounts},
    error::PoolError,
    message::QuestionId,
    questions::OpenQuestions,
    server::PoolServer,
    settings::{PoolSettings, ServerSharing},
    warm_threads::{self, WarmThreads},
};

/// Agents on shared or separate servers. Clones share the pool; dropping the last one ends everything.
///
/// ```no_run
/// use codicil_agents::pool::{Pool, PoolSettings, ServerCommand, StreamMessage};
///
/// # async fn example() -> Result<(), codicil_agents::pool::PoolError> {
/// let server = ServerCommand::new("codicil").launch();
/// let settings = PoolSettings { instructions: "You are a desktop.".into(), ..PoolSettings::new(server) };
/// let pool = Pool::start(settings).await?;
/// let desktop = pool.agent().await?;
/// let mut reply = desktop.ask("What can you do?");
/// while let Some(message) = reply.next().await {
///     if let StreamMessage::Text { text } = message {
///         print!("{text}");
///     }
/// }
/// let window = desktop.window().await?; // a fork: it knows the conversation so far
/// println!("{}", window.ask("Say it shorter").text().await?);
/// pool.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pool(Arc<PoolGuard>);

/// Ends the pool when the last clone is dropped.
#[derive(Debug)]
struct PoolGuard(Arc<PoolShared>);

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        // Agents that still exist, and warm threads, must not keep servers running.
        self.0.warm.clear();
        for server in self.0.take_servers() {
            server.queue.close();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                // Not joined: the task ends within the time that a server has to close.
                drop(self.0.tasks.spawn_on(async move { server.close().await }, &runtime));
            }
        }
    }
}

/// The state that all parts of a pool share.
#[derive(Debug)]
pub(super) struct PoolShared {
    pub settings: PoolSettings,
    pub counters: Arc<PoolCounters>,
    pub questions: Arc<OpenQuestions>,
    pub warm: WarmThreads,
    pub closing: CancellationToken,
    /// The tasks that follow replies, and the task that keeps threads warm.
    pub tasks: TaskTracker,
    server_permits: Arc<Semaphore>,
    shared_server: Mutex<Option<Arc<PoolServer>>>,
    /// All live servers, to be closed.
    servers: Mutex<Vec<Weak<PoolServer>>>,
}

impl Pool {
    /// Starts the server, unless each agent gets its own, and the warm threads. A failure is returned, not retried.
    pub async fn start(settings: PoolSettings) -> Result<Self, PoolError> {
        let max_servers = match settings.sharing {
            ServerSharing::Shared => 1,
            ServerSharing::PerAgent { max_servers } => max_servers.clamp(1, Semaphore::MAX_PERMITS),
        };
        let counters = Arc::<PoolCounters>::default();
        let shared = Arc::new(PoolShared {
            settings,
            questions: Arc::new(OpenQuestions::new(counters.clone())),
            counters,
            warm: WarmThreads::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            server_permits: Arc::new(Semaphore::new(max_servers)),
            shared_server: Mutex::default(),
            servers: Mutex::default(),
        });
        let pool = Self(Arc::new(PoolGuard(shared.clone())));
        if shared.settings.sharing == ServerSharing::Shared {
            let server = shared.new_server(shared.settings.server.clone()).await?;
            *shared.shared_server.lock() = Some(server);
        }
        warm_threads::fill(&shared).await?;
        // Ends when the pool closes; the tracker waits for it.
        shared.tasks.spawn(warm_threads::keep_filled(shared.clone()));
        Ok(pool)
    }

    /// Returns an agent with the pool's instructions, on a warm thread if there is one.
    pub async fn agent(&self) -> Result<Agent, PoolError> {
        self.agent_with(self.0.0.settings.instructions.clone()).await
    }

    /// Returns an agent with its own instructions.
    pub async fn agent_with(&self, instructions: impl Into<String>) -> Result<Agent, PoolError> {
        let shared = self.open()?;
        let instructions = instructions.into();
        let is_usual = instructions == shared.settings.instructions;
        // With separate servers, the warm server is useful even if its thread does not fit.
        let can_use_warm = is_usual || shared.settings.sharing != ServerSharing::Shared;
        let Some(ready) = can_use_warm.then(|| shared.warm.take()).flatten() else {
            shared.counters.warm_misses.increment();
            let server = shared.assign_server().await?;
            return Ok(Agent::new(shared.clone(), server, AgentThread::new(instructions)));
        };
        shared.counters.warm_hits.increment();
        let started_with = shared.settings.instructions.clone();
        let thread = AgentThread::loaded(ready.thread, ready.generation, started_with, instructions);
        Ok(Agent::new(shared.clone(), ready.server, thread))
    }

    /// Returns an agent with a different server: other MCP servers, or another model. Requires
    /// [`ServerSharing::PerAgent`].
    pub async fn agent_at(
        &self,
        server: impl Into<ServerAddress>,
        instructions: impl Into<String>,
    ) -> Result<Agent, PoolError> {
        let shared = self.open()?;
        let server = shared.new_server(server.into()).await?;
        Ok(Agent::new(shared.clone(), server, AgentThread::new(instructions.into())))
    }

    /// Returns an agent that continues a stored thread. If the server no longer knows it, the first message starts a
    /// new one.
    pub async fn resume(&self, thread: &ThreadId) -> Result<Agent, PoolError> {
        let shared = self.open()?;
        let thread = AgentThread::stored(thread.clone(), shared.settings.instructions.clone());
        Ok(Agent::new(shared.clone(), shared.assign_server().await?, thread))
    }

    /// Answers an [`ApprovalRequest`](super::StreamMessage::ApprovalRequest). A decision that does not answer it is an
    /// error, and the question stays open.
    pub fn decide(&self, id: QuestionId, decision: ApprovalDecision) -> Result<(), PoolError> {
        self.0.0.questions.decide(id, decision)
    }

    /// Answers an [`InputRequest`](super::StreamMessage::InputRequest) with the labels of options, or other text, by
    /// question id.
    pub fn answer(&self, id: QuestionId, answers: BTreeMap<String, Vec<String>>) -> Result<(), PoolError> {
        self.0.0.questions.answer(id, answers)
    }

    /// Returns the number of warm threads.
    pub fn warm_threads(&self) -> usize {
        self.0.0.warm.len()
    }

    /// Returns the pool's counters. `tracing` spans and events with the target `codicil_agents` report the same.
    pub fn counts(&self) -> PoolCounts {
        let shared = &self.0.0;
        let servers = shared.servers.lock().clone();
        servers.iter().filter_map(Weak::upgrade).for_each(|server| server.count_restarts(shared));
        shared.counters.snapshot()
    }

    /// Ends every reply, server and directory, and waits until they have ended. Waiting messages fail.
    pub async fn close(&self) {
        let shared = &self.0.0;
        shared.closing.cancel();
        shared.tasks.close();
        let mut closing = JoinSet::new();
        for server in shared.take_servers() {
            server.queue.close();
            closing.spawn(async move { server.close().await });
        }
        shared.tasks.wait().await;
        while closing.join_next().await.is_some() {}
        // A server may have been started concurrently.
        for server in shared.take_servers() {
            server.close().await;
        }
        shared.warm.clear();
        shared.shared_server.lock().take();
    }

    fn open(&self) -> Result<&Arc<PoolShared>, PoolError> {
        let shared = &self.0.0;
        if shared.closing.is_cancelled() { Err(PoolError::Closed) } else { Ok(shared) }
    }
}

impl PoolShared {
    /// Returns the shared server, or a new one.
    pub async fn assign_server(&self) -> Result<Arc<PoolServer>, PoolError> {
        match self.settings.sharing {
            ServerSharing::Shared => self.shared_server.lock().clone().ok_or(PoolError::Closed),
            ServerSharing::PerAgent { .. } => self.new_server(self.settings.server.clone()).await,
        }
    }

    /// Takes the list of live servers.
    fn take_servers(&self) -> Vec<Arc<PoolServer>> {
        let servers = std::mem::take(&mut *self.servers.lock());
        servers.iter().filter_map(Weak::upgrade).collect()
    }

    async fn new_server(&self, address: ServerAddress) -> Result<Arc<PoolServer>, PoolError> {
        let max = match self.settings.sharing {
            ServerSharing::Shared => 1,
            ServerSharing::PerAgent { max_servers } => max_servers,
        };
        let permit = self.server_permits.clone().try_acquire_owned();
        let permit = permit.map_err(|_| PoolError::TooManyServers(max))?;
        let server = PoolServer::start(self, address, permit).await?;
        let mut servers = self.servers.lock();
        servers.retain(|server| server.strong_count() > 0);
        servers.push(Arc::downgrade(&server));
        Ok(server)
    }
}
