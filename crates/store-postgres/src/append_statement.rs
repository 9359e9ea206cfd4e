//! The statement that appends batches of several threads in one commit, and the row that tells whether it took effect.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use sha2::{Digest, Sha256};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{
    connection::{DatabaseConnection, column},
    error::{PostgresError, Result},
    lease::Epoch,
};

/// The maximum size of a batch. The server needs several times as much memory for a statement.
pub(crate) const MAX_BATCH_BYTES: usize = 64 * 1024 * 1024;

const ACTION: &str = "append to the log";

/// Takes effect for the threads whose lease has the expected epoch and end, and returns them.
const APPEND: &str = "select appended.thread
    from codicil_append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) as appended(thread)";

/// Returns the ends of threads, and what is stored at the expected end of each batch.
const ENDS: &str = "select l.thread, l.epoch, l.next, sha256(g.lines) as stored
    from unnest($1::uuid[], $2::bigint[]) as w(thread, first) join codicil_lease l using (thread)
    left join codicil_log g on g.thread = w.thread and g.first = w.first and g.epoch = l.epoch";

/// Lines to append to a thread.
#[derive(Clone, Debug)]
pub struct LineBatch {
    pub thread: Uuid,
    pub epoch: Epoch,
    /// The ordinals of the lines. The first one is the end that is expected.
    pub ordinals: Range<u64>,
    /// The lines, each with its newline.
    pub lines: Vec<u8>,
    pub change: RowChange,
}

/// What an append changes besides the log. `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct RowChange {
    /// The time of the thread's last activity, in Unix seconds.
    pub active_at: Option<i64>,
    /// The first user message. Later ones are ignored.
    pub preview: Option<String>,
    pub name: Option<String>,
    /// The number of server requests that wait for an answer.
    pub open_requests: Option<i32>,
    /// The rest of the list entry.
    pub details: Option<String>,
    /// The section, project and attachments, as JSON.
    pub facts: Option<String>,
    pub state: Option<ThreadState>,
}

/// Whether a thread has a turn, for nodes that look for the threads of a dead one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    Idle = 0,
    Running = 1,
    Parked = 2,
}

/// What the lease of a thread says about a batch whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchOutcome {
    Stored,
    NotStored,
    Overtaken,
}

/// The epoch of a thread and the ordinal of its next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogEnd {
    pub epoch: Epoch,
    pub next: u64,
}

/// The end of a thread, and the hash of the batch that begins where the end was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundEnd {
    pub end: LogEnd,
    pub stored: Option<Vec<u8>>,
}

impl LineBatch {
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.lines.len();
        if bytes > MAX_BATCH_BYTES {
            return Err(PostgresError::TooLarge { what: "a batch of lines", bytes, limit: MAX_BATCH_BYTES });
        }
        Ok(())
    }

    pub(crate) fn overtaken(&self) -> PostgresError {
        PostgresError::Overtaken { thread: self.thread, first: self.ordinals.start }
    }

    /// Decides with what is stored: this batch, nothing yet, or something else. This node may have written another batch at
    /// the same end, such as a name.
    pub(crate) fn outcome(&self, found: Option<&FoundEnd>) -> BatchOutcome {
        match found.filter(|found| found.end.epoch == self.epoch) {
            Some(found) if found.stored.as_deref() == Some(&Sha256::digest(&self.lines)[..]) => {
                BatchOutcome::Stored
            }
            Some(found) if found.end.next == self.ordinals.start => BatchOutcome::NotStored,
            _ => BatchOutcome::Overtaken,
        }
    }
}

impl RowChange {
    fn changes_row(&self) -> bool {
        self.active_at.is_some()
            || self.preview.is_some()
            || self.name.is_some()
            || self.open_requests.is_some()
            || self.details.is_some()
            || self.facts.is_some()
    }
}

/// Appends batches, at most one of each thread. Returns the threads that were extended.
pub(crate) async fn append(connection: &DatabaseConnection, batches: &[&LineBatch]) -> Result<HashSet<Uuid>> {
    let threads: Vec<_> = batches.iter().map(|batch| batch.thread).collect();
    let epochs: Vec<_> = batches.iter().map(|batch| batch.epoch.0).collect();
    let firsts: Vec<_> = batches.iter().map(|batch| batch.ordinals.start.cast_signed()).collect();
    let nexts: Vec<_> = batches.iter().map(|batch| batch.ordinals.end.cast_signed()).collect();
    let lines: Vec<_> = batches.iter().map(|batch| batch.lines.as_slice()).collect();
    let states: Vec<_> = batches.iter().map(|batch| batch.change.state.map(|state| state as i16)).collect();

    let changed: Vec<_> = batches.iter().filter(|batch| batch.change.changes_row()).collect();
    let changed_threads: Vec<_> = changed.iter().map(|batch| batch.thread).collect();
    let active_at: Vec<_> = changed.iter().map(|batch| batch.change.active_at).collect();
    let previews: Vec<_> = changed.iter().map(|batch| storable(batch.change.preview.as_deref())).collect();
    let names: Vec<_> = changed.iter().map(|batch| storable(batch.change.name.as_deref())).collect();
    let open_requests: Vec<_> = changed.iter().map(|batch| batch.change.open_requests).collect();
    let details: Vec<_> = changed.iter().map(|batch| batch.change.details.as_deref()).collect();
    let facts: Vec<_> = changed.iter().map(|batch| storable_json(batch.change.facts.as_deref())).collect();

    let values = [
        (&threads as _, Type::UUID_ARRAY),
        (&epochs as _, Type::INT8_ARRAY),
        (&firsts as _, Type::INT8_ARRAY),
        (&nexts as _, Type::INT8_ARRAY),
        (&lines as _, Type::BYTEA_ARRAY),
        (&states as _, Type::INT2_ARRAY),
        (&changed_threads as _, Type::UUID_ARRAY),
        (&active_at as _, Type::INT8_ARRAY),
        (&previews as _, Type::TEXT_ARRAY),
        (&names as _, Type::TEXT_ARRAY),
        (&open_requests as _, Type::INT4_ARRAY),
        (&details as _, Type::TEXT_ARRAY),
        (&facts as _, Type::TEXT_ARRAY),
    ];
    let rows = connection.query(ACTION, APPEND, &values).await?;
    rows.iter().map(|row| column(row, "thread")).collect()
}

/// Returns the ends of the threads of batches.
pub(crate) async fn log_ends(
    connection: &DatabaseConnection,
    batches: &[&LineBatch],
) -> Result<HashMap<Uuid, FoundEnd>> {
    let threads: Vec<_> = batches.iter().map(|batch| batch.thread).collect();
    let firsts: Vec<_> = batches.iter().map(|batch| batch.ordinals.start.cast_signed()).collect();
    let values = [(&threads as _, Type::UUID_ARRAY), (&firsts as _, Type::INT8_ARRAY)];
    let rows = connection.query(ACTION, ENDS, &values).await?;
    let read = |row| {
        let next: i64 = column(row, "next")?;
        let end = LogEnd { epoch: Epoch(column(row, "epoch")?), next: next.cast_unsigned() };
        Ok((column(row, "thread")?, FoundEnd { end, stored: column(row, "stored")? }))
    };
    rows.iter().map(read).collect()
}

/// Returns a text without the character that PostgreSQL cannot store. The log has the original.
pub(crate) fn storable(text: Option<&str>) -> Option<String> {
    text.map(|text| text.replace('\0', "\u{fffd}"))
}

/// Returns JSON without the escape that PostgreSQL cannot store. The log has the original.
pub(crate) fn storable_json(json: Option<&str>) -> Option<String> {
    json.map(|json| json.replace("\\u0000", "\\ufffd"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_decides_about_a_lost_answer() {
        let batch = LineBatch {
            thread: Uuid::nil(),
            epoch: Epoch(3),
            ordinals: 7..9,
            lines: b"one\ntwo\n".to_vec(),
            change: RowChange::default(),
        };
        let check = |epoch, next, stored: Option<&str>, expected| {
            let stored = stored.map(|lines| Sha256::digest(lines).to_vec());
            let end = LogEnd { epoch: Epoch(epoch), next };
            assert_eq!(batch.outcome(Some(&FoundEnd { end, stored })), expected);
        };
        check(3, 9, Some("one\ntwo\n"), BatchOutcome::Stored);
        check(3, 9, Some("one\nother\n"), BatchOutcome::Overtaken);
        check(3, 7, None, BatchOutcome::NotStored);
        check(3, 8, Some("one\n"), BatchOutcome::Overtaken);
        check(4, 9, None, BatchOutcome::Overtaken);
        check(4, 7, None, BatchOutcome::Overtaken);
        assert_eq!(batch.outcome(None), BatchOutcome::Overtaken);
    }
}
