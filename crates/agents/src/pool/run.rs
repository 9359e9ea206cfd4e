//! One message of an agent, from its place in the queue to the end of its turn.

use std::{pin::Pin, sync::Arc, time::Duration};

use codicil_client::{
    Client, ClientError, ClientEvent, CompletedTurn, RunningTurn,
    protocol::{ThreadId, TurnInterrupt, TurnInterruptParams, TurnStartParams},
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    agent::{AgentInner, RunningRef},
    mapper::MessageMapper,
    message::{ReplyStatus, StreamMessage},
    questions::FollowedTurn,
    reply::MessageOutbox,
    server::ServerConnection,
    turn_queue::TurnPermit,
};

/// The pending permits of a turn: of the agent's queue, and of the server's.
pub(super) type RunPermit = Pin<Box<dyn Future<Output = Option<(TurnPermit, TurnPermit)>> + Send>>;

/// A message to run as a turn.
pub(super) struct TurnRun {
    pub agent: Arc<AgentInner>,
    /// The message. Its thread is that of the agent.
    pub params: TurnStartParams,
    pub outbox: Arc<MessageOutbox>,
    /// Cancelled when the turn is no longer wanted.
    pub stop: CancellationToken,
}

/// The outcome of one attempt.
enum TurnAttempt {
    Done(StreamMessage),
    /// The server crashed before the agent had started any work.
    Crashed(ClientError),
    /// The server does not know the thread.
    ThreadLost(ClientError),
}

impl TurnRun {
    pub async fn run_to_end(self, permits: RunPermit) {
        let ending = self.wait_and_run(permits).await;
        self.count(&ending);
        self.outbox.finish(ending);
    }

    async fn wait_and_run(&self, permits: RunPermit) -> StreamMessage {
        let waiting = self.agent.shared.counters.turns_waiting.count_while_held();
        let Some(_permits) = self.unless_stopped(permits).await else { return self.never_started() };
        drop(waiting);
        let _running = self.agent.shared.counters.turns_running.count_while_held();
        let thread = self.agent.session_id();
        let span = tracing::info_span!(target: "codicil_agents", "turn", thread = thread.as_deref());
        self.run().instrument(span).await
    }

    /// Runs the turn. Repeats it once after a crash, and once with a new thread.
    async fn run(&self) -> StreamMessage {
        let mut has_crashed = false;
        let mut has_lost_thread = false;
        loop {
            let (error, is_repeated) = match self.attempt().await {
                TurnAttempt::Done(ending) => return ending,
                TurnAttempt::Crashed(error) => (error, std::mem::replace(&mut has_crashed, true)),
                TurnAttempt::ThreadLost(error) => {
                    self.agent.discard_thread();
                    (error, std::mem::replace(&mut has_lost_thread, true))
                }
            };
            if is_repeated {
                return StreamMessage::failure(&error);
            }
            tracing::warn!(target: "codicil_agents", "repeating the turn: {error}");
            self.agent.shared.counters.turns_retried.increment();
        }
    }

    async fn attempt(&self) -> TurnAttempt {
        let (connection, thread) = match self.unless_stopped(async { Some(self.prepare().await) }).await {
            Some(Ok(prepared)) => prepared,
            Some(Err(failed)) => return failed,
            None => return TurnAttempt::Done(self.never_started()),
        };
        let client = connection.client.clone();
        let questions = self.agent.server.broker.follow(&thread);
        let running = match self.start(&client, &thread).await {
            Some(Ok(running)) => running,
            Some(Err(error)) => return TurnAttempt::of_start(error),
            None => return TurnAttempt::Done(self.never_started()),
        };
        self.agent.shared.counters.turns_started.increment();
        tracing::debug!(target: "codicil_agents", session = running.session_id(), "turn started");
        let turn = running.id().clone();
        self.agent.set_running(Some(RunningRef { client: client.clone(), thread, turn }));
        let attempt = self.follow(&client, running, questions).await;
        self.agent.set_running(None);
        attempt
    }

    /// Returns a connection, and the thread loaded on it.
    async fn prepare(&self) -> Result<(ServerConnection, ThreadId), TurnAttempt> {
        // A server that was given up stays down for a while, so an immediate retry would fail too.
        let is_down = |error: ClientError| TurnAttempt::Done(StreamMessage::failure(&error));
        let agent = &self.agent;
        let connection = agent.server.connection(&agent.shared).await.map_err(is_down)?;
        let prepared = agent.prepare_thread(&connection.client, connection.generation).await;
        let thread = prepared.map_err(TurnAttempt::of_start)?;
        Ok((connection, thread))
    }

    /// Starts the turn. A request that was sent may take effect, so its response is awaited for a short time even if
    /// the turn is no longer wanted.
    async fn start(&self, client: &Client, thread: &ThreadId) -> Option<Result<RunningTurn, ClientError>> {
        let params = TurnStartParams { thread_id: thread.clone(), ..self.params.clone() };
        let starting = client.turn(params);
        tokio::pin!(starting);
        tokio::select! {
            started = &mut starting => Some(started),
            () = self.stop.cancelled() => timeout(self.grace(), starting).await.ok(),
        }
    }

    async fn follow(
        &self,
        client: &Client,
        mut running: RunningTurn,
        mut questions: FollowedTurn,
    ) -> TurnAttempt {
        let settings = &self.agent.shared.settings;
        let mut mapper = MessageMapper::new(settings.lifecycle);
        let mut messages = Vec::new();
        let mut deadline: Option<Instant> = None;
        let is_over = loop {
            let limit = deadline.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                () = self.stop.cancelled(), if deadline.is_none() => {
                    interrupt(client, &running);
                    deadline = Some(Instant::now() + self.grace());
                }
                // Checked before the events, so that a flood of them cannot delay the end.
                () = sleep_until(limit), if deadline.is_some() => break false,
                event = running.next() => match event {
                    Some(ClientEvent::Notification(event)) => mapper.map(&event, &mut messages),
                    Some(ClientEvent::Missed(count)) => messages.push(StreamMessage::Missed { count }),
                    Some(ClientEvent::Snapshot(thread)) => mapper.catch_up(&thread, running.id(), &mut messages),
                    None => break true,
                },
                // Checked after the events, so that the item in question has been shown.
                question = questions.next() => messages.push(question),
            }
            self.agent.server.adapt_turn_limit(client, settings);
            messages.drain(..).for_each(|message| self.outbox.push(message));
        };
        mapper.finish(&mut messages);
        messages.drain(..).for_each(|message| self.outbox.push(message));
        self.agent.shared.counters.telemetry_events.add(mapper.telemetry);
        let thread = running.thread_id().clone();
        if !is_over {
            return TurnAttempt::Done(StreamMessage::stopped(Some(thread)));
        }
        let can_repeat = running.was_cut_off() && !self.stop.is_cancelled();
        TurnAttempt::of_end(&thread, running.finish().await, can_repeat)
    }

    /// Awaits an event; `None` if the turn is stopped first, or the queue is closed.
    async fn unless_stopped<T>(&self, event: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            event = event => event,
        }
    }

    /// Returns the final message of a reply that never became a turn.
    fn never_started(&self) -> StreamMessage {
        if self.stop.is_cancelled() && !self.agent.disposed.is_cancelled() {
            return StreamMessage::stopped(self.agent.session_id());
        }
        let message = super::PoolError::Closed.to_string();
        StreamMessage::Error { message, code: "closed".to_owned(), is_final: true }
    }

    /// A closing pool ends its servers anyway.
    fn grace(&self) -> Duration {
        let shared = &self.agent.shared;
        if shared.closing.is_cancelled() { Duration::ZERO } else { shared.settings.interrupt_grace }
    }

    fn count(&self, ending: &StreamMessage) {
        let counters = &self.agent.shared.counters;
        let counter = match ending {
            StreamMessage::Complete { status: ReplyStatus::Completed, .. } => &counters.turns_completed,
            StreamMessage::Complete { status: ReplyStatus::Interrupted, .. } => &counters.turns_interrupted,
            _ => &counters.turns_failed,
        };
        counter.increment();
        if let StreamMessage::Error { message, code, .. } = ending {
            tracing::warn!(target: "codicil_agents", code, "turn failed: {message}");
        }
    }
}

impl TurnAttempt {
    fn of_start(error: ClientError) -> Self {
        match &error {
            ClientError::Disconnected(_) => Self::Crashed(error),
            ClientError::ResponseError { error: response, .. } if is_about_thread(&response.message) => {
                Self::ThreadLost(error)
            }
            _ => Self::Done(StreamMessage::failure(&error)),
        }
    }

    fn of_end(thread: &ThreadId, result: Result<CompletedTurn, ClientError>, can_repeat: bool) -> Self {
        match result {
            Err(error) if can_repeat => Self::Crashed(error),
            result => Self::Done(StreamMessage::ending(thread, result)),
        }
    }
}

/// Returns whether an error concerns the thread. Servers have no error code for this.
fn is_about_thread(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("thread") || message.contains("invalid")
}

/// Queues the request and ignores its response; the end of the turn follows as an event.
fn interrupt(client: &Client, running: &RunningTurn) {
    let params =
        TurnInterruptParams { thread_id: running.thread_id().clone(), turn_id: running.id().clone() };
    drop(client.call::<TurnInterrupt>(params));
}
