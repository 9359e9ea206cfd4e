//! The line of a record: `{"v":1,"ordinal":7,"timestamp":"2026-11-15T20:00:00.123Z","type":"item",…}`.
//!
//! The members are written in exactly this order, so that the head of a line can be read without parsing the rest. This
//! makes loading fast: most lines of a long thread are never decoded, and some are passed on unchanged. Lines in another
//! order, as written by editors and other tools, are reordered first.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::clock::{STAMP_LEN, stamp};

/// The version in every line. Readers accept any version and skip records that they do not know.
pub const VERSION: u32 = 1;
/// The member of lines whose large strings are stored as blobs.
const BLOBS: &str = "\"blobs\":true,";

/// The kind of a record, from the head of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    Meta,
    Settings,
    Turn,
    Item,
    Context,
    Usage,
    TurnEnd,
    Rollback,
    Compaction,
    Begun,
    Asked,
    Answered,
    Name,
    Git,
    Extra,
    /// A kind of a newer version.
    Unknown,
}

impl RecordKind {
    fn of(name: &str) -> Self {
        match name {
            "meta" => Self::Meta,
            "settings" => Self::Settings,
            "turn" => Self::Turn,
            "item" => Self::Item,
            "context" => Self::Context,
            "usage" => Self::Usage,
            "turnEnd" => Self::TurnEnd,
            "rollback" => Self::Rollback,
            "compaction" => Self::Compaction,
            "begun" => Self::Begun,
            "asked" => Self::Asked,
            "answered" => Self::Answered,
            "name" => Self::Name,
            "git" => Self::Git,
            "extra" => Self::Extra,
            _ => Self::Unknown,
        }
    }

    /// Returns whether a record of this kind updates the time of the thread. Naming a thread does not.
    pub fn is_activity(self) -> bool {
        !matches!(self, Self::Name | Self::Git | Self::Extra)
    }
}

/// The head of a line, borrowed from the line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineHead<'a> {
    pub ordinal: u64,
    pub timestamp: &'a str,
    /// Whether large strings of this line are stored as blobs.
    pub blobs: bool,
    pub kind: RecordKind,
    /// The record, starting at its `type`: `"type":"item","turnId":…}`.
    pub record: &'a str,
    /// The offset in `record` of the members after `type`.
    members: usize,
}

impl<'a> LineHead<'a> {
    /// Reads the head of a line; `None` if its members are not in the order of this version.
    pub fn read(line: &'a str) -> Option<Self> {
        let rest = line.strip_prefix("{\"v\":")?;
        let (version, rest) = number(rest)?;
        let (ordinal, rest) = number(rest.strip_prefix(",\"ordinal\":")?)?;
        let rest = rest.strip_prefix(",\"timestamp\":\"")?;
        let (timestamp, rest) = rest.split_at_checked(STAMP_LEN)?;
        let rest = rest.strip_prefix("\",")?;
        let (blobs, record) = match rest.strip_prefix(BLOBS) {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let (kind, rest) = record.strip_prefix("\"type\":\"")?.split_once('"')?;
        (version >= 1 && line.ends_with('}')).then(|| Self {
            ordinal,
            timestamp,
            blobs,
            kind: RecordKind::of(kind),
            record,
            members: record.len() - rest.trim_start_matches(',').len(),
        })
    }

    /// Returns the record as a JSON object.
    pub fn json(&self) -> String {
        format!("{{{}", self.record)
    }

    /// Returns the turn id if it is the first member of the record.
    pub fn turn_id(&self) -> Option<&'a str> {
        self.turn_id_and_rest().map(|(id, _)| id)
    }

    /// Returns the turn id and the JSON of the member `name`, if they are the only members of the record. The JSON is not
    /// validated.
    pub fn last_member(&self, name: &str) -> Option<(&'a str, &'a str)> {
        let (turn, rest) = self.turn_id_and_rest()?;
        let value = rest.strip_prefix(",\"")?.strip_prefix(name)?.strip_prefix("\":")?;
        Some((turn, value.strip_suffix('}')?))
    }

    fn turn_id_and_rest(&self) -> Option<(&'a str, &'a str)> {
        let members = self.record.get(self.members..)?;
        let (id, rest) = members.strip_prefix("\"turnId\":\"")?.split_once('"')?;
        (!id.contains('\\')).then_some((id, rest))
    }
}

fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(digits)?;
    Some((digits.parse().ok()?, rest))
}

/// Returns the line in the order of [`LineHead::read`]; `None` if it is not a record.
pub fn canonical(line: &str) -> Option<Cow<'_, str>> {
    match LineHead::read(line) {
        Some(_) => Some(Cow::Borrowed(line)),
        None => reorder(line).map(Cow::Owned),
    }
}

/// Reorders the members of a line.
pub fn reorder(line: &str) -> Option<String> {
    let mut members: Map<String, Value> = serde_json::from_str(line).ok()?;
    let version = u32::try_from(members.remove("v")?.as_u64()?).ok()?;
    let ordinal = members.remove("ordinal")?.as_u64()?;
    let timestamp = stamp(members.remove("timestamp")?.as_str()?.parse().ok()?);
    let kind = members.remove("type")?;
    let blobs = members.remove("blobs").is_some_and(|blobs| blobs == Value::Bool(true));
    let mut record = format!("\"type\":{kind}");
    for (name, value) in &members {
        record.push_str(&format!(",{}:{value}", Value::from(name.as_str())));
    }
    record.push('}');
    let mut line = Vec::with_capacity(record.len() + 80);
    write_version(&mut line, version, ordinal, &timestamp, blobs, &record);
    line.pop();
    String::from_utf8(line).ok().filter(|line| LineHead::read(line).is_some())
}

/// Returns whether large strings of some of these lines may be stored as blobs.
pub fn has_blobs(lines: &[u8]) -> bool {
    memchr::memmem::find(lines, BLOBS.as_bytes()).is_some()
}

/// Appends a line to a batch. `record` is a JSON object, with or without its opening brace.
pub fn write(batch: &mut Vec<u8>, ordinal: u64, timestamp: &str, blobs: bool, record: &str) {
    write_version(batch, VERSION, ordinal, timestamp, blobs, record.strip_prefix('{').unwrap_or(record));
}

fn write_version(batch: &mut Vec<u8>, v: u32, ordinal: u64, timestamp: &str, blobs: bool, record: &str) {
    let blobs = if blobs { BLOBS } else { "" };
    let head = format!("{{\"v\":{v},\"ordinal\":{ordinal},\"timestamp\":\"{timestamp}\",{blobs}");
    batch.extend_from_slice(head.as_bytes());
    batch.extend_from_slice(record.as_bytes());
    batch.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "2026-11-15T20:00:00.123Z";

    #[test]
    fn the_head_is_read_without_the_rest() {
        let line = format!(
            r#"{{"v":1,"ordinal":12,"timestamp":"{AT}","type":"item","turnId":"t1","item":{{"type":"plan"}}}}"#
        );
        let head = LineHead::read(&line).unwrap();
        assert_eq!((head.ordinal, head.timestamp, head.kind, head.blobs), (12, AT, RecordKind::Item, false));
        assert_eq!(head.turn_id(), Some("t1"));
        assert_eq!(head.last_member("item"), Some(("t1", r#"{"type":"plan"}"#)));
        assert_eq!(head.last_member("other"), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut batch = Vec::new();
        write(&mut batch, 3, AT, true, r#""type":"rollback","turns":2}"#);
        let line = String::from_utf8(batch).unwrap();
        let head = LineHead::read(line.trim_end()).unwrap();
        assert_eq!((head.ordinal, head.blobs, head.kind), (3, true, RecordKind::Rollback));
        assert_eq!(head.json(), r#"{"type":"rollback","turns":2}"#);
        assert_eq!(head.turn_id(), None);
    }

    #[test]
    fn another_order_is_normalised() {
        let line = format!(
            r#"{{ "type": "turn", "turnId": "t1", "timestamp": "{AT}", "ordinal": 4, "v": 2, "more": [1] }}"#
        );
        assert_eq!(LineHead::read(&line), None);
        let line = canonical(&line).unwrap();
        let head = LineHead::read(&line).unwrap();
        assert_eq!((head.ordinal, head.kind), (4, RecordKind::Turn));
        assert_eq!(head.json(), r#"{"type":"turn","more":[1],"turnId":"t1"}"#);
    }

    #[test]
    fn other_lines_are_not_records() {
        for line in [
            "",
            "{}",
            "null",
            "{\"v\":1,",
            "{\"v\":1,\"ordinal\":",
            "{\"v\":1,\"ordinal\":99999999999999999999,\"timestamp\":\"2026-11-15T20:00:00.123Z\",\"type\":\"turn\"}",
            r#"{"timestamp":"2026-11-15T20:00:00.123Z","type":"session_meta","payload":{}}"#,
        ] {
            assert_eq!(canonical(line), None, "{line}");
        }
    }
}
