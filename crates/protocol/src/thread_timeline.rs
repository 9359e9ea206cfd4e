//! The timeline of a thread, which has items, voice sessions and turns in one order: `thread/timeline/list`.

use crate::{ThreadId, ThreadItem, ThreadRealtimeItem, TurnError, TurnId, TurnStatus, wire};

/// Lists what happened in a thread.
#[wire(sparse)]
pub struct ThreadTimelineListParams {
    pub thread_id: ThreadId,
    pub cursor: Option<String>,
    pub limit: Option<u32>,
}

/// One page of the timeline, newest first.
#[wire]
pub struct ThreadTimelineListResponse {
    pub data: Vec<ThreadTimelineEntry>,
    /// The voice session that is open at the start of the page.
    pub active_realtime_session_at_page_start: Option<String>,
    pub next_cursor: Option<String>,
}

/// An entry of the timeline. `position` increases with time.
///
/// The published schema spells members of the starts and ends of turns in snake case, and the reference writes them in camel
/// case. The server writes both; readers use those in camel case.
#[wire(open, tag = "type")]
pub enum ThreadTimelineEntry {
    Item {
        turn_id: TurnId,
        position: u64,
        item: ThreadItem,
    },
    Realtime {
        position: u64,
        item: ThreadRealtimeItem,
    },
    TurnStarted {
        #[schemars(skip)]
        turn_id: TurnId,
        position: u64,
        #[schemars(skip)]
        started_at: Option<i64>,
        #[serde(rename = "turn_id")]
        #[in_166(TurnId, required)]
        published_turn_id: Option<TurnId>,
        #[serde(rename = "started_at")]
        published_started_at: Option<i64>,
    },
    TurnCompleted {
        #[schemars(skip)]
        turn_id: TurnId,
        position: u64,
        status: TurnStatus,
        #[schemars(skip)]
        completed_at: Option<i64>,
        #[schemars(skip)]
        duration_ms: Option<i64>,
        #[schemars(skip)]
        started_at: Option<i64>,
        error: Option<TurnError>,
        #[serde(rename = "turn_id")]
        #[in_166(TurnId, required)]
        published_turn_id: Option<TurnId>,
        #[serde(rename = "completed_at")]
        published_completed_at: Option<i64>,
        #[serde(rename = "duration_ms")]
        published_duration_ms: Option<i64>,
        #[serde(rename = "started_at")]
        published_started_at: Option<i64>,
    },
}
