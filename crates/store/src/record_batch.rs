//! Records that are appended together: their lines, and what they change of the thread's list entry and facts.

use codicil_protocol::ThreadItem;
use jiff::Timestamp;

use crate::{
    backend::TurnActivity,
    blobs, clock,
    error::Result,
    facts::{FactChange, FactEvent},
    index::{GitChange, SummaryChange},
    record::{GoalChange, KEY, PARKED, Record, ThreadMeta},
    record_line,
    summary::{self, ModelChoice},
    thread_log::AdoptedRecord,
};

/// Records to append, as JSON, each with its time.
pub(crate) struct RecordBatch {
    records: Vec<(Timestamp, String)>,
    change: SummaryChange,
    /// The records that affect facts, by their place in the batch.
    facts: Vec<(u64, FactEvent)>,
    /// Whether a turn has begun or ended with these records.
    activity: Option<TurnActivity>,
    /// Whether a record is the key of a request.
    has_key: bool,
}

impl RecordBatch {
    pub(crate) fn new<'a>(
        records: impl IntoIterator<Item = (Timestamp, &'a Record)>,
        wants_preview: bool,
    ) -> Result<Self> {
        let mut batch = Self {
            records: Vec::new(),
            change: SummaryChange::default(),
            facts: Vec::new(),
            activity: None,
            has_key: false,
        };
        for (at, record) in records {
            batch.note(at, record, wants_preview);
            let place = batch.records.len() as u64;
            batch.facts.extend(record.fact_event().map(|event| (place, event)));
            batch.records.push((at, serde_json::to_string(record)?));
        }
        Ok(batch)
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> u64 {
        self.records.len() as u64
    }

    pub(crate) fn first_time(&self) -> Option<Timestamp> {
        self.records.first().map(|(at, _)| *at)
    }

    pub(crate) fn activity(&self) -> Option<TurnActivity> {
        self.activity
    }

    /// Returns whether the records would mean something else after a record of another writer: a key may be the same one, and a
    /// change of the queue may be about a submission that is gone.
    pub(crate) fn depends_on(&self, earlier: &AdoptedRecord) -> bool {
        match earlier {
            AdoptedRecord::Key => self.has_key,
            AdoptedRecord::Fact { change: FactChange::Queue(_), .. } => self.changes_queue(),
            _ => false,
        }
    }

    fn changes_queue(&self) -> bool {
        self.facts.iter().any(|(_, event)| matches!(event, FactEvent::Change(FactChange::Queue(_))))
    }

    /// Returns what the records change of the list entry. The first one has the ordinal `first`.
    pub(crate) fn change_from(&self, first: u64) -> SummaryChange {
        SummaryChange { facts: self.facts_from(first), ..self.change.clone() }
    }

    /// Returns the events with their ordinals. The first record of the batch has the ordinal `first`.
    fn facts_from(&self, first: u64) -> Vec<(u64, FactEvent)> {
        self.facts.iter().map(|(place, event)| (first + place, event.clone())).collect()
    }

    fn note(&mut self, at: Timestamp, record: &Record, wants_preview: bool) {
        match record {
            Record::Name { name } => self.change.name = Some(name.clone()),
            Record::Git { git } => self.change.git = GitChange::Set(git.clone()),
            Record::Extra { kind, .. } => {
                self.has_key |= kind == KEY;
                if kind == PARKED {
                    self.activity = Some(TurnActivity::Parked);
                }
                if let Some(GoalChange::Set { goal, .. }) = record.goal_change()
                    && wants_preview
                {
                    self.change.preview.get_or_insert(goal.objective);
                }
            }
            record => {
                self.change.active_at = Some(at.as_millisecond().div_euclid(1000));
                match record {
                    Record::Settings(settings) => self.change.model = Some(ModelChoice::from(settings)),
                    Record::Asked { open, .. } | Record::Answered { open, .. } => {
                        self.change.open_requests = Some(open.clone());
                    }
                    Record::Turn { .. } => self.activity = Some(TurnActivity::Running),
                    Record::TurnEnd { .. } => {
                        self.change.open_requests = Some(Vec::new());
                        self.activity = Some(TurnActivity::Idle);
                    }
                    _ => {}
                }
                if let Record::Item { item: item @ ThreadItem::UserMessage { .. }, .. } = record
                    && wants_preview
                    && self.change.preview.is_none()
                {
                    self.change.preview = summary::preview(item);
                }
            }
        }
    }
}

/// Writes the first line. It never refers to blobs, so that it can be read by itself.
pub(crate) fn write_meta(bytes: &mut Vec<u8>, meta: &ThreadMeta, at: Timestamp) -> Result<()> {
    let record = serde_json::to_string(&Record::Meta(meta.clone()))?;
    record_line::write(bytes, 0, &clock::stamp(at), false, &record);
    Ok(())
}

/// Encodes records as lines. `save` stores a large text and returns its hash.
pub(crate) fn encode(
    batch: &RecordBatch,
    first: u64,
    mut save: impl FnMut(String) -> Result<String>,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(batch.records.iter().map(|(_, record)| record.len() + 80).sum());
    for (ordinal, (at, record)) in (first..).zip(&batch.records) {
        let stamp = clock::stamp(*at);
        match blobs::move_out(record, &mut save)? {
            None => record_line::write(&mut bytes, ordinal, &stamp, false, record),
            Some(lean) => record_line::write(&mut bytes, ordinal, &stamp, true, &lean.json),
        }
    }
    Ok(bytes)
}
