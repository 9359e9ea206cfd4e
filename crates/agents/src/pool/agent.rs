//! An agent: a conversation that goes on, whatever happens to its server.

use std::sync::Arc;

use codicil_client::{
    Client, ClientError, IntoInput,
    protocol::{
        ThreadArchive, ThreadArchiveParams, ThreadId, ThreadResume, ThreadUnsubscribe,
        ThreadUnsubscribeParams,
    },
    resume,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    error::PoolError,
    handle::{PoolShared, locked},
    line::TurnQueue,
    outbox::MessageOutbox,
    reply::ReplyStream,
    run::{RunPermit, TurnRun},
    server::PoolServer,
};

/// One conversation: the desktop's own, or a window's. Clones are the same one.
///
/// Its messages are answered one after the other. When the last clone is dropped its thread is let go of.
#[derive(Clone, Debug)]
pub struct Agent(Arc<AgentInner>);

#[derive(Debug)]
pub(super) struct AgentInner {
    pub shared: Arc<PoolShared>,
    pub server: Arc<PoolServer>,
    /// Messages of this agent.
    pub line: TurnQueue,
    /// Cancelled when the agent is disposed of, or its pool closed.
    pub disposed: CancellationToken,
    session: Mutex<AgentThread>,
    /// Stops all replies under way.
    stop: Mutex<CancellationToken>,
}

/// The thread of a conversation, as far as it is known.
#[derive(Clone, Debug)]
pub(super) struct AgentThread {
    thread: Option<ThreadId>,
    /// The connection that it is loaded on; `None` when it has to be loaded first.
    generation: Option<u64>,
    /// What the thread was started with.
    started_with: String,
    /// What it is to be started with. Instructions count from a thread's beginning.
    instructions: String,
}

impl AgentThread {
    pub fn new(instructions: String) -> Self {
        Self { thread: None, generation: None, started_with: instructions.clone(), instructions }
    }

    pub fn loaded(thread: ThreadId, generation: u64, started_with: String, instructions: String) -> Self {
        Self { thread: Some(thread), generation: Some(generation), started_with, instructions }
    }

    pub fn stored(thread: ThreadId, instructions: String) -> Self {
        Self { thread: Some(thread), ..Self::new(instructions) }
    }

    fn step(&self, generation: u64) -> NextStep {
        match &self.thread {
            Some(old) if self.started_with != self.instructions => NextStep::Replace(old.clone()),
            Some(thread) if self.generation == Some(generation) => NextStep::Use(thread.clone()),
            Some(thread) => NextStep::Load(thread.clone()),
            None => NextStep::Start,
        }
    }
}

/// What has to be done before a turn can start.
#[derive(Debug, PartialEq)]
enum NextStep {
    Use(ThreadId),
    Load(ThreadId),
    Replace(ThreadId),
    Start,
}

impl Agent {
    pub(super) fn new(shared: Arc<PoolShared>, server: Arc<PoolServer>, session: AgentThread) -> Self {
        let disposed = shared.closing.child_token();
        Self(Arc::new(AgentInner {
            shared,
            server,
            line: TurnQueue::new(1),
            stop: Mutex::new(disposed.child_token()),
            disposed,
            session: Mutex::new(session),
        }))
    }

    /// Sends a message, in line behind those sent before, and returns its reply at once. Dropping the reply
    /// stops the turn.
    pub fn ask(&self, input: impl IntoInput) -> ReplyStream {
        let inner = &self.0;
        let outbox = Arc::new(MessageOutbox::new(inner.shared.settings.reply_bytes));
        let stop = locked(&inner.stop).child_token();
        let run = TurnRun {
            agent: inner.clone(),
            input: input.into_input(),
            outbox: outbox.clone(),
            stop: stop.clone(),
        };
        // Ends with its turn, soon after `stop`, and with the pool, whose tracker waits for it.
        inner.shared.tasks.spawn(run.go(inner.line_up()));
        ReplyStream::new(outbox, stop)
    }

    /// A new conversation that knows what was said in this one so far, on the same server. If nothing was, it
    /// begins with the same instructions.
    pub async fn window(&self) -> Result<Self, PoolError> {
        let inner = &self.0;
        if inner.disposed.is_cancelled() {
            return Err(PoolError::Closed);
        }
        let mut session = locked(&inner.session).clone();
        if let Some(source) = session.thread.take() {
            let (client, generation) = inner.server.connection(&inner.shared).await?;
            match inner.server.fork_thread(&client, &inner.shared.settings, &source).await {
                Ok(thread) => {
                    inner.shared.counters.threads_forked.one();
                    (session.thread, session.generation) = (Some(thread), Some(generation));
                }
                // Some servers keep no thread that nothing was said in.
                Err(ClientError::ResponseError { error, .. }) => {
                    tracing::debug!("the window starts anew: {}", error.message);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if session.thread.is_none() {
            session = AgentThread::new(session.instructions);
        }
        Ok(Self::new(inner.shared.clone(), inner.server.clone(), session))
    }

    /// The thread, once there is one. It may be another after a crash, and after other instructions.
    pub fn session_id(&self) -> Option<ThreadId> {
        self.0.session_id()
    }

    /// Other instructions, from the next message on. That starts a new thread: instructions count from a
    /// thread's beginning.
    pub fn set_instructions(&self, instructions: impl Into<String>) {
        locked(&self.0.session).instructions = instructions.into();
    }

    /// Stops the turn that runs and all messages that wait. Their replies end as interrupted, at the latest
    /// after [`PoolSettings::interrupt_grace`](super::PoolSettings::interrupt_grace).
    pub fn interrupt(&self) {
        let fresh = self.0.disposed.child_token();
        let old = std::mem::replace(&mut *locked(&self.0.stop), fresh);
        old.cancel();
    }

    /// Ends the conversation: what runs is stopped, what waits fails, and the server forgets the thread. It
    /// stays stored under its [`session_id`](Self::session_id).
    pub async fn dispose(&self) {
        self.0.retire().await;
        if let (Some(thread_id), Some((client, _))) =
            (self.session_id(), self.0.server.supervisor.connected())
        {
            let answer = client.call::<ThreadUnsubscribe>(ThreadUnsubscribeParams { thread_id }).await;
            tracing::debug!(is_ok = answer.is_ok(), "let go of a thread");
        }
    }

    /// Disposes of it and puts its thread away, so that lists do not show it.
    pub async fn archive(&self) -> Result<(), PoolError> {
        self.0.retire().await;
        if let Some(thread_id) = self.session_id() {
            let (client, _) = self.0.server.connection(&self.0.shared).await?;
            client.call::<ThreadArchive>(ThreadArchiveParams { thread_id }).await?;
        }
        Ok(())
    }
}

impl AgentInner {
    /// A place in the line of this agent, and when it has come up in that of the server. Both are taken in the
    /// order of the calls; an agent with many messages waits in the server's line with one.
    fn line_up(&self) -> RunPermit {
        match self.line.try_join() {
            Some(mine) => {
                let servers = self.server.line.join();
                Box::pin(async move { Some((mine, servers.await?)) })
            }
            None => {
                let (mine, line) = (self.line.join(), self.server.line.clone());
                Box::pin(async move { Some((mine.await?, line.join().await?)) })
            }
        }
    }

    pub fn session_id(&self) -> Option<ThreadId> {
        locked(&self.session).thread.clone()
    }

    /// The thread's id on this connection, loaded or started if it has to be.
    pub async fn ready(&self, client: &Client, generation: u64) -> Result<ThreadId, ClientError> {
        let step = locked(&self.session).step(generation);
        match step {
            NextStep::Use(thread) => return Ok(thread),
            NextStep::Load(thread) => match client.call::<ThreadResume>(resume(&thread)).await {
                Ok(resumed) => {
                    self.shared.counters.threads_resumed.one();
                    return Ok(self.settle(resumed.thread.id, generation));
                }
                Err(ClientError::ResponseError { error, .. }) => {
                    tracing::warn!(%thread, "started anew, since it cannot be resumed: {}", error.message);
                    self.shared.counters.threads_invalidated.one();
                }
                Err(error) => return Err(error),
            },
            NextStep::Replace(old) => let_go(client, old),
            NextStep::Start => {}
        }
        let instructions = locked(&self.session).instructions.clone();
        let thread = self.server.start_thread(client, &self.shared.settings, &instructions).await?;
        self.shared.counters.threads_started.one();
        locked(&self.session).started_with = instructions;
        Ok(self.settle(thread, generation))
    }

    /// The server does not know the thread any more; the next turn starts another.
    pub fn invalidate(&self) {
        self.shared.counters.threads_invalidated.one();
        let mut session = locked(&self.session);
        (session.thread, session.generation) = (None, None);
    }

    fn settle(&self, thread: ThreadId, generation: u64) -> ThreadId {
        let mut session = locked(&self.session);
        (session.thread, session.generation) = (Some(thread.clone()), Some(generation));
        thread
    }

    /// Nothing new is taken; waits until the turn that runs has ended.
    async fn retire(&self) {
        let last = self.line.join();
        self.disposed.cancel();
        drop(last.await);
    }
}

impl Drop for AgentInner {
    fn drop(&mut self) {
        self.disposed.cancel();
        if let (Some(thread), Some((client, _))) = (self.session_id(), self.server.supervisor.connected()) {
            let_go(&client, thread);
        }
    }
}

/// The request is on its way when this returns; nobody needs the answer.
fn let_go(client: &Client, thread_id: ThreadId) {
    drop(client.call::<ThreadUnsubscribe>(ThreadUnsubscribeParams { thread_id }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_turn_needs_depends_on_thread_connection_and_instructions() {
        let check =
            |session: AgentThread, expected: NextStep| assert_eq!(session.step(3), expected, "{session:?}");
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
