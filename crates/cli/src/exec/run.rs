//! Runs the turn and reports its events in order, until it ends or is interrupted.

use std::{process, time::Duration};

use anyhow::Context;
use codicil_client::{Client, ClientError, ClientEvent, CompletedTurn, EventStream, turn};
use codicil_protocol::{
    ServerNotification, ThreadItem, TurnId, TurnInterrupt, TurnInterruptParams, TurnStartParams, UserInput,
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep_until, timeout},
};

use super::{ExecOutcome, report::ExecReport, thread::ExecThread};
use crate::shutdown::{EndSignals, INTERRUPT};

/// Maximum time for an interrupted turn to end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval of the spinner.
const TICK: Duration = Duration::from_millis(120);

/// The input of the turn.
pub struct ExecTask {
    pub input: Vec<UserInput>,
    pub output_schema: Option<Value>,
}

/// Whether the model's reasoning is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningOutput {
    Shown,
    Hidden,
}

/// A turn with everything that is needed to report it.
pub struct ExecRun<'a> {
    pub client: &'a Client,
    pub thread: &'a ExecThread,
    pub events: EventStream,
    /// Descriptions of declined requests.
    pub declined: mpsc::Receiver<String>,
    pub report: &'a mut ExecReport,
    reasoning: ReasoningOutput,
    turn: Option<TurnId>,
    is_over: bool,
    /// When to stop waiting for the end of the turn; set by a signal.
    deadline: Option<Instant>,
    /// Whether to report the end of the turn. Not after SIGTERM: a program that ends this one does not read
    /// the end.
    reports_end: bool,
}

impl<'a> ExecRun<'a> {
    pub fn new(
        client: &'a Client,
        thread: &'a ExecThread,
        (events, declined): (EventStream, mpsc::Receiver<String>),
        report: &'a mut ExecReport,
    ) -> Self {
        Self {
            client,
            thread,
            events,
            declined,
            report,
            reasoning: ReasoningOutput::Shown,
            turn: None,
            is_over: false,
            deadline: None,
            reports_end: true,
        }
    }

    pub fn with_reasoning(self, reasoning: ReasoningOutput) -> Self {
        Self { reasoning, ..self }
    }

    /// Runs the turn. Returns its outcome and the agent's last message.
    pub async fn turn(mut self, task: ExecTask) -> anyhow::Result<(ExecOutcome, String)> {
        let mut signals = EndSignals::listen().context("cannot listen for signals")?;
        self.report.thread_opened(self.thread)?;
        let sandbox_policy = self.thread.has_added_roots.then(|| self.thread.sandbox.clone());
        let params = TurnStartParams {
            output_schema: task.output_schema,
            sandbox_policy,
            ..turn(&self.thread.thread.id, task.input)
        };
        let Some(result) = self.follow(self.client.run_turn(params), &mut signals).await? else {
            return Ok((ExecOutcome::Interrupted, String::new()));
        };
        if self.reports_end {
            self.report.turn_ended(&result)?;
        }
        Ok(match result {
            Ok(done) => (ExecOutcome::Completed, done.agent_message),
            Err(error) => {
                let message = error.unfinished().map(|turn| turn.so_far.agent_message.clone());
                let outcome =
                    if self.deadline.is_some() { ExecOutcome::Interrupted } else { ExecOutcome::Failed };
                (outcome, message.unwrap_or_default())
            }
        })
    }

    /// Reports events until the turn is over. Returns `None` if an interrupted turn does not end in time.
    async fn follow(
        &mut self,
        running: impl Future<Output = Result<CompletedTurn, ClientError>>,
        signals: &mut EndSignals,
    ) -> anyhow::Result<Option<Result<CompletedTurn, ClientError>>> {
        tokio::pin!(running);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let deadline = self.deadline.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                name = signals.received() => self.interrupt(name)?,
                Some(event) = self.events.next() => self.event(event)?,
                Some(text) = self.declined.recv() => self.report.declined(&text)?,
                result = &mut running => {
                    self.report_rest(&result).await?;
                    return Ok(Some(result));
                }
                _ = ticks.tick(), if self.report.is_terminal() => self.report.tick()?,
                () = sleep_until(deadline), if self.deadline.is_some() => return Ok(None),
            }
        }
    }

    fn event(&mut self, event: ClientEvent) -> anyhow::Result<()> {
        match event {
            ClientEvent::Missed(count) => Ok(self.report.missed(count)?),
            // Only for clients that reconnect by themselves.
            ClientEvent::Snapshot(_) => Ok(()),
            ClientEvent::Notification(notification) => {
                if !belongs_to(&notification, &self.thread.thread.id) {
                    return Ok(());
                }
                match &notification {
                    ServerNotification::TurnStarted(started) => {
                        self.turn = Some(started.turn.id.clone());
                        if self.deadline.is_some() {
                            self.interrupt_turn();
                        }
                    }
                    ServerNotification::TurnCompleted(_) => self.is_over = true,
                    _ => {}
                }
                if self.reasoning == ReasoningOutput::Hidden && is_reasoning(&notification) {
                    return Ok(());
                }
                Ok(self.report.event(&notification)?)
            }
        }
    }

    /// Reports the remaining events: the result may arrive before they have been read.
    async fn report_rest(&mut self, result: &Result<CompletedTurn, ClientError>) -> anyhow::Result<()> {
        let has_run = result.as_ref().map_or_else(|error| error.unfinished().is_some(), |_| true);
        while has_run && !self.is_over {
            match timeout(INTERRUPT_TIMEOUT, self.events.next()).await {
                Ok(Some(event)) => self.event(event)?,
                Ok(None) | Err(_) => break,
            }
        }
        Ok(())
    }

    fn interrupt(&mut self, signal: &str) -> anyhow::Result<()> {
        self.reports_end &= signal == INTERRUPT;
        if self.deadline.is_some() {
            // A second signal does not wait. Processes that the server started end with this one.
            process::exit(130);
        }
        self.deadline = Some(Instant::now() + INTERRUPT_TIMEOUT);
        self.report.interrupting()?;
        self.interrupt_turn();
        Ok(())
    }

    /// Asks the server to interrupt the turn, if it has started. The turn's end is awaited, not the response.
    fn interrupt_turn(&self) {
        if let Some(turn_id) = self.turn.clone() {
            let thread_id = self.thread.thread.id.clone();
            drop(self.client.call::<TurnInterrupt>(TurnInterruptParams { thread_id, turn_id }));
        }
    }
}

/// Returns whether a notification belongs to this thread or to none. Other threads are those of subagents.
fn belongs_to(notification: &ServerNotification, thread: &str) -> bool {
    use ServerNotification as N;
    let thread_id = match notification {
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
    **thread_id == *thread
}

fn is_reasoning(notification: &ServerNotification) -> bool {
    use ServerNotification as N;
    let is_reasoning_item = |item: &ThreadItem| matches!(item, ThreadItem::Reasoning { .. });
    match notification {
        N::ItemStarted(started) => is_reasoning_item(&started.item),
        N::ItemCompleted(completed) => is_reasoning_item(&completed.item),
        N::ReasoningSummaryTextDelta(_) | N::ReasoningSummaryPartAdded(_) | N::ReasoningTextDelta(_) => true,
        _ => false,
    }
}
