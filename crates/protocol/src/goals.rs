//! Goals of threads: `thread/goal/*`. A goal can take any number of turns. Newer clients use these methods; they are not part
//! of the published schema.

use crate::{Patch, ThreadId, TurnId, wire};

/// The goal of a thread and the resources used for it.
#[wire]
pub struct ThreadGoal {
    pub thread_id: ThreadId,
    pub objective: String,
    pub status: ThreadGoalStatus,
    /// The maximum number of tokens; null: no limit.
    pub token_budget: Option<i64>,
    /// The tokens used by turns while the goal was active, without cached input tokens.
    pub tokens_used: i64,
    pub time_used_seconds: i64,
    /// Unix seconds.
    pub created_at: i64,
    /// Unix seconds.
    pub updated_at: i64,
}

/// The state of a goal.
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

/// Sets or changes the goal of a thread. Absent values are kept.
#[wire(sparse)]
pub struct ThreadGoalSetParams {
    pub thread_id: ThreadId,
    /// Required if the thread has no goal.
    pub objective: Option<String>,
    /// Defaults to `active` for a new goal.
    pub status: Option<ThreadGoalStatus>,
    /// Null removes the budget.
    #[serde(default, skip_serializing_if = "Patch::is_missing")]
    pub token_budget: Patch<i64>,
    /// Who changes the goal. Has no effect.
    pub origin: Option<ThreadGoalMutationOrigin>,
}

/// The goal after the change; `thread/goal/updated` follows.
#[wire]
pub struct ThreadGoalSetResponse {
    pub goal: ThreadGoal,
}

/// The goal of a thread; null if it has none.
#[wire]
pub struct ThreadGoalGetResponse {
    pub goal: Option<ThreadGoal>,
}

/// Whether the thread had a goal.
#[wire]
pub struct ThreadGoalClearResponse {
    pub cleared: bool,
}

/// The goal of a thread was set or changed. Sent to its subscribers.
#[wire]
pub struct ThreadGoalUpdatedNotification {
    pub thread_id: ThreadId,
    /// The turn that changed the goal; null for a change by a client.
    pub turn_id: Option<TurnId>,
    pub goal: ThreadGoal,
}

/// The goal of a thread was removed. Sent to its subscribers.
#[wire]
pub struct ThreadGoalClearedNotification {
    pub thread_id: ThreadId,
}

/// Returns the goal of a thread.
#[wire]
pub struct ThreadGoalGetParams {
    pub thread_id: ThreadId,
}

/// Removes the goal of a thread.
#[wire(sparse)]
pub struct ThreadGoalClearParams {
    pub thread_id: ThreadId,
    pub origin: Option<ThreadGoalMutationOrigin>,
}

/// Who changes a goal.
#[wire(open)]
#[derive(Eq)]
pub enum ThreadGoalMutationOrigin {
    User,
    Automatic,
}
