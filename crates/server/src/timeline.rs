//! The timeline of a thread: its turns, their items and the entries of its voice sessions, in the order of time.

use codicil_protocol::{ThreadRealtimeItemContent, ThreadTimelineEntry, Turn, TurnStatus};
use codicil_store::{RealtimeEntry, StoredTurn};
use jiff::Timestamp;

/// Returns what happened in these turns and voice sessions. The position of an entry is its number.
pub fn timeline_entries(turns: &[StoredTurn], realtime: Vec<RealtimeEntry>) -> Vec<ThreadTimelineEntry> {
    let mut timeline = Timeline { entries: Vec::new(), realtime: realtime.into_iter().peekable() };
    for stored in turns {
        let Turn { id, items, status, error, started_at, completed_at, duration_ms, .. } = stored.decode();
        let turn_id = id.clone();
        timeline.add(stored.started(), |position| ThreadTimelineEntry::TurnStarted {
            position,
            published_turn_id: Some(turn_id.clone()),
            turn_id,
            started_at,
            published_started_at: started_at,
        });
        for (index, item) in items.into_iter().enumerate() {
            let turn_id = id.clone();
            let at = stored.item_times(index, &item).completed;
            timeline.add(at, |position| ThreadTimelineEntry::Item { position, turn_id, item });
        }
        if status != TurnStatus::InProgress {
            timeline.add(stored.completed(), |position| ThreadTimelineEntry::TurnCompleted {
                position,
                published_turn_id: Some(id.clone()),
                turn_id: id,
                status,
                error,
                started_at,
                completed_at,
                duration_ms,
                published_started_at: started_at,
                published_completed_at: completed_at,
                published_duration_ms: duration_ms,
            });
        }
    }
    timeline.add_realtime_until(i64::MAX);
    timeline.entries
}

/// Returns the voice session that is open after these entries.
pub fn active_session(entries: &[ThreadTimelineEntry]) -> Option<String> {
    entries.iter().fold(None, |active, entry| match entry {
        ThreadTimelineEntry::Realtime { item, .. } => match item.content {
            ThreadRealtimeItemContent::RealtimeSessionStarted => Some(item.realtime_session_id.clone()),
            ThreadRealtimeItemContent::RealtimeSessionClosed { .. } => None,
            _ => active,
        },
        _ => active,
    })
}

/// A timeline that is being made.
struct Timeline {
    entries: Vec<ThreadTimelineEntry>,
    /// Entries of voice sessions that are not in the timeline yet, oldest first.
    realtime: std::iter::Peekable<std::vec::IntoIter<RealtimeEntry>>,
}

impl Timeline {
    /// Adds an entry, after those of voice sessions before it. An entry without a time follows the one before.
    fn add(&mut self, at: Option<Timestamp>, entry: impl FnOnce(u64) -> ThreadTimelineEntry) {
        if let Some(at) = at {
            self.add_realtime_until(at.as_millisecond());
        }
        self.entries.push(entry(self.entries.len() as u64));
    }

    fn add_realtime_until(&mut self, at_ms: i64) {
        while let Some(RealtimeEntry { item, .. }) = self.realtime.next_if(|entry| entry.at_ms < at_ms) {
            self.entries.push(ThreadTimelineEntry::Realtime { position: self.entries.len() as u64, item });
        }
    }
}
