//! The last records of a thread, from which the messages of its clients follow.

use codicil_protocol::{ItemId, ThreadId};
use jiff::Timestamp;

use crate::{
    blobs,
    error::Result,
    record::{ItemMark, Record},
    record_line::{LineHead, RecordKind},
    record_lines::RecordLines,
    record_parts::{decode, turn_of},
    store::Store,
    thread_lines::ThreadLines,
};

/// A record with its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedRecord {
    pub ordinal: u64,
    /// The time of the record, in milliseconds.
    pub at: Timestamp,
    pub record: Record,
}

/// The records of a thread from an ordinal on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordTail {
    /// The records that concern clients, in order. They begin with those of the turn that contains the ordinal.
    pub records: Vec<PlacedRecord>,
    /// Whether settings were stored at the ordinal or after it.
    pub has_settings: bool,
    /// Whether turns, or items that clients have seen, were removed after the ordinal.
    pub was_rolled_back: bool,
    /// Whether the records are longer than asked for. They are left out then.
    pub is_too_long: bool,
}

impl Store {
    /// Reads the records from an ordinal on, if they have at most `max_bytes`.
    pub async fn record_tail(&self, id: &ThreadId, from: u64, max_bytes: usize) -> Result<RecordTail> {
        self.with_lines(id, concerns_clients, move |lines| Ok(lines.record_tail(from, max_bytes))).await
    }
}

impl ThreadLines {
    fn record_tail(&self, from: u64, max_bytes: usize) -> RecordTail {
        let lines = self.records();
        let mut tail = RecordTail::default();
        let mut open_turn = None;
        let mut open_id = None;
        let mut queued = Vec::new();
        let mut length = 0;
        for (_, head) in lines.heads() {
            if head.ordinal < from {
                match head.kind {
                    // A continued turn has a record of each process.
                    RecordKind::Turn if open_id.is_some() && turn_of(head) == open_id => {}
                    RecordKind::Turn => {
                        open_turn = Some(head.ordinal);
                        open_id = turn_of(head);
                    }
                    RecordKind::TurnEnd => {
                        open_turn = None;
                        open_id = None;
                    }
                    _ => {}
                }
            } else if head.kind == RecordKind::Settings {
                tail.has_settings = true;
            } else if concerns_clients(head.kind) {
                tail.was_rolled_back |= head.ordinal > from && self.removes_items(head, &mut queued);
                length += head.record.len();
            }
        }
        tail.is_too_long = length > max_bytes;
        if tail.was_rolled_back || tail.is_too_long {
            return tail;
        }
        let first = open_turn.map_or(from, |turn| self.beginning_of_turn(&lines, turn));
        let wanted = lines.heads().filter(|(_, head)| head.ordinal >= first && concerns_clients(head.kind));
        tail.records = wanted.filter_map(|(_, head)| self.placed_record(head)).collect();
        tail
    }

    /// Returns whether a record removes items that clients have seen. `queued` are the inputs that they have not seen.
    fn removes_items(&self, head: LineHead<'_>, queued: &mut Vec<ItemId>) -> bool {
        if head.kind != RecordKind::Extra {
            return head.kind == RecordKind::Rollback;
        }
        match decode::<Record>(head).and_then(|record| record.marked_item()) {
            Some((ItemMark::Queued, id)) => {
                queued.push(id);
                false
            }
            Some((ItemMark::Withdrawn, id)) => !queued.contains(&id),
            None => false,
        }
    }

    /// Returns the ordinal of the first record of a turn. Items of a review precede the record of its turn.
    fn beginning_of_turn(&self, lines: &RecordLines<'_>, turn: u64) -> u64 {
        let id = lines.heads().find(|(_, head)| head.ordinal == turn).and_then(|(_, head)| turn_of(head));
        let is_of_turn = |head: &LineHead<'_>| head.kind == RecordKind::Item && turn_of(*head) == id;
        let item = lines.heads().map(|(_, head)| head).find(is_of_turn).map(|head| head.ordinal);
        item.map_or(turn, |item| item.min(turn))
    }

    fn placed_record(&self, head: LineHead<'_>) -> Option<PlacedRecord> {
        let record = if head.blobs {
            let whole = blobs::move_in(&self.blobs, &head.json(), &mut Vec::new());
            serde_json::from_str(&whole).ok()
        } else {
            decode(head)
        };
        Some(PlacedRecord { ordinal: head.ordinal, at: head.timestamp.parse().ok()?, record: record? })
    }
}

fn concerns_clients(kind: RecordKind) -> bool {
    matches!(
        kind,
        RecordKind::Turn
            | RecordKind::Item
            | RecordKind::Usage
            | RecordKind::TurnEnd
            | RecordKind::Rollback
            | RecordKind::Name
            | RecordKind::Extra
    )
}
