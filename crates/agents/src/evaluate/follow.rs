//! Follows a turn to its end, or to the point where it must be stopped.

use std::collections::HashSet;

use codicil_client::{
    ClientError, ClientEvent, CompletedTurn, RunningTurn,
    protocol::{ItemId, ServerNotification, ThreadItem, ThreadTokenUsage},
};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    bridge::ToolBridge,
    budget::{BudgetExceeded, TokenUsage, TurnUsage},
    error::EvaluationCause,
    events::EvaluationEvent,
    item_events::tool_invoked,
    run::{EvaluationRun, RunProgress},
};

/// Reports the events of a turn, counts its tokens, and stops it at a limit.
pub(super) struct TurnFollower<'f, 'r> {
    run: &'f EvaluationRun<'r>,
    bridge: &'f ToolBridge,
    progress: &'f mut RunProgress,
    usage: TurnUsage,
    /// The tokens of earlier turns of the evaluation.
    earlier: Option<TokenUsage>,
    /// Items whose events were emitted.
    reported: HashSet<ItemId>,
}

impl<'f, 'r> TurnFollower<'f, 'r> {
    pub fn new(run: &'f EvaluationRun<'r>, bridge: &'f ToolBridge, progress: &'f mut RunProgress) -> Self {
        let usage = TurnUsage::after(progress.thread_usage);
        let earlier = progress.usage;
        Self { run, bridge, progress, usage, earlier, reported: HashSet::new() }
    }

    pub async fn follow(mut self, mut running: RunningTurn) -> Result<CompletedTurn, EvaluationCause> {
        let stopped = self.until_over(&mut running).await;
        if let Some(cause) = stopped {
            self.stop(running).await;
            return Err(cause);
        }
        let outcome = running.finish().await;
        let exceeded = self.catch_up(&outcome);
        match (exceeded, self.bridge.fatal.get()) {
            (Err(exceeded), _) => Err(exceeded.into()),
            (Ok(()), Some((name, message))) => Err(fatal(name, message)),
            (Ok(()), None) => Ok(outcome?),
        }
    }

    /// Waits for the end of the turn. Returns the cause if it must be stopped before.
    async fn until_over(&mut self, running: &mut RunningTurn) -> Option<EvaluationCause> {
        let deadline = self.run.deadline;
        let bridge = self.bridge;
        loop {
            // The deadline comes first, so that a flood of events cannot postpone it.
            tokio::select! {
                biased;
                () = reached(deadline) => return Some(EvaluationCause::DeadlineExceeded),
                (name, message) = bridge.fatal.wait() => return Some(fatal(name, message)),
                event = running.next() => {
                    if let Err(exceeded) = self.handle(event?) {
                        return Some(exceeded.into());
                    }
                }
            }
        }
    }

    /// Interrupts the turn and waits for its end, at most `stop_timeout`. A server that does not stop is killed when
    /// the connection closes.
    async fn stop(&mut self, mut running: RunningTurn) {
        let within = self.run.setup.client.stop_timeout;
        let stopping = async {
            // An error response means that the turn has just ended.
            let _ = running.interrupt().await;
            while let Some(event) = running.next().await {
                let _ = self.handle(event);
            }
            running.finish().await
        };
        if let Ok(outcome) = timeout(within, stopping).await {
            let _ = self.catch_up(&outcome);
        }
    }

    fn handle(&mut self, event: ClientEvent) -> Result<(), BudgetExceeded> {
        match event {
            ClientEvent::Notification(ServerNotification::ItemCompleted(completed)) => {
                self.report_item(&completed.item);
                Ok(())
            }
            ClientEvent::Notification(ServerNotification::ThreadTokenUsageUpdated(update)) => {
                self.count(&update.token_usage)
            }
            ClientEvent::Missed(count) => {
                tracing::debug!(count, "missed events of the turn; its result includes them");
                Ok(())
            }
            // The result includes what a snapshot replaces.
            ClientEvent::Notification(_) | ClientEvent::Snapshot(_) => Ok(()),
        }
    }

    /// Processes items and usage that are only part of the result, because their events were missed.
    fn catch_up(&mut self, outcome: &Result<CompletedTurn, ClientError>) -> Result<(), BudgetExceeded> {
        let turn = match outcome {
            Ok(turn) => turn,
            Err(error) => match error.unfinished() {
                Some(unfinished) => &unfinished.so_far,
                None => return Ok(()),
            },
        };
        turn.items.iter().for_each(|item| self.report_item(item));
        turn.token_usage.as_ref().map_or(Ok(()), |usage| self.count(usage))
    }

    fn report_item(&mut self, item: &ThreadItem) {
        let is_new = item.id().is_none_or(|id| self.reported.insert(id.clone()));
        if !is_new {
            return;
        }
        let adapter = &self.run.setup.client.adapter_name;
        if let Some(invoked) = tool_invoked(adapter, self.run.prompt.name(), item) {
            return self.run.session.emit(&EvaluationEvent::ToolInvoked(invoked));
        }
        match item {
            ThreadItem::Reasoning { summary, .. } => {
                tracing::debug!(sections = summary.len(), "reasoning item completed");
            }
            ThreadItem::ContextCompaction { .. } => tracing::debug!("the thread's history was compacted"),
            _ => {}
        }
    }

    fn count(&mut self, usage: &ThreadTokenUsage) -> Result<(), BudgetExceeded> {
        let new = self.usage.add(usage);
        self.progress.usage = TokenUsage::sum(self.earlier, self.usage.used());
        self.progress.thread_usage = TokenUsage::from(&usage.total);
        self.run.budget.map_or(Ok(()), |budget| budget.charge(new))
    }
}

fn fatal(name: &str, message: &str) -> EvaluationCause {
    EvaluationCause::Tool { name: name.to_owned(), message: message.to_owned() }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
