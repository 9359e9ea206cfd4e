//! `codicil/usage/read`: the tokens that threads have used.

use crate::*;

/// The threads whose usage is wanted.
#[wire(sparse)]
pub struct CodicilUsageReadParams {
    /// The first 200 are read.
    pub thread_ids: Vec<ThreadId>,
    /// Unix seconds. Adds the usage of each response since then.
    pub since: Option<i64>,
}

/// The usage of the threads that have used tokens and are stored, in the order in which they were asked for.
#[wire]
pub struct CodicilUsageReadResponse {
    pub data: Vec<CodicilThreadUsage>,
}

/// The tokens that a thread has used.
#[wire]
pub struct CodicilThreadUsage {
    pub thread_id: ThreadId,
    /// The usage after the last response.
    pub usage: ThreadTokenUsage,
    /// The responses since the time that was asked for, oldest first.
    pub responses: Vec<CodicilResponseUsage>,
}

/// The tokens of one response of the model.
#[wire]
pub struct CodicilResponseUsage {
    pub turn_id: TurnId,
    /// Unix seconds.
    pub at: i64,
    pub usage: TokenUsageBreakdown,
}
