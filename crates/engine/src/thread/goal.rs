//! The goal of a loaded thread: kept with it, and charged with what its turns cost.

use codicil_protocol::{
    ThreadGoal, ThreadGoalSetParams, ThreadGoalUpdated, ThreadGoalUpdatedNotification, TokenUsageBreakdown,
    TurnId,
};
use codicil_store::Record;
use tokio::time::Instant;

use super::actor::ThreadActor;
use crate::{clock::unix_now, error::ThreadError, goals};

/// When a turn began, and what the thread had used by then.
pub(super) struct TurnMark {
    at: Instant,
    usage: TokenUsageBreakdown,
}

impl ThreadActor {
    pub(super) async fn on_set_goal(
        &mut self,
        change: ThreadGoalSetParams,
    ) -> Result<ThreadGoal, ThreadError> {
        let goal = goals::changed(&self.state.id, self.state.goal.clone(), change, unix_now())?;
        self.store(vec![Record::goal(Some(&goal))]).await?;
        self.state.goal = Some(goal.clone());
        Ok(goal)
    }

    pub(super) async fn on_clear_goal(&mut self) -> Result<bool, ThreadError> {
        if self.state.goal.is_none() {
            return Ok(false);
        }
        self.store(vec![Record::goal(None)]).await?;
        self.state.goal = None;
        Ok(true)
    }

    /// From here on a turn is at work.
    pub(super) fn mark_turn(&mut self) {
        self.turn_mark = Some(TurnMark { at: Instant::now(), usage: self.state.usage.total.clone() });
    }

    /// Charges the goal with the turn that is over.
    pub(super) async fn charge_goal(&mut self, turn: &TurnId) {
        let Some((mark, goal)) = self.turn_mark.take().zip(self.state.goal.clone()) else { return };
        let seconds = i64::try_from(mark.at.elapsed().as_secs()).unwrap_or(i64::MAX);
        let total = &self.state.usage.total;
        let Some(goal) = goals::after_turn(goal, &mark.usage, total, seconds, unix_now()) else { return };
        if let Err(error) = self.store(vec![Record::goal(Some(&goal))]).await {
            // The turn itself counts more than what it cost.
            tracing::error!(thread = %self.state.id, "what a goal has cost could not be stored: {error}");
            return;
        }
        self.state.goal = Some(goal.clone());
        let thread_id = self.state.id.clone();
        let told = ThreadGoalUpdatedNotification { thread_id, turn_id: Some(turn.clone()), goal };
        self.notify::<ThreadGoalUpdated>(&told);
    }
}
