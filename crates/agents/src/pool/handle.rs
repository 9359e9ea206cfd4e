//! The pool itself: its servers, its threads that stand ready, and its end.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use codicil_client::{ApprovalDecision, ServerAddress, protocol::ThreadId};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    agent::{Agent, AgentThread},
    counters::{PoolCounters, PoolCounts},
    desk::OpenQuestions,
    error::PoolError,
    message::QuestionId,
    server::PoolServer,
    settings::{PoolSettings, ServerSharing},
    warm::{self, WarmThreads},
};

/// Agents on shared or own servers. Clones are the same pool; when the last is dropped, everything ends.
///
/// ```no_run
/// use codicil_agents::pool::{Pool, ServerCommand, PoolSettings, StreamMessage};
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
/// let window = desktop.window().await?; // knows what was said, and goes its own way from here
/// println!("{}", window.ask("Say it shorter").text().await?);
/// pool.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Pool(Arc<PoolGuard>);

/// Ends the pool with its last clone.
#[derive(Debug)]
struct PoolGuard(Arc<PoolShared>);

impl Drop for PoolGuard {
    fn drop(&mut self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        // Agents that are still held must not keep servers going, nor may threads that stand ready.
        self.0.warm.clear();
        for server in self.0.all_servers() {
            server.line.close();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                // Ends within the time that a server has to close.
                drop(self.0.tasks.spawn_on(async move { server.close().await }, &runtime));
            }
        }
    }
}

/// What everything in a pool knows.
#[derive(Debug)]
pub(super) struct PoolShared {
    pub settings: PoolSettings,
    pub counters: Arc<PoolCounters>,
    pub questions: Arc<OpenQuestions>,
    pub warm: WarmThreads,
    pub closing: CancellationToken,
    /// Replies that are being followed, and the task that makes threads ready.
    pub tasks: TaskTracker,
    places: Arc<Semaphore>,
    common: Mutex<Option<Arc<PoolServer>>>,
    /// Every server that lives, to be closed.
    servers: Mutex<Vec<Weak<PoolServer>>>,
}

impl Pool {
    /// Starts the server, unless each agent gets its own, and makes threads ready. A failure here is not
    /// repeated.
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
            places: Arc::new(Semaphore::new(max_servers)),
            common: Mutex::default(),
            servers: Mutex::default(),
        });
        let pool = Self(Arc::new(PoolGuard(shared.clone())));
        if shared.settings.sharing == ServerSharing::Shared {
            let server = shared.new_server(shared.settings.server.clone()).await?;
            *locked(&shared.common) = Some(server);
        }
        warm::fill(&shared).await?;
        // Ends when the pool closes; its tracker waits for it.
        shared.tasks.spawn(warm::keep_filled(shared.clone()));
        Ok(pool)
    }

    /// An agent with the pool's instructions, on a thread that stood ready if there was one.
    pub async fn agent(&self) -> Result<Agent, PoolError> {
        self.agent_with(self.0.0.settings.instructions.clone()).await
    }

    /// An agent with instructions of its own.
    pub async fn agent_with(&self, instructions: impl Into<String>) -> Result<Agent, PoolError> {
        let shared = self.open()?;
        let instructions = instructions.into();
        let is_usual = instructions == shared.settings.instructions;
        // A server of its own is worth having even where its thread does not fit.
        let ready = match is_usual || shared.settings.sharing != ServerSharing::Shared {
            true => shared.warm.take(),
            false => None,
        };
        let count = if ready.is_some() { &shared.counters.warm_hits } else { &shared.counters.warm_misses };
        count.one();
        let (server, session) = match ready {
            Some(ready) => {
                let started_with = shared.settings.instructions.clone();
                (
                    ready.server,
                    AgentThread::loaded(ready.thread, ready.generation, started_with, instructions),
                )
            }
            None => (shared.a_server().await?, AgentThread::new(instructions)),
        };
        Ok(Agent::new(shared.clone(), server, session))
    }

    /// An agent with a server of another kind: other MCP servers, another model. Only with
    /// [`Sharing::PerAgent`]; shared servers are all the same.
    pub async fn agent_at(
        &self,
        server: impl Into<ServerAddress>,
        instructions: impl Into<String>,
    ) -> Result<Agent, PoolError> {
        let shared = self.open()?;
        let server = shared.new_server(server.into()).await?;
        Ok(Agent::new(shared.clone(), server, AgentThread::new(instructions.into())))
    }

    /// An agent that goes on with a stored thread. Should the server no longer know it, the first message
    /// starts another.
    pub async fn resume(&self, thread: &ThreadId) -> Result<Agent, PoolError> {
        let shared = self.open()?;
        let session = AgentThread::stored(thread.clone(), shared.settings.instructions.clone());
        Ok(Agent::new(shared.clone(), shared.a_server().await?, session))
    }

    /// Answers an [`ApprovalRequest`](super::StreamMessage::ApprovalRequest).
    pub fn decide(&self, id: QuestionId, decision: ApprovalDecision) -> Result<(), PoolError> {
        match self.0.0.questions.decide(id, decision) {
            true => Ok(()),
            false => Err(PoolError::NotAsked(id)),
        }
    }

    /// Answers an [`InputRequest`](super::StreamMessage::InputRequest): labels of options, or other words, by
    /// the ids of the questions.
    pub fn answer(&self, id: QuestionId, answers: BTreeMap<String, Vec<String>>) -> Result<(), PoolError> {
        match self.0.0.questions.answer(id, answers) {
            true => Ok(()),
            false => Err(PoolError::NotAsked(id)),
        }
    }

    /// How many threads stand ready.
    pub fn warm(&self) -> usize {
        self.0.0.warm.len()
    }

    /// What has been done so far. The same is told as `tracing` events and spans, target `codicil_agents`.
    pub fn counts(&self) -> PoolCounts {
        self.0.0.counters.snapshot()
    }

    /// Ends every reply, every server and every directory, and waits until they have ended. Messages that
    /// wait for their turn get an error.
    pub async fn close(&self) {
        let shared = &self.0.0;
        shared.closing.cancel();
        shared.tasks.close();
        let mut closing = JoinSet::new();
        for server in shared.all_servers() {
            server.line.close();
            closing.spawn(async move { server.close().await });
        }
        shared.tasks.wait().await;
        while closing.join_next().await.is_some() {}
        // One may have been started at the same time.
        for server in shared.all_servers() {
            server.close().await;
        }
        shared.warm.clear();
        locked(&shared.common).take();
    }

    fn open(&self) -> Result<&Arc<PoolShared>, PoolError> {
        let shared = &self.0.0;
        if shared.closing.is_cancelled() { Err(PoolError::Closed) } else { Ok(shared) }
    }
}

impl PoolShared {
    /// The one that all share, or a new one.
    pub async fn a_server(&self) -> Result<Arc<PoolServer>, PoolError> {
        match self.settings.sharing {
            ServerSharing::Shared => locked(&self.common).clone().ok_or(PoolError::Closed),
            ServerSharing::PerAgent { .. } => self.new_server(self.settings.server.clone()).await,
        }
    }

    /// Those that still live; they are not known afterwards.
    fn all_servers(&self) -> Vec<Arc<PoolServer>> {
        let servers = std::mem::take(&mut *locked(&self.servers));
        servers.iter().filter_map(Weak::upgrade).collect()
    }

    async fn new_server(&self, address: ServerAddress) -> Result<Arc<PoolServer>, PoolError> {
        let max = match self.settings.sharing {
            ServerSharing::Shared => 1,
            ServerSharing::PerAgent { max_servers } => max_servers,
        };
        let place = self.places.clone().try_acquire_owned().map_err(|_| PoolError::TooManyServers(max))?;
        let server = PoolServer::start(self, address, place).await?;
        let mut servers = locked(&self.servers);
        servers.retain(|server| server.strong_count() > 0);
        servers.push(Arc::downgrade(&server));
        Ok(server)
    }
}

/// For plain values, which are whole at any time.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
