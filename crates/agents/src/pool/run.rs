//! One message of an agent, from its place in line to the end of its turn.

use std::{pin::Pin, sync::Arc, time::Duration};

use codicil_client::{
    Client, ClientError, ClientEvent, CompletedTurn, RunningTurn,
    protocol::{ThreadId, TurnInterrupt, TurnInterruptParams, UserInput},
    turn,
};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    agent::AgentInner,
    desk::FollowedTurn,
    line::TurnPermit,
    mapper::MessageMapper,
    message::{ReplyStatus, StreamMessage},
    outbox::MessageOutbox,
};

/// The wait for the right to run: among the agent's messages, and among the server's turns.
pub(super) type RunPermit = Pin<Box<dyn Future<Output = Option<(TurnPermit, TurnPermit)>> + Send>>;

/// What it takes to run a turn.
pub(super) struct TurnRun {
    pub agent: Arc<AgentInner>,
    pub input: Vec<UserInput>,
    pub outbox: Arc<MessageOutbox>,
    /// Cancelled when nobody wants the turn any more.
    pub stop: CancellationToken,
}

/// What became of one try.
enum TurnAttempt {
    Done(StreamMessage),
    /// The server died before anything had begun.
    CutOff(ClientError),
    /// The server does not know the thread.
    Invalid(ClientError),
}

impl TurnRun {
    pub async fn go(self, place: RunPermit) {
        let ending = self.wait_and_run(place).await;
        self.count(&ending);
        self.outbox.finish(ending);
    }

    async fn wait_and_run(&self, place: RunPermit) -> StreamMessage {
        let waiting = self.agent.shared.counters.turns_waiting.during();
        let Some(_slots) = self.unless_stopped(place).await else { return self.turned_away() };
        drop(waiting);
        let _running = self.agent.shared.counters.turns_running.during();
        let thread = self.agent.session_id();
        let span = tracing::info_span!(target: "codicil_agents", "turn", thread = thread.as_deref());
        self.run().instrument(span).await
    }

    /// Tries again once after a crash, and once with another thread.
    async fn run(&self) -> StreamMessage {
        let (mut was_cut_off, mut was_invalid) = (false, false);
        loop {
            let (error, is_again) = match self.attempt().await {
                TurnAttempt::Done(ending) => return ending,
                TurnAttempt::CutOff(error) => (error, std::mem::replace(&mut was_cut_off, true)),
                TurnAttempt::Invalid(error) => {
                    self.agent.invalidate();
                    (error, std::mem::replace(&mut was_invalid, true))
                }
            };
            if is_again {
                return StreamMessage::failure(&error);
            }
            tracing::warn!(target: "codicil_agents", "tries once more: {error}");
            self.agent.shared.counters.turns_retried.one();
        }
    }

    async fn attempt(&self) -> TurnAttempt {
        let (client, thread) = match self.unless_stopped(async { Some(self.prepare().await) }).await {
            Some(Ok(prepared)) => prepared,
            Some(Err(failed)) => return failed,
            None => return TurnAttempt::Done(self.turned_away()),
        };
        let seat = self.agent.server.desk.sit(&thread);
        let running = match self.start(&client, &thread).await {
            Some(Ok(running)) => running,
            Some(Err(error)) => return TurnAttempt::of_start(error),
            None => return TurnAttempt::Done(self.turned_away()),
        };
        self.agent.shared.counters.turns_started.one();
        tracing::debug!(target: "codicil_agents", session = running.session_id(), "the turn has started");
        self.follow(&client, running, seat).await
    }

    /// A connection, and the thread loaded on it.
    async fn prepare(&self) -> Result<(Client, ThreadId), TurnAttempt> {
        // A server that was given up stays down for a while; another try at once would end the same.
        let is_down = |error: ClientError| TurnAttempt::Done(StreamMessage::failure(&error));
        let agent = &self.agent;
        let (client, generation) = agent.server.connection(&agent.shared).await.map_err(is_down)?;
        let thread = agent.ready(&client, generation).await.map_err(TurnAttempt::of_start)?;
        Ok((client, thread))
    }

    /// Starts the turn. Once asked for it may start, so it is waited for even if nobody wants it any more, but
    /// not for long.
    async fn start(&self, client: &Client, thread: &ThreadId) -> Option<Result<RunningTurn, ClientError>> {
        let starting = client.turn(turn(thread, self.input.clone()));
        tokio::pin!(starting);
        tokio::select! {
            started = &mut starting => Some(started),
            () = self.stop.cancelled() => timeout(self.grace(), starting).await.ok(),
        }
    }

    async fn follow(&self, client: &Client, mut running: RunningTurn, mut seat: FollowedTurn) -> TurnAttempt {
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
                // Before the events: a flood of them must not hold up the end.
                () = sleep_until(limit), if deadline.is_some() => break false,
                event = running.next() => match event {
                    Some(ClientEvent::Notification(event)) => mapper.map(&event, &mut messages),
                    Some(ClientEvent::Missed(count)) => messages.push(StreamMessage::Missed { count }),
                    None => break true,
                },
                // After the events, so that what is asked about has been shown.
                question = seat.next() => messages.push(question),
            }
            self.agent.server.listen(client, settings);
            messages.drain(..).for_each(|message| self.outbox.push(message));
        };
        mapper.finish(&mut messages);
        messages.drain(..).for_each(|message| self.outbox.push(message));
        self.agent.shared.counters.telemetry_events.add(mapper.telemetry);
        let (thread, has_begun) = (running.thread_id().clone(), running.has_begun());
        match is_over {
            true => TurnAttempt::of_end(&thread, running.finish().await, has_begun),
            false => TurnAttempt::Done(StreamMessage::stopped(Some(thread))),
        }
    }

    /// `None` when the turn is no longer wanted, or the line closed.
    async fn unless_stopped<T>(&self, event: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            event = event => event,
        }
    }

    /// The end of a message that never became a turn.
    fn turned_away(&self) -> StreamMessage {
        if self.stop.is_cancelled() && !self.agent.disposed.is_cancelled() {
            return StreamMessage::stopped(self.agent.session_id());
        }
        let message = super::PoolError::Closed.to_string();
        StreamMessage::Error { message, code: "closed".to_owned(), is_final: true }
    }

    /// A pool that closes ends its servers anyway.
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
        counter.one();
        if let StreamMessage::Error { message, code, .. } = ending {
            tracing::warn!(target: "codicil_agents", code, "a turn failed: {message}");
        }
    }
}

impl TurnAttempt {
    fn of_start(error: ClientError) -> Self {
        match &error {
            ClientError::Disconnected(_) => Self::CutOff(error),
            ClientError::ResponseError { error: said, .. } if is_about_thread(&said.message) => {
                Self::Invalid(error)
            }
            _ => Self::Done(StreamMessage::failure(&error)),
        }
    }

    fn of_end(thread: &ThreadId, result: Result<CompletedTurn, ClientError>, has_begun: bool) -> Self {
        match result {
            Err(error @ ClientError::Disconnected(_)) if !has_begun => Self::CutOff(error),
            result => Self::Done(StreamMessage::ending(thread, result)),
        }
    }
}

/// Servers have no code of their own for it.
fn is_about_thread(message: &str) -> bool {
    let message = message.to_lowercase();
    message.contains("thread") || message.contains("invalid")
}

/// The request is on its way when this returns; the end of the turn is the answer.
fn interrupt(client: &Client, running: &RunningTurn) {
    let params =
        TurnInterruptParams { thread_id: running.thread_id().clone(), turn_id: running.id().clone() };
    drop(client.call::<TurnInterrupt>(params));
}
