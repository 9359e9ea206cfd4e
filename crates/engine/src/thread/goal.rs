//! The goal of a thread: turns that continue it, what it costs, and the model's own changes.
//!
//! An active goal starts a turn when the thread is idle: after it was set, after every completed turn, and after the thread
//! was loaded and a client has joined. An interrupt leaves the goal active, and the next completed turn of the user goes on
//! with it. A failed turn blocks the goal. The queue of the user comes first.

use codicil_protocol::{
    CodexErrorInfo, ThreadGoal, ThreadGoalSetParams, ThreadGoalStatus, ThreadGoalUpdated,
    ThreadGoalUpdatedNotification, TokenUsageBreakdown, TurnError, TurnId, TurnStatus,
};
use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply, TurnKind, TurnOrigin,
    active_turn::ActiveTurn,
    actor::{ThreadActor, answer},
    input::context_record,
    launch::NewTurn,
    read_state::GoalContinuation,
};
use crate::{
    clock::unix_now,
    error::{GoalError, ThreadError},
    goals::{self, GoalReport, GoalRequest},
    ids::new_turn_id,
};

impl ThreadActor {
    pub(super) async fn on_set_goal(
        &mut self,
        change: ThreadGoalSetParams,
        origin: TurnOrigin,
        reply: CommandReply<AnnouncedReply<ThreadGoal>>,
    ) {
        match self.set_goal(change).await {
            Ok(goal) => {
                self.last_origin = origin;
                self.accept(reply, goal.clone()).await;
                self.announce_goal(None);
                self.is_goal_due = goal.status == ThreadGoalStatus::Active;
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    async fn set_goal(&mut self, change: ThreadGoalSetParams) -> Result<ThreadGoal, ThreadError> {
        if self.state.log.is_none() {
            return Err(GoalError::Ephemeral(self.state.id.clone()).into());
        }
        let before = self.state.goal.clone();
        let goal = goals::changed(&self.state.id, before.clone(), change, unix_now())?;
        let mut records = vec![Record::goal(Some(&goal), None)];
        let read_record = self.first_read_record();
        let is_first = read_record.is_some();
        records.extend(read_record);
        records.extend(self.key_records(&goal)?);
        self.store(records).await?;
        if is_first {
            self.skip_read_state();
        }
        self.keep_goal(goal.clone());
        let is_edited = before.is_some_and(|before| before.objective != goal.objective);
        if is_edited
            && goal.status == ThreadGoalStatus::Active
            && let Some(active) = self.active.as_mut().filter(|active| active.is_goal_turn)
        {
            active.add_notice(codicil_prompts::goal_edited_message(&goal));
        }
        Ok(goal)
    }

    pub(super) async fn on_clear_goal(&mut self) -> Result<bool, ThreadError> {
        let has_goal = self.state.goal.is_some();
        let mut records: Vec<_> = has_goal.then(|| Record::goal(None, None)).into_iter().collect();
        records.extend(self.key_records(&has_goal)?);
        self.store(records).await?;
        self.state.goal = None;
        self.is_goal_due = false;
        Ok(has_goal)
    }

    /// Goes on with the queue and the goal of a thread that was just loaded, now that a client has joined.
    pub(super) fn on_continue_work(&mut self) {
        if std::mem::take(&mut self.is_unresumed) {
            self.is_goal_due |= self.has_active_goal();
            self.is_queue_paused &= self.state.is_last_turn_interrupted;
        }
    }

    fn keep_goal(&mut self, goal: ThreadGoal) {
        if self.state.preview.is_none() {
            self.state.preview = Some(goal.objective.clone());
        }
        self.state.goal = Some(goal);
    }

    pub(super) fn has_active_goal(&self) -> bool {
        self.state.goal.as_ref().is_some_and(|goal| goal.status == ThreadGoalStatus::Active)
    }

    /// Announces the goal to all clients: like a name, it is shown in lists of threads.
    fn announce_goal(&self, turn: Option<&TurnId>) {
        let Some(goal) = self.state.goal.clone() else { return };
        let thread_id = self.state.id.clone();
        let params = ThreadGoalUpdatedNotification { thread_id, turn_id: turn.cloned(), goal };
        self.notifier.broadcast::<ThreadGoalUpdated>(&params);
    }

    /// Stores a change of the goal by a turn and announces it.
    async fn store_goal(&mut self, turn: &TurnId, goal: ThreadGoal) -> Result<(), ThreadError> {
        self.store(vec![Record::goal(Some(&goal), Some(turn))]).await?;
        self.keep_goal(goal);
        self.announce_goal(Some(turn));
        Ok(())
    }

    /// Adds the tokens of a response to the goal. A turn whose budget is used up is told to end.
    pub(super) async fn charge_goal(&mut self, turn: &TurnId, used: &TokenUsageBreakdown) {
        let Some(goal) = self.state.goal.clone().and_then(|goal| goals::charged(goal, used, unix_now()))
        else {
            return;
        };
        if goal.status == ThreadGoalStatus::BudgetLimited
            && let Some(active) = self.active.as_mut().filter(|active| !active.calls.is_empty())
        {
            active.add_notice(codicil_prompts::goal_budget_message(&goal));
        }
        if let Err(error) = self.store_goal(turn, goal).await {
            // The turn itself counts more than its cost.
            tracing::error!(thread = %self.state.id, "failed to store the progress of a goal: {error}");
        }
    }

    /// Returns the record of what a turn that ends has changed about the goal, and whether another turn of it follows.
    pub(super) fn end_goal_turn(
        &mut self,
        active: &ActiveTurn,
        status: &TurnStatus,
        error: Option<&TurnError>,
    ) -> (Option<Record>, GoalContinuation) {
        self.is_goal_due = false;
        let Some(mut goal) = self.state.goal.clone().filter(|_| self.has_active_goal()) else {
            return (None, GoalContinuation::Ends);
        };
        let before = goal.clone();
        let started = active.beginning.as_ref().map(|beginning| beginning.started.elapsed().as_secs());
        let seconds = i64::try_from(started.unwrap_or(0)).unwrap_or(i64::MAX);
        goal.time_used_seconds = goal.time_used_seconds.saturating_add(seconds);
        let error = error.and_then(|error| error.codex_error_info.as_ref());
        if error == Some(&CodexErrorInfo::UsageLimitExceeded) {
            goal.status = ThreadGoalStatus::UsageLimited;
        } else if *status == TurnStatus::Failed {
            goal.status = ThreadGoalStatus::Blocked;
        }
        self.is_goal_due = *status == TurnStatus::Completed && goal.status == ThreadGoalStatus::Active;
        // Also if queued input comes first: the goal goes on after it.
        let continuation = if self.is_goal_due { GoalContinuation::Follows } else { GoalContinuation::Ends };
        if goal == before {
            return (None, continuation);
        }
        goal.updated_at = unix_now();
        let record = Record::goal(Some(&goal), Some(&active.id));
        self.state.goal = Some(goal);
        self.is_goal_unsent = true;
        (Some(record), continuation)
    }

    /// Announces what the end of a turn has changed about the goal.
    pub(super) fn announce_charged_goal(&mut self, turn: &TurnId) {
        if std::mem::take(&mut self.is_goal_unsent) {
            self.announce_goal(Some(turn));
        }
    }

    /// Starts a turn for the goal if one is due.
    pub(super) async fn start_goal_turn(&mut self) {
        if !std::mem::take(&mut self.is_goal_due) {
            return;
        }
        let Some(goal) = self.state.goal.clone().filter(|_| self.has_active_goal()) else { return };
        match self.begin_goal_turn(&goal).await {
            Ok(id) => self.announce_begun(&id),
            Err(error) => {
                tracing::warn!(thread = %self.state.id, "cannot go on with the goal: {error}");
            }
        }
    }

    /// Stores a turn with the hidden message about the goal, and starts its task.
    async fn begin_goal_turn(&mut self, goal: &ThreadGoal) -> Result<TurnId, ThreadError> {
        self.claim_conversation().await?;
        self.refresh_config().await;
        self.refresh_servers().await;
        self.learn_about_model().await;
        let provider = self.provider()?;
        let id = new_turn_id();
        let before = self.state.restore_point();
        let mut context = self.context_messages().await;
        context.push(codicil_prompts::goal_continuation_message(goal));
        let mut records = vec![self.turn_record(&id).await?];
        records.extend(self.state.settings_record());
        records.extend(context.iter().map(|item| context_record(&id, item)));
        if let Err(error) = self.store_once(records).await {
            self.restore_or_catch_up(before, error).await?;
            return Err(ThreadError::Busy);
        }
        self.state.remember(context);
        let origin = self.last_origin.clone();
        let mut active = self.launch(NewTurn::new(id.clone(), TurnKind::Regular, provider, origin));
        active.is_goal_turn = true;
        self.active = Some(active);
        self.subagent_started();
        Ok(id)
    }

    /// Carries out a call of the model's goal tools. A refusal is a text for the model.
    pub(super) async fn on_goal_request(
        &mut self,
        turn: &TurnId,
        request: GoalRequest,
    ) -> Result<GoalReport, String> {
        if let Some(goal) = goals::requested(&self.state.id, self.state.goal.as_ref(), request, unix_now())? {
            self.store_goal(turn, goal).await.map_err(|error| error.to_string())?;
        }
        Ok(GoalReport::of(self.state.goal.clone()))
    }
}
