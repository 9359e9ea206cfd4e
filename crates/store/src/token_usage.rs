//! The tokens that a thread has used, response by response.

use codicil_protocol::{ThreadId, ThreadTokenUsage, TurnId};
use jiff::Timestamp;

use crate::{
    error::Result, record::Record, record_line::RecordKind, record_lines::RecordLines, record_parts::decode,
    store::Store,
};

/// The usage of a thread after a response of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRecord {
    pub at: Timestamp,
    pub turn_id: TurnId,
    pub usage: ThreadTokenUsage,
}

impl Store {
    /// Reads the usage after each response of a thread, oldest first. Turns that were removed later have used tokens too.
    pub async fn token_usage(&self, id: &ThreadId) -> Result<Vec<UsageRecord>> {
        self.with_lines(id, |_| false, |lines| Ok(token_usage(&lines.records()))).await
    }
}

fn token_usage(lines: &RecordLines<'_>) -> Vec<UsageRecord> {
    let usages = lines.heads().map(|(_, head)| head).filter(|head| head.kind == RecordKind::Usage);
    let record = |head| match decode::<Record>(head)? {
        Record::Usage { turn_id, usage } => Some((turn_id, usage)),
        _ => None,
    };
    let placed = usages.filter_map(|head| Some((head.timestamp.parse().ok()?, record(head)?)));
    placed.map(|(at, (turn_id, usage))| UsageRecord { at, turn_id, usage }).collect()
}
