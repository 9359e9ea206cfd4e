//! Changes to a thread's goal: by a request, by the model and by the cost of a response. `thread/goal.rs` runs goals.

use codicil_protocol::{
    Patch, ThreadGoal, ThreadGoalSetParams, ThreadGoalStatus, ThreadId, TokenUsageBreakdown,
};
use serde::{Deserialize, Serialize};

use crate::error::GoalError;

/// The longest objective, in characters.
const LONGEST_OBJECTIVE: usize = 4000;

/// Returns the goal after a request. The whole request is checked first. Without a `status`, the goal keeps its own. An
/// active objective for a complete goal is a new goal.
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
    let is_new = objective.is_some()
        && change.status == Some(ThreadGoalStatus::Active)
        && goal.as_ref().is_some_and(|goal| goal.status == ThreadGoalStatus::Complete);
    let mut goal = match (goal.filter(|_| !is_new), &objective) {
        (Some(goal), _) => goal,
        (None, Some(_)) => new_goal(id, now),
        (None, None) => return Err(GoalError::NoGoal(id.clone())),
    };
    goal.objective = objective.unwrap_or(goal.objective);
    goal.token_budget = change.token_budget.apply(goal.token_budget);
    goal.status = match (change.status, goal.status) {
        // There is nothing to stop.
        (
            Some(ThreadGoalStatus::Paused | ThreadGoalStatus::Blocked),
            status @ ThreadGoalStatus::BudgetLimited,
        ) => status,
        (Some(status), _) | (None, status) => status,
    };
    limit(&mut goal);
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

/// Returns the goal after a response; `None` if the goal is not active or the response cost nothing.
pub(crate) fn charged(mut goal: ThreadGoal, used: &TokenUsageBreakdown, now: i64) -> Option<ThreadGoal> {
    let uncached = used.input_tokens.saturating_sub(used.cached_input_tokens);
    let tokens = uncached.saturating_add(used.output_tokens);
    if goal.status != ThreadGoalStatus::Active || tokens <= 0 {
        return None;
    }
    goal.tokens_used = goal.tokens_used.saturating_add(tokens);
    limit(&mut goal);
    goal.updated_at = now;
    Some(goal)
}

/// Stops an active goal whose budget is used up.
fn limit(goal: &mut ThreadGoal) {
    let is_used_up = goal.token_budget.is_some_and(|budget| goal.tokens_used >= budget);
    if goal.status == ThreadGoalStatus::Active && is_used_up {
        goal.status = ThreadGoalStatus::BudgetLimited;
    }
}

/// A call of the model's goal tools.
#[derive(Clone, Debug)]
pub(crate) enum GoalRequest {
    Get,
    Create { objective: String, token_budget: Option<i64> },
    Update(ModelGoalStatus),
}

/// The states that the model may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ModelGoalStatus {
    Complete,
    Blocked,
    Paused,
}

/// The output of the goal tools.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GoalReport {
    goal: Option<ThreadGoal>,
    remaining_tokens: Option<i64>,
    /// What the user should hear about the cost of a complete goal with a budget.
    completion_budget_report: Option<String>,
}

impl GoalReport {
    pub fn of(goal: Option<ThreadGoal>) -> Self {
        let budget = |goal: &ThreadGoal| goal.token_budget;
        let remaining_tokens =
            goal.as_ref().and_then(|goal| Some(budget(goal)?.saturating_sub(goal.tokens_used).max(0)));
        let complete = goal.as_ref().filter(|goal| goal.status == ThreadGoalStatus::Complete);
        let completion_budget_report = complete.and_then(|goal| {
            let ThreadGoal { tokens_used, time_used_seconds, .. } = goal;
            let budget = budget(goal)?;
            Some(format!(
                "The goal is complete. Tell the user what it took: {tokens_used} of {budget} tokens, \
                 {time_used_seconds} seconds."
            ))
        });
        Self { goal, remaining_tokens, completion_budget_report }
    }
}

/// Returns the goal after a call of the model; `None` if it stays as it is. A refusal is a text for the model.
pub(crate) fn requested(
    id: &ThreadId,
    goal: Option<&ThreadGoal>,
    request: GoalRequest,
    now: i64,
) -> Result<Option<ThreadGoal>, String> {
    match request {
        GoalRequest::Get => Ok(None),
        GoalRequest::Create { objective, token_budget } => {
            if goal.is_some_and(|goal| goal.status != ThreadGoalStatus::Complete) {
                return Err("the thread has an unfinished goal; it has to be completed first".to_owned());
            }
            let objective = objective.trim().to_owned();
            check_objective(&objective).map_err(|error| error.to_string())?;
            if token_budget.is_some_and(|budget| budget <= 0) {
                return Err(GoalError::Budget.to_string());
            }
            Ok(Some(ThreadGoal { objective, token_budget, ..new_goal(id, now) }))
        }
        GoalRequest::Update(status) => {
            let goal = goal.ok_or("the thread has no goal")?.clone();
            let status = match status {
                ModelGoalStatus::Complete => ThreadGoalStatus::Complete,
                ModelGoalStatus::Blocked => ThreadGoalStatus::Blocked,
                ModelGoalStatus::Paused => ThreadGoalStatus::Paused,
            };
            Ok(Some(ThreadGoal { status, updated_at: now, ..goal }))
        }
    }
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
    fn responses_are_charged_while_the_goal_is_active_and_within_its_budget() {
        let goal = set(None, json!({ "objective": "x", "tokenBudget": 100 })).unwrap();
        let once = charged(goal, &usage(100, 40, 10), 9).unwrap();
        assert_eq!((once.tokens_used, once.updated_at, once.status), (70, 9, ThreadGoalStatus::Active));
        assert_eq!(charged(once.clone(), &usage(5, 5, 0), 9), None);
        let twice = charged(once, &usage(100, 40, 10), 9).unwrap();
        assert_eq!((twice.tokens_used, twice.status), (140, ThreadGoalStatus::BudgetLimited));
        assert_eq!(charged(twice.clone(), &usage(9, 0, 9), 9), None);
        let again = set(Some(twice.clone()), json!({ "status": "active" })).unwrap();
        assert_eq!(again.status, ThreadGoalStatus::BudgetLimited);
        for stop in ["paused", "blocked"] {
            let stopped = set(Some(twice.clone()), json!({ "status": stop })).unwrap();
            assert_eq!(stopped.status, ThreadGoalStatus::BudgetLimited, "{stop}");
        }
        let more = set(Some(twice.clone()), json!({ "tokenBudget": 200 })).unwrap();
        assert_eq!((more.status, more.token_budget), (ThreadGoalStatus::BudgetLimited, Some(200)));
        let more = set(Some(twice), json!({ "tokenBudget": 200, "status": "active" })).unwrap();
        assert_eq!((more.status, more.tokens_used), (ThreadGoalStatus::Active, 140));
    }

    #[test]
    fn the_model_creates_one_goal_at_a_time_and_ends_it() {
        let id = ThreadId::from("t");
        let request = |goal: Option<&ThreadGoal>, request| requested(&id, goal, request, 7);
        let create = |text: &str| GoalRequest::Create { objective: text.to_owned(), token_budget: Some(5) };
        let complete = || GoalRequest::Update(ModelGoalStatus::Complete);
        assert_eq!(request(None, complete()).unwrap_err(), "the thread has no goal");
        assert_eq!(request(None, create(" ")).unwrap_err(), "goal objective must not be empty");
        let goal = request(None, create(" tidy up ")).unwrap().unwrap();
        assert_eq!((goal.objective.as_str(), goal.token_budget), ("tidy up", Some(5)));
        assert!(request(Some(&goal), create("more")).unwrap_err().contains("unfinished goal"));
        let done = request(Some(&goal), complete()).unwrap().unwrap();
        assert_eq!(GoalReport::of(Some(done.clone())).remaining_tokens, Some(5));
        assert!(request(Some(&done), create("more")).unwrap().is_some());
        let done = ThreadGoal { tokens_used: 9, ..done };
        let edited = set(Some(done.clone()), json!({ "objective": "next" })).unwrap();
        assert_eq!((edited.status, edited.tokens_used), (ThreadGoalStatus::Complete, 9));
        let fresh = set(Some(done), json!({ "objective": "next", "status": "active" })).unwrap();
        assert_eq!((fresh.status, fresh.tokens_used), (ThreadGoalStatus::Active, 0));
    }
}
