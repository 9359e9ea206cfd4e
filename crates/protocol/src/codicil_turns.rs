//! `codicil/turn/read`: turns by their ids, with what `thread/turns/list` does not return.

use crate::*;

/// The turns that are wanted.
#[wire]
pub struct CodicilTurnReadParams {
    pub thread_id: ThreadId,
    /// The first 100 are read.
    pub turn_ids: Vec<TurnId>,
}

/// The turns that the thread has, in the order in which they were asked for.
#[wire]
pub struct CodicilTurnReadResponse {
    pub data: Vec<CodicilTurnEntry>,
}

/// A turn and its plan.
#[wire]
pub struct CodicilTurnEntry {
    /// The turn without its items.
    pub turn: Turn,
    /// The last plan of the turn; absent if it has none.
    #[omit]
    pub plan: Option<TurnPlanUpdatedNotification>,
}
