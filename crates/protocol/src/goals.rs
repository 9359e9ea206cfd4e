//! Goals: what a thread is to reach, however many turns that takes. Clients of later generations set them.

use crate::{NotificationMethod, Patch, ThreadId, TurnId, wire};

/// What a thread works towards, and what that has cost so far.
#[wire]
pub struct ThreadGoal {
    pub thread_id: ThreadId,
    pub objective: String,
    pub status: ThreadGoalStatus,
    /// How many tokens it may cost; null for any number.
    pub token_budget: Option<i64>,
    /// By turns that ran while it was active. What the provider had cached does not count.
    pub tokens_used: i64,
    pub time_used_seconds: i64,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    pub updated_at: i64,
}

/// How a goal stands.
#[wire]
#[derive(Copy, Eq)]
pub enum ThreadGoalStatus {
    Active,
    Paused,
    Blocked,
    UsageLimited,
    BudgetLimited,
    Complete,
}

/// Sets a thread's goal, or changes the one it has. What is left out stays as it is.
#[wire(sparse)]
pub struct ThreadGoalSetParams {
    pub thread_id: ThreadId,
    /// Needed for a thread that has no goal.
    pub objective: Option<String>,
    /// A new goal is active when left out.
    pub status: Option<ThreadGoalStatus>,
    /// Null takes the budget away.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub token_budget: Patch<i64>,
}

/// The goal after the change; `thread/goal/updated` follows.
#[wire]
pub struct ThreadGoalSetResponse {
    pub goal: ThreadGoal,
}

/// Names a thread whose goal is meant.
#[wire]
pub struct ThreadGoalParams {
    pub thread_id: ThreadId,
}

/// The goal of a thread; null if it has none.
#[wire]
pub struct ThreadGoalGetResponse {
    pub goal: Option<ThreadGoal>,
}

/// Whether there was a goal to take away.
#[wire]
pub struct ThreadGoalClearResponse {
    pub cleared: bool,
}

/// Tells those who follow a thread about its goal.
#[derive(Clone, Copy, Debug)]
pub struct ThreadGoalUpdated;

impl NotificationMethod for ThreadGoalUpdated {
    const NAME: &'static str = "thread/goal/updated";
    type Params = ThreadGoalUpdatedNotification;
}

/// A thread has got a goal, or the one it has was changed.
#[wire]
pub struct ThreadGoalUpdatedNotification {
    pub thread_id: ThreadId,
    /// The turn that changed it; null when somebody did.
    pub turn_id: Option<TurnId>,
    pub goal: ThreadGoal,
}

/// Tells those who follow a thread that it has no goal any more.
#[derive(Clone, Copy, Debug)]
pub struct ThreadGoalCleared;

impl NotificationMethod for ThreadGoalCleared {
    const NAME: &'static str = "thread/goal/cleared";
    type Params = ThreadGoalClearedNotification;
}

/// The goal of a thread was taken away.
#[wire]
pub struct ThreadGoalClearedNotification {
    pub thread_id: ThreadId,
}
