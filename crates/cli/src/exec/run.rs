//! The turn itself: its events in order, until it ends or somebody stops it.

use std::{process, time::Duration};

use anyhow::Context;
use codicil_client::{Client, ClientError, ClientEvent, CompletedTurn, EventStream, turn};
use codicil_protocol::{
    ServerNotification, TurnId, TurnInterrupt, TurnInterruptParams, TurnStartParams, UserInput,
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};

use super::{ExecOutcome, report::ExecReport, session::ExecThread};
use crate::ending::{EndSignals, INTERRUPT};

/// How long an interrupted turn may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a terminal shows that something is going on.
const TICK: Duration = Duration::from_millis(120);

/// What a turn is given.
pub struct ExecTask {
    pub input: Vec<UserInput>,
    pub output_schema: Option<Value>,
}

/// A turn that is followed to its end.
pub struct ExecRun<'a> {
    pub client: &'a Client,
    pub session: &'a ExecThread,
    pub events: EventStream,
    /// What was declined, in sentences.
    pub declined: mpsc::Receiver<String>,
    pub report: &'a mut ExecReport,
    turn: Option<TurnId>,
    is_over: bool,
    /// Set by a signal: when to stop waiting for the turn's end.
    give_up: Option<Instant>,
    /// Whoever sent that signal reads on. A program that ends this one does not want to hear how the turn ended.
    is_heard: bool,
}

impl<'a> ExecRun<'a> {
    pub fn new(
        client: &'a Client,
        session: &'a ExecThread,
        (events, declined): (EventStream, mpsc::Receiver<String>),
        report: &'a mut ExecReport,
    ) -> Self {
        Self {
            client,
            session,
            events,
            declined,
            report,
            turn: None,
            is_over: false,
            give_up: None,
            is_heard: true,
        }
    }

    /// Runs the turn. Returns how it ended and the agent's last message.
    pub async fn turn(mut self, task: ExecTask) -> anyhow::Result<(ExecOutcome, String)> {
        let mut signals = EndSignals::listen().context("cannot listen for signals")?;
        self.report.begun(self.session)?;
        let sandbox_policy = self.session.is_widened.then(|| self.session.sandbox.clone());
        let params = TurnStartParams {
            output_schema: task.output_schema,
            sandbox_policy,
            ..turn(&self.session.thread.id, task.input)
        };
        let Some(result) = self.follow(self.client.run_turn(params), &mut signals).await? else {
            return Ok((ExecOutcome::Interrupted, String::new()));
        };
        if self.is_heard {
            self.report.ended(&result)?;
        }
        Ok(match result {
            Ok(done) => (ExecOutcome::Completed, done.agent_message),
            Err(error) => {
                let said = error.unfinished().map(|turn| turn.so_far.agent_message.clone());
                let ending =
                    if self.give_up.is_some() { ExecOutcome::Interrupted } else { ExecOutcome::Failed };
                (ending, said.unwrap_or_default())
            }
        })
    }

    /// Reports what happens until the turn is over; `None` when an interrupted turn does not end.
    async fn follow(
        &mut self,
        turning: impl Future<Output = Result<CompletedTurn, ClientError>>,
        signals: &mut EndSignals,
    ) -> anyhow::Result<Option<Result<CompletedTurn, ClientError>>> {
        tokio::pin!(turning);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let limit = self.give_up.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                name = signals.received() => self.interrupt(name)?,
                Some(event) = self.events.next() => self.event(event)?,
                Some(sentence) = self.declined.recv() => self.report.declined(&sentence)?,
                result = &mut turning => {
                    self.read_rest(&result).await?;
                    return Ok(Some(result));
                }
                _ = ticks.tick(), if self.report.is_live() => self.report.tick()?,
                () = sleep_until(limit), if self.give_up.is_some() => return Ok(None),
            }
        }
    }

    fn event(&mut self, event: ClientEvent) -> anyhow::Result<()> {
        match event {
            ClientEvent::Missed(count) => Ok(self.report.missed(count)?),
            ClientEvent::Notification(notification) => {
                if !is_of(&notification, &self.session.thread.id) {
                    return Ok(());
                }
                match &notification {
                    ServerNotification::TurnStarted(started) => {
                        self.turn = Some(started.turn.id.clone());
                        if self.give_up.is_some() {
                            self.stop();
                        }
                    }
                    ServerNotification::TurnCompleted(_) => self.is_over = true,
                    _ => {}
                }
                Ok(self.report.event(&notification)?)
            }
        }
    }

    /// The result may be known before the last events have been read.
    async fn read_rest(&mut self, result: &Result<CompletedTurn, ClientError>) -> anyhow::Result<()> {
        let has_run = result.as_ref().map_or_else(|error| error.unfinished().is_some(), |_| true);
        while has_run && !self.is_over {
            match timeout(PATIENCE, self.events.next()).await {
                Ok(Some(event)) => self.event(event)?,
                Ok(None) | Err(_) => break,
            }
        }
        Ok(())
    }

    fn interrupt(&mut self, signal: &str) -> anyhow::Result<()> {
        self.is_heard &= signal == INTERRUPT;
        if self.give_up.is_some() {
            // Whoever asks twice does not want to wait. What the server started dies with this process.
            process::exit(130);
        }
        self.give_up = Some(Instant::now() + PATIENCE);
        self.report.interrupting()?;
        self.stop();
        Ok(())
    }

    /// Asks the server to stop the turn, if it has begun; its end is what counts, not the answer.
    fn stop(&self) {
        if let Some(turn_id) = self.turn.clone() {
            let thread_id = self.session.thread.id.clone();
            drop(self.client.call::<TurnInterrupt>(TurnInterruptParams { thread_id, turn_id }));
        }
    }
}

/// Whether a notification is of this thread or of none; other threads are those of sub-agents.
fn is_of(notification: &ServerNotification, thread: &str) -> bool {
    use ServerNotification as N;
    let named = match notification {
        N::TurnStarted(it) => &it.thread_id,
        N::TurnCompleted(it) => &it.thread_id,
        N::ItemStarted(it) => &it.thread_id,
        N::ItemCompleted(it) => &it.thread_id,
        N::AgentMessageDelta(it) => &it.thread_id,
        N::ReasoningSummaryTextDelta(it) => &it.thread_id,
        N::ReasoningSummaryPartAdded(it) => &it.thread_id,
        N::ReasoningTextDelta(it) => &it.thread_id,
        N::CommandExecutionOutputDelta(it) => &it.thread_id,
        N::TurnPlanUpdated(it) => &it.thread_id,
        N::ThreadTokenUsageUpdated(it) => &it.thread_id,
        N::ErrorReported(it) => &it.thread_id,
        N::ModelRerouted(it) => &it.thread_id,
        _ => return true,
    };
    **named == *thread
}
