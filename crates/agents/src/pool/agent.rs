//! An agent: a conversation that survives crashes of its server.

use std::sync::Arc;

use codicil_client::{
    Client, ClientError, IntoInput,
    protocol::{
        ThreadArchive, ThreadArchiveParams, ThreadId, ThreadUnsubscribe, ThreadUnsubscribeParams, TurnId,
        TurnStartParams,
    },
    turn,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    error::PoolError,
    handle::PoolShared,
    reply::{MessageOutbox, ReplyStream},
    run::{RunPermit, TurnRun},
    server::PoolServer,
    turn_queue::TurnQueue,
};

/// A conversation: the desktop's own, or that of a window. Clones share the conversation.
///
/// Its messages are answered one after the other. When the last clone is dropped, the client unsubscribes from the
/// thread.
#[derive(Clone, Debug)]
pub struct Agent(Arc<AgentInner>);

#[derive(Debug)]
pub(super) struct AgentInner {
    pub shared: Arc<PoolShared>,
    pub server: Arc<PoolServer>,
    /// The messages of this agent.
    pub queue: TurnQueue,
    /// Cancelled when the agent is disposed of or its pool closes.
    pub disposed: CancellationToken,
    thread: Mutex<AgentThread>,
    /// Stops all current replies.
    stop: Mutex<CancellationToken>,
    /// The running turn, for input that is added to it.
    running: Mutex<Option<RunningRef>>,
}

/// The turn that an agent is running.
#[derive(Clone, Debug)]
pub(super) struct RunningRef {
    pub client: Client,
    pub thread: ThreadId,
    pub turn: TurnId,
}

/// Returns a message for [`Agent::ask_with`] without settings of its own. The agent fills in the thread.
///
/// ```
/// use codicil_agents::{client::protocol::{ReasoningEffort, TurnStartParams}, pool::message};
///
/// let params = TurnStartParams { effort: Some(ReasoningEffort::High), ..message("Think hard") };
/// ```
pub fn message(input: impl IntoInput) -> TurnStartParams {
    turn(&"".into(), input)
}

/// The thread of a conversation, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct AgentThread {
    id: Option<ThreadId>,
    /// The generation of the connection on which it is loaded; `None` if it must be loaded first.
    generation: Option<u64>,
    /// The instructions with which the thread was started.
    started_with: String,
    /// The instructions that it should have. They take effect only when a thread is started.
    instructions: String,
}

impl AgentThread {
    pub fn new(instructions: String) -> Self {
        Self { id: None, generation: None, started_with: instructions.clone(), instructions }
    }

    pub fn loaded(id: ThreadId, generation: u64, started_with: String, instructions: String) -> Self {
        Self { id: Some(id), generation: Some(generation), started_with, instructions }
    }

    pub fn stored(id: ThreadId, instructions: String) -> Self {
        Self { id: Some(id), ..Self::new(instructions) }
    }

    fn set_loaded(&mut self, id: ThreadId, generation: u64) {
        self.id = Some(id);
        self.generation = Some(generation);
    }

    fn next_step(&self, generation: u64) -> NextStep {
        match &self.id {
            Some(old) if self.started_with != self.instructions => NextStep::Replace(old.clone()),
            Some(id) if self.generation == Some(generation) => NextStep::Use(id.clone()),
            Some(id) => NextStep::Load(id.clone()),
            None => NextStep::Start,
        }
    }
}

/// What must be done before a turn can start.
#[derive(Debug, PartialEq)]
enum NextStep {
    Use(ThreadId),
    Load(ThreadId),
    Replace(ThreadId),
    Start,
}

impl Agent {
    pub(super) fn new(shared: Arc<PoolShared>, server: Arc<PoolServer>, thread: AgentThread) -> Self {
        let disposed = shared.closing.child_token();
        Self(Arc::new(AgentInner {
            shared,
            server,
            queue: TurnQueue::new(1),
            stop: Mutex::new(disposed.child_token()),
            running: Mutex::default(),
            disposed,
            thread: Mutex::new(thread),
        }))
    }

    /// Sends a message, behind those sent before, and returns its reply at once. Dropping the reply stops the turn.
    pub fn ask(&self, input: impl IntoInput) -> ReplyStream {
        self.ask_with(message(input))
    }

    /// Sends a message with settings of its own: model, effort, sandbox, output schema, …; see [`message`]. As in the
    /// protocol, all of them but the output schema also apply to later messages of this agent. The thread id is
    /// ignored.
    pub fn ask_with(&self, params: TurnStartParams) -> ReplyStream {
        let inner = &self.0;
        let outbox = Arc::new(MessageOutbox::new(inner.shared.settings.reply_bytes));
        let stop = inner.stop.lock().child_token();
        let run = TurnRun { agent: inner.clone(), params, outbox: outbox.clone(), stop: stop.clone() };
        // Ends with its turn, soon after `stop`, and with the pool, whose tracker waits for it.
        inner.shared.tasks.spawn(run.run_to_end(inner.join_queues()));
        ReplyStream::new(outbox, stop)
    }

    /// Adds input to the running turn, which takes it into account as soon as the model can. Returns
    /// [`PoolError::NoTurn`] if no turn is running.
    pub async fn steer(&self, input: impl IntoInput) -> Result<(), PoolError> {
        let running = self.0.running.lock().clone().ok_or(PoolError::NoTurn)?;
        running.client.steer_turn(&running.thread, &running.turn, input).await?;
        Ok(())
    }

    /// Forks the conversation, on the same server. If there was no message yet, the new one starts with the same
    /// instructions.
    pub async fn window(&self) -> Result<Self, PoolError> {
        let inner = &self.0;
        if inner.disposed.is_cancelled() {
            return Err(PoolError::Closed);
        }
        let mut thread = inner.thread.lock().clone();
        if let Some(source) = thread.id.take() {
            let connection = inner.server.connection(&inner.shared).await?;
            match inner.server.fork_thread(&connection.client, &inner.shared.settings, &source).await {
                Ok(id) => {
                    inner.shared.counters.threads_forked.increment();
                    thread.set_loaded(id, connection.generation);
                }
                // Some servers do not store a thread without messages.
                Err(ClientError::ResponseError { error, .. }) => {
                    tracing::debug!("cannot fork the thread, starting a new one: {}", error.message);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if thread.id.is_none() {
            thread = AgentThread::new(thread.instructions);
        }
        Ok(Self::new(inner.shared.clone(), inner.server.clone(), thread))
    }

    /// Returns the thread, once there is one. It changes after a crash that lost it, and after a change of
    /// instructions.
    pub fn session_id(&self) -> Option<ThreadId> {
        self.0.session_id()
    }

    /// Changes the instructions from the next message on. That message starts a new thread, since instructions take
    /// effect only when a thread is started.
    pub fn set_instructions(&self, instructions: impl Into<String>) {
        self.0.thread.lock().instructions = instructions.into();
    }

    /// Interrupts the running turn and all waiting messages. Their replies end as interrupted, at the latest after
    /// [`PoolSettings::interrupt_grace`](super::PoolSettings::interrupt_grace).
    pub fn interrupt(&self) {
        let fresh = self.0.disposed.child_token();
        let old = std::mem::replace(&mut *self.0.stop.lock(), fresh);
        old.cancel();
    }

    /// Ends the conversation: the running turn is stopped, waiting messages fail, and the client unsubscribes from the
    /// thread. The thread stays stored under its [`session_id`](Self::session_id).
    pub async fn dispose(&self) {
        self.0.retire().await;
        if let Some(thread_id) = self.session_id()
            && let Some((client, _)) = self.0.server.supervisor.connected()
        {
            let answer = client.call::<ThreadUnsubscribe>(ThreadUnsubscribeParams { thread_id }).await;
            tracing::debug!(is_ok = answer.is_ok(), "unsubscribed from a thread");
        }
    }

    /// Disposes of the agent and archives its thread, so that lists do not show it.
    pub async fn archive(&self) -> Result<(), PoolError> {
        self.0.retire().await;
        if let Some(thread_id) = self.session_id() {
            let connection = self.0.server.connection(&self.0.shared).await?;
            connection.client.call::<ThreadArchive>(ThreadArchiveParams { thread_id }).await?;
        }
        Ok(())
    }
}

impl AgentInner {
    /// Joins the queue of this agent, and then that of the server. Both are joined in the order of the calls; an agent
    /// with many messages waits in the server's queue with one of them.
    fn join_queues(&self) -> RunPermit {
        match self.queue.try_join() {
            Some(agent_permit) => {
                let server_permit = self.server.queue.join();
                Box::pin(async move { Some((agent_permit, server_permit.await?)) })
            }
            None => {
                let agent_permit = self.queue.join();
                let server_queue = self.server.queue.clone();
                Box::pin(async move { Some((agent_permit.await?, server_queue.join().await?)) })
            }
        }
    }

    pub fn session_id(&self) -> Option<ThreadId> {
        self.thread.lock().id.clone()
    }

    /// Returns the thread's id on this connection, after loading or starting it if necessary.
    pub async fn prepare_thread(&self, client: &Client, generation: u64) -> Result<ThreadId, ClientError> {
        let step = self.thread.lock().next_step(generation);
        match step {
            NextStep::Use(thread) => return Ok(thread),
            NextStep::Load(thread) => {
                match self.server.resume_thread(client, &self.shared.settings, &thread).await {
                    Ok(resumed) => {
                        self.shared.counters.threads_resumed.increment();
                        self.thread.lock().set_loaded(resumed.clone(), generation);
                        return Ok(resumed);
                    }
                    Err(ClientError::ResponseError { error, .. }) => {
                        tracing::warn!(%thread, "cannot resume the thread, starting a new one: {}", error.message);
                        self.shared.counters.threads_invalidated.increment();
                    }
                    Err(error) => return Err(error),
                }
            }
            NextStep::Replace(old) => unsubscribe(client, old),
            NextStep::Start => {}
        }
        let instructions = self.thread.lock().instructions.clone();
        let id = self.server.start_thread(client, &self.shared.settings, &instructions).await?;
        self.shared.counters.threads_started.increment();
        let mut thread = self.thread.lock();
        thread.started_with = instructions;
        thread.set_loaded(id.clone(), generation);
        Ok(id)
    }

    pub fn set_running(&self, running: Option<RunningRef>) {
        *self.running.lock() = running;
    }

    /// Discards the thread that the server no longer knows. The next turn starts a new one.
    pub fn discard_thread(&self) {
        self.shared.counters.threads_invalidated.increment();
        let mut thread = self.thread.lock();
        thread.id = None;
        thread.generation = None;
    }

    /// Refuses new messages and waits for the end of the running turn.
    async fn retire(&self) {
        let last = self.queue.join();
        self.disposed.cancel();
        drop(last.await);
    }
}

impl Drop for AgentInner {
    fn drop(&mut self) {
        self.disposed.cancel();
        if let Some(thread) = self.session_id()
            && let Some((client, _)) = self.server.supervisor.connected()
        {
            unsubscribe(&client, thread);
        }
    }
}

/// Queues the request and ignores its response.
fn unsubscribe(client: &Client, thread_id: ThreadId) {
    drop(client.call::<ThreadUnsubscribe>(ThreadUnsubscribeParams { thread_id }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_depends_on_thread_connection_and_instructions() {
        let check =
            |thread: AgentThread, expected: NextStep| assert_eq!(thread.next_step(3), expected, "{thread:?}");
        let loaded = |generation: u64, wanted: &str| {
            AgentThread::loaded("t".into(), generation, "be kind".into(), wanted.into())
        };
        check(AgentThread::new("be kind".into()), NextStep::Start);
        check(loaded(3, "be kind"), NextStep::Use("t".into()));
        check(loaded(2, "be kind"), NextStep::Load("t".into()));
        check(loaded(3, "be brief"), NextStep::Replace("t".into()));
        check(loaded(2, "be brief"), NextStep::Replace("t".into()));
        check(AgentThread::stored("t".into(), "be kind".into()), NextStep::Load("t".into()));
    }
}
