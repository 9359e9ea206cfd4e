//! Changes to a thread's goal, by a request and by the cost of a turn.
//!
//! A goal is stored and charged. It never starts a turn: that is left to clients.

use codicil_protocol::{
    Patch, ThreadGoal, ThreadGoalSetParams, ThreadGoalStatus, ThreadId, TokenUsageBreakdown,
};

use crate::error::GoalError;

/// The longest objective, in characters.
const LONGEST_OBJECTIVE: usize = 4000;

/// Returns the goal after a request. The whole request is checked first.
pub(crate) fn changed(
    id: &ThreadId,
    goal: Option<ThreadGoal>,
    change: ThreadGoalSetParams,
    now: i64,
) -> Result<ThreadGoal, GoalError> {
    let objective = change.objective.map(|text| text.trim().to_owned());
    if let Some(objective) = &objective {
        check_objective(objective)?;
    }
    if matches!(change.token_budget, Patch::Value(budget) if budget <= 0) {
        return Err(GoalError::Budget);
    }
    let mut goal = match (goal, &objective) {
        (Some(goal), _) => goal,
        (None, Some(_)) => new_goal(id, now),
        (None, None) => return Err(GoalError::NoGoal(id.clone())),
    };
    goal.objective = objective.unwrap_or(goal.objective);
    goal.status = change.status.unwrap_or(goal.status);
    goal.token_budget = change.token_budget.apply(goal.token_budget);
    goal.updated_at = now;
    Ok(goal)
}

fn check_objective(objective: &str) -> Result<(), GoalError> {
    if objective.is_empty() {
        return Err(GoalError::EmptyObjective);
    }
    if objective.chars().count() > LONGEST_OBJECTIVE {
        return Err(GoalError::LongObjective(LONGEST_OBJECTIVE));
    }
    Ok(())
}

fn new_goal(id: &ThreadId, now: i64) -> ThreadGoal {
    ThreadGoal {
        thread_id: id.clone(),
        objective: String::new(),
        status: ThreadGoalStatus::Active,
        token_budget: None,
        tokens_used: 0,
        time_used_seconds: 0,
        created_at: now,
        updated_at: now,
    }
}

/// Returns the goal after a turn; `None` if the goal is not active.
pub(crate) fn after_turn(
    mut goal: ThreadGoal,
    before: &TokenUsageBreakdown,
    after: &TokenUsageBreakdown,
    seconds: i64,
    now: i64,
) -> Option<ThreadGoal> {
    if goal.status != ThreadGoalStatus::Active {
        return None;
    }
    let cost = |usage: &TokenUsageBreakdown| {
        usage.input_tokens.saturating_sub(usage.cached_input_tokens).saturating_add(usage.output_tokens)
    };
    // The usage may start again after a rollback or a compaction.
    let tokens = cost(after).saturating_sub(cost(before)).max(0);
    goal.tokens_used = goal.tokens_used.saturating_add(tokens);
    goal.time_used_seconds = goal.time_used_seconds.saturating_add(seconds.max(0));
    if goal.token_budget.is_some_and(|budget| goal.tokens_used >= budget) {
        goal.status = ThreadGoalStatus::BudgetLimited;
    }
    goal.updated_at = now;
    Some(goal)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set(goal: Option<ThreadGoal>, change: Value) -> Result<ThreadGoal, String> {
        let id = ThreadId::from("t");
        let mut change = change;
        change["threadId"] = json!("t");
        changed(&id, goal, serde_json::from_value(change).unwrap(), 7).map_err(|error| error.to_string())
    }

    fn usage(input: i64, cached: i64, output: i64) -> TokenUsageBreakdown {
        TokenUsageBreakdown {
            total_tokens: input + output,
            input_tokens: input,
            cached_input_tokens: cached,
            cache_write_input_tokens: 0,
            output_tokens: output,
            reasoning_output_tokens: 0,
        }
    }

    #[test]
    fn invalid_goals_are_refused() {
        let check =
            |change: Value, message: &str| assert_eq!(set(None, change).unwrap_err(), message, "{message}");
        check(json!({ "status": "paused" }), "cannot update goal for thread t: no goal exists");
        check(json!({ "objective": "  " }), "goal objective must not be empty");
        check(json!({ "objective": "x".repeat(4001) }), "goal objective must be at most 4000 characters");
        check(json!({ "objective": "x", "tokenBudget": 0 }), "goal budgets must be positive when provided");
    }

    #[test]
    fn a_request_changes_only_the_fields_that_it_names() {
        let goal = set(None, json!({ "objective": " reach it ", "tokenBudget": 100 })).unwrap();
        assert_eq!((goal.objective.as_str(), goal.status), ("reach it", ThreadGoalStatus::Active));
        let goal = set(Some(ThreadGoal { created_at: 1, ..goal }), json!({ "status": "blocked" })).unwrap();
        assert_eq!((goal.objective.as_str(), goal.token_budget), ("reach it", Some(100)));
        assert_eq!((goal.status, goal.created_at, goal.updated_at), (ThreadGoalStatus::Blocked, 1, 7));
        let goal = set(Some(goal), json!({ "tokenBudget": null })).unwrap();
        assert_eq!((goal.token_budget, goal.status), (None, ThreadGoalStatus::Blocked));
    }

    #[test]
    fn turns_are_charged_while_the_goal_is_active_and_within_its_budget() {
        let goal = set(None, json!({ "objective": "x", "tokenBudget": 100 })).unwrap();
        let once = after_turn(goal.clone(), &usage(0, 0, 0), &usage(100, 40, 10), 3, 9).unwrap();
        assert_eq!((once.tokens_used, once.time_used_seconds, once.updated_at), (70, 3, 9));
        assert_eq!(once.status, ThreadGoalStatus::Active);
        let twice = after_turn(once, &usage(100, 40, 10), &usage(200, 80, 20), 0, 9).unwrap();
        assert_eq!((twice.tokens_used, twice.status), (140, ThreadGoalStatus::BudgetLimited));
        assert_eq!(after_turn(twice, &usage(0, 0, 0), &usage(9, 0, 9), 1, 9), None);
        let fewer = after_turn(goal, &usage(100, 0, 0), &usage(0, 0, 0), 1, 9).unwrap();
        assert_eq!(fewer.tokens_used, 0);
    }
}
