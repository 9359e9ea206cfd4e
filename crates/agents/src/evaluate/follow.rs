//! Following a turn to its end, or to the point where it has to be stopped.

use std::collections::HashSet;

use codicil_client::{
    ClientError, ClientEvent as TurnEvent, CompletedTurn, RunningTurn,
    protocol::{ItemId, ServerNotification, ThreadItem, ThreadTokenUsage},
};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    bridge::ToolBridge,
    budget::{BudgetExceeded, TokenUsage, TurnUsage},
    error::EvaluationCause,
    events::EvaluationEvent,
    items::invocation,
    run::{EvaluationRun, RunProgress},
};

/// Tells what happens in a turn, counts what it uses, and stops it when it must not go on.
pub(super) struct TurnFollower<'f, 'j> {
    job: &'f EvaluationRun<'j>,
    bridge: &'f ToolBridge,
    progress: &'f mut RunProgress,
    usage: TurnUsage,
    /// Items that have been told.
    told: HashSet<ItemId>,
}

impl<'f, 'j> TurnFollower<'f, 'j> {
    pub fn new(job: &'f EvaluationRun<'j>, bridge: &'f ToolBridge, progress: &'f mut RunProgress) -> Self {
        let usage = TurnUsage::after(progress.thread_usage);
        Self { job, bridge, progress, usage, told: HashSet::new() }
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

    /// Returns when the turn is over, or with the reason why it has to be.
    async fn until_over(&mut self, running: &mut RunningTurn) -> Option<EvaluationCause> {
        let (deadline, bridge) = (self.job.deadline, self.bridge);
        loop {
            // In this order: a flood of events must not put off the deadline.
            tokio::select! {
                biased;
                () = reached(deadline) => return Some(EvaluationCause::DeadlineExceeded),
                (name, message) = bridge.fatal.wait() => return Some(fatal(name, message)),
                event = running.next() => {
                    if let Err(exceeded) = self.note(event?) {
                        return Some(exceeded.into());
                    }
                }
            }
        }
    }

    /// Asks the server to stop the turn, and waits for that no longer than is configured. Who does not stop is
    /// killed when the connection ends.
    async fn stop(&mut self, mut running: RunningTurn) {
        let within = self.job.setup.client.stop_timeout;
        let stopping = async {
            // An answer with an error means that the turn is just ending.
            let _ = running.interrupt().await;
            while let Some(event) = running.next().await {
                let _ = self.note(event);
            }
            running.finish().await
        };
        if let Ok(outcome) = timeout(within, stopping).await {
            let _ = self.catch_up(&outcome);
        }
    }

    fn note(&mut self, event: TurnEvent) -> Result<(), BudgetExceeded> {
        match event {
            TurnEvent::Notification(ServerNotification::ItemCompleted(completed)) => {
                self.tell(&completed.item);
                Ok(())
            }
            TurnEvent::Notification(ServerNotification::ThreadTokenUsageUpdated(update)) => {
                self.count(&update.token_usage)
            }
            TurnEvent::Missed(count) => {
                tracing::debug!(count, "events of a turn were missed; its result has them");
                Ok(())
            }
            TurnEvent::Notification(_) => Ok(()),
        }
    }

    /// What the events did not bring, the result has.
    fn catch_up(&mut self, outcome: &Result<CompletedTurn, ClientError>) -> Result<(), BudgetExceeded> {
        let turn = match outcome {
            Ok(turn) => turn,
            Err(error) => match error.unfinished() {
                Some(unfinished) => &unfinished.so_far,
                None => return Ok(()),
            },
        };
        turn.items.iter().for_each(|item| self.tell(item));
        turn.token_usage.as_ref().map_or(Ok(()), |usage| self.count(usage))
    }

    fn tell(&mut self, item: &ThreadItem) {
        let is_new = item.id().is_none_or(|id| self.told.insert(id.clone()));
        if !is_new {
            return;
        }
        match (invocation(self.job.prompt.name(), item), item) {
            (Some(invoked), _) => self.job.session.tell(&EvaluationEvent::ToolInvoked(invoked)),
            (None, ThreadItem::Reasoning { summary, .. }) => {
                tracing::debug!(sections = summary.len(), "the model has been thinking");
            }
            (None, ThreadItem::ContextCompaction { .. }) => {
                tracing::debug!("the history that the model sees was shortened");
            }
            (None, _) => {}
        }
    }

    fn count(&mut self, usage: &ThreadTokenUsage) -> Result<(), BudgetExceeded> {
        let new = self.usage.take(usage);
        self.progress.usage = self.usage.used();
        self.progress.thread_usage = TokenUsage::from(&usage.total);
        self.job.budget.map_or(Ok(()), |budget| budget.charge(new))
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
