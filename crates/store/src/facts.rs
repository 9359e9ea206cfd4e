//! Facts about a thread beside its conversation: its queue, what the user has read of it, its section, its project, its
//! attachments and its voice sessions.
//!
//! Each change is one extra record. Any process may write it at any time, and the records of a file add up to
//! [`ThreadFacts`]. The index keeps the part that lists need ([`IndexedFacts`]), which is made of the same records.

use codicil_protocol::{
    QueuedSubmission, ThreadAttachment, ThreadId, ThreadReadState, ThreadRealtimeItem, ThreadUnreadPosition,
    TurnId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::Record;

/// The kind of the extra record before the end of a turn that another turn of the same goal follows. Such an end leaves the
/// read state as it is.
pub(crate) const CONTINUES: &str = "continues";

/// A change of a fact. In a file it is the kind and the data of an extra record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "camelCase")]
pub enum FactChange {
    Queue(QueueChange),
    /// The first unread turn; `None` if everything is read.
    ReadState {
        #[serde(rename = "firstUnread")]
        first_unread: Option<ThreadUnreadPosition>,
    },
    /// The place of the thread in a section; `None` takes it out.
    Section {
        place: Option<SectionPlace>,
    },
    Project {
        #[serde(rename = "projectId")]
        project_id: Option<String>,
    },
    Attachment(AttachmentChange),
    /// An entry of a voice session.
    Realtime(RealtimeEntry),
}

/// The kinds of [`FactChange`].
const KINDS: [&str; 6] = ["queue", "readState", "section", PROJECT, "attachment", "realtime"];

/// The kind of the extra record that sets the project.
pub(crate) const PROJECT: &str = "project";

/// Returns whether an extra record of this kind is a [`FactChange`].
pub(crate) fn is_fact(kind: &str) -> bool {
    KINDS.contains(&kind)
}

/// A change of the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum QueueChange {
    /// Adds a submission to the end, or replaces the one with its id.
    Set(QueuedSubmission),
    Remove(String),
    /// The ids in their new order.
    Order(Vec<String>),
}

/// The place of a thread in a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SectionPlace {
    pub section_id: String,
    /// Sorts the threads of the section, as text.
    pub rank: String,
    /// Unix seconds.
    pub entered_at: i64,
}

/// A change of the attachments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AttachmentChange {
    Add(ThreadAttachment),
    Remove(AttachmentKey),
}

/// A complete entry of a voice session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RealtimeEntry {
    /// When the entry was complete, in Unix milliseconds.
    pub at_ms: i64,
    pub item: ThreadRealtimeItem,
}

/// The identity of an attachment within its thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentKey {
    #[serde(rename = "type")]
    pub attachment_type: String,
    #[serde(rename = "key")]
    pub identity_key: String,
}

impl From<&ThreadAttachment> for AttachmentKey {
    fn from(attachment: &ThreadAttachment) -> Self {
        Self {
            attachment_type: attachment.attachment_type.clone(),
            identity_key: attachment.identity_key.clone(),
        }
    }
}

impl Record {
    /// Stores a change of a fact.
    pub fn fact(change: &FactChange) -> Self {
        let mut parts = serde_json::to_value(change).unwrap_or_default();
        let data = parts.get_mut("data").map(Value::take).unwrap_or_default();
        let kind = parts.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        Self::Extra { kind, data }
    }

    /// Returns the change of a fact; `None` for other records.
    pub fn fact_change(&self) -> Option<FactChange> {
        let Self::Extra { kind, data } = self else { return None };
        if !is_fact(kind) {
            return None;
        }
        serde_json::from_value(serde_json::json!({ "kind": kind, "data": data })).ok()
    }

    /// Marks the turn whose end follows as one that another turn of the same goal follows.
    pub fn continues(turn: &TurnId) -> Self {
        Self::Extra { kind: CONTINUES.to_owned(), data: serde_json::json!({ "turnId": turn }) }
    }

    /// Returns whether another turn of the same goal follows the turn whose end is next.
    pub fn is_continues(&self) -> bool {
        matches!(self, Self::Extra { kind, .. } if kind == CONTINUES)
    }

    /// Returns what the record means for the facts of its thread.
    pub(crate) fn fact_event(&self) -> Option<FactEvent> {
        match self {
            Self::TurnEnd { .. } => Some(FactEvent::TurnEnd),
            Self::Extra { kind, .. } if kind == CONTINUES => Some(FactEvent::Continues),
            record => record.fact_change().map(FactEvent::Change),
        }
    }
}

/// A record that affects facts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FactEvent {
    Change(FactChange),
    TurnEnd,
    Continues,
}

/// What the user has read of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReadProgress {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_unread: Option<ThreadUnreadPosition>,
    /// The ordinal of the record that changed the state last; `None` for a thread that has no read state yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// Whether the next end of a turn leaves the state as it is.
    #[serde(skip)]
    is_continued: bool,
}

impl ReadProgress {
    /// Returns the state as clients see it; `None` for a thread that has none.
    pub fn state(&self, thread: &ThreadId) -> Option<ThreadReadState> {
        let revision = self.revision?;
        Some(ThreadReadState {
            first_unread: self.first_unread.clone(),
            revision: format!("{thread}.{revision}"),
        })
    }

    /// Takes over a change.
    pub fn set(&mut self, first_unread: Option<ThreadUnreadPosition>, ordinal: u64) {
        self.first_unread = first_unread;
        self.revision = Some(ordinal);
    }

    /// Takes over the end of a turn. The place of the first unread turn has a record of its own.
    fn end_turn(&mut self, ordinal: u64) {
        if !std::mem::take(&mut self.is_continued) && self.first_unread.is_some() {
            self.revision = Some(ordinal);
        }
    }

    fn apply(&mut self, ordinal: u64, event: &FactEvent) {
        match event {
            FactEvent::Change(FactChange::ReadState { first_unread }) => {
                self.set(first_unread.clone(), ordinal);
            }
            FactEvent::Change(_) => {}
            FactEvent::TurnEnd => self.end_turn(ordinal),
            FactEvent::Continues => self.is_continued = true,
        }
    }
}

/// The facts of a thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadFacts {
    pub queue: Vec<QueuedSubmission>,
    pub read: ReadProgress,
    pub section: Option<SectionPlace>,
    pub project_id: Option<String>,
    pub attachments: Vec<ThreadAttachment>,
    /// The entries of voice sessions, oldest first.
    pub realtime: Vec<RealtimeEntry>,
}

impl ThreadFacts {
    /// Returns the facts of a copy of the thread. Only the project is that of the copy, too.
    #[must_use]
    pub fn of_copy(self) -> Self {
        Self { project_id: self.project_id, ..Self::default() }
    }

    /// Takes over a change that has this ordinal.
    pub fn apply(&mut self, ordinal: u64, change: FactChange) {
        match change {
            FactChange::Queue(change) => self.apply_queue(change),
            FactChange::ReadState { first_unread } => self.read.set(first_unread, ordinal),
            FactChange::Section { place } => self.section = place,
            FactChange::Project { project_id } => self.project_id = project_id,
            FactChange::Attachment(AttachmentChange::Add(added)) => {
                self.attachments.retain(|known| AttachmentKey::from(known) != AttachmentKey::from(&added));
                self.attachments.push(added);
            }
            FactChange::Attachment(AttachmentChange::Remove(key)) => {
                self.attachments.retain(|known| AttachmentKey::from(known) != key);
            }
            FactChange::Realtime(entry) => self.realtime.push(entry),
        }
    }

    /// Takes over a record that has this ordinal.
    pub fn note(&mut self, ordinal: u64, record: &Record) {
        if let Some(event) = record.fact_event() {
            self.apply_event(ordinal, event);
        }
    }

    pub(crate) fn apply_event(&mut self, ordinal: u64, event: FactEvent) {
        match event {
            FactEvent::Change(change) => self.apply(ordinal, change),
            other => self.read.apply(ordinal, &other),
        }
    }

    fn apply_queue(&mut self, change: QueueChange) {
        match change {
            QueueChange::Set(submission) => {
                match self.queue.iter_mut().find(|known| known.id == submission.id) {
                    Some(known) => *known = submission,
                    None => self.queue.push(submission),
                }
            }
            QueueChange::Remove(id) => self.queue.retain(|known| known.id != id),
            // Submissions that the order does not name were added meanwhile by another process.
            QueueChange::Order(ids) => {
                let place = |submission: &QueuedSubmission| {
                    ids.iter().position(|id| *id == submission.id).unwrap_or(ids.len())
                };
                self.queue.sort_by_key(place);
            }
        }
    }
}

/// The facts of a thread that lists need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct IndexedFacts {
    pub read: ReadProgress,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<SectionPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<AttachmentKey>,
}

impl IndexedFacts {
    pub fn apply(&mut self, ordinal: u64, event: &FactEvent) {
        match event {
            FactEvent::Change(FactChange::Section { place }) => self.section.clone_from(place),
            FactEvent::Change(FactChange::Project { project_id }) => self.project_id.clone_from(project_id),
            FactEvent::Change(FactChange::Attachment(AttachmentChange::Add(added))) => {
                let key = AttachmentKey::from(added);
                self.attachments.retain(|known| *known != key);
                self.attachments.push(key);
            }
            FactEvent::Change(FactChange::Attachment(AttachmentChange::Remove(key))) => {
                self.attachments.retain(|known| known != key);
            }
            event => self.read.apply(ordinal, event),
        }
    }

    /// Returns the facts as JSON for the index; `None` if there are none.
    pub fn to_json(&self) -> Option<String> {
        if *self == Self::default() { None } else { serde_json::to_string(self).ok() }
    }

    pub fn from_json(json: Option<&str>) -> Self {
        json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }
}

impl From<&ThreadFacts> for IndexedFacts {
    fn from(facts: &ThreadFacts) -> Self {
        Self {
            read: facts.read.clone(),
            section: facts.section.clone(),
            project_id: facts.project_id.clone(),
            attachments: facts.attachments.iter().map(AttachmentKey::from).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(id: &str) -> QueuedSubmission {
        QueuedSubmission { id: id.to_owned(), input: Vec::new(), client_user_message_id: id.to_owned() }
    }

    fn queued(facts: &ThreadFacts) -> Vec<&str> {
        facts.queue.iter().map(|submission| submission.id.as_str()).collect()
    }

    #[test]
    fn a_record_holds_any_change() {
        let place = SectionPlace { section_id: "s".to_owned(), rank: "m".to_owned(), entered_at: 7 };
        for change in [
            FactChange::Queue(QueueChange::Set(submission("a"))),
            FactChange::Queue(QueueChange::Order(vec!["a".to_owned()])),
            FactChange::ReadState { first_unread: None },
            FactChange::ReadState { first_unread: Some(ThreadUnreadPosition::ThreadStart) },
            FactChange::Section { place: Some(place) },
            FactChange::Project { project_id: None },
            FactChange::Realtime(RealtimeEntry {
                at_ms: 7,
                item: ThreadRealtimeItem {
                    id: "i".to_owned(),
                    realtime_session_id: "r".to_owned(),
                    content: codicil_protocol::ThreadRealtimeItemContent::RealtimeSessionStarted,
                },
            }),
        ] {
            let record = Record::fact(&change);
            assert!(!record.extends_conversation(), "{record:?}");
            assert_eq!(record.fact_change(), Some(change));
        }
    }

    #[test]
    fn changes_of_a_queue_add_up() {
        let mut facts = ThreadFacts::default();
        for id in ["a", "b", "c"] {
            facts.apply(1, FactChange::Queue(QueueChange::Set(submission(id))));
        }
        facts.apply(2, FactChange::Queue(QueueChange::Order(vec!["c".to_owned(), "a".to_owned()])));
        assert_eq!(queued(&facts), ["c", "a", "b"]);
        facts.apply(3, FactChange::Queue(QueueChange::Remove("a".to_owned())));
        facts.apply(4, FactChange::Queue(QueueChange::Remove("x".to_owned())));
        assert_eq!(queued(&facts), ["c", "b"]);
    }

    #[test]
    fn ends_of_turns_change_the_revision_of_an_unread_thread() {
        let mut read = ReadProgress::default();
        read.apply(3, &FactEvent::TurnEnd);
        assert_eq!(read.state(&"t".into()), None);
        let first_unread = Some(ThreadUnreadPosition::Turn { turn_id: "one".into() });
        read.apply(4, &FactEvent::Change(FactChange::ReadState { first_unread: first_unread.clone() }));
        read.apply(9, &FactEvent::TurnEnd);
        let state = read.state(&"t".into()).unwrap();
        assert_eq!((state.first_unread, state.revision.as_str()), (first_unread, "t.9"));
        read.apply(10, &FactEvent::Continues);
        read.apply(11, &FactEvent::TurnEnd);
        assert_eq!(read.revision, Some(9));
    }
}
