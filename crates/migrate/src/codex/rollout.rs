//! Parses the lines of a rollout file.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// One line with the time it was written.
#[derive(Debug)]
pub struct RolloutLine {
    pub at: Option<Timestamp>,
    pub entry: RolloutEntry,
}

#[derive(Debug)]
pub enum RolloutEntry {
    /// The metadata of a thread. A fork repeats that of the thread it comes from.
    Meta(Value),
    /// The settings of a turn.
    Settings(Value),
    /// An item of the model's history.
    Item(Value),
    /// A replacement of the history so far.
    Compacted(Value),
    /// An event that clients received.
    Event(Value),
    /// A kind of line that is not imported.
    Other,
}

#[derive(Deserialize)]
struct WrappedEntry {
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    payload: Value,
}

impl RolloutLine {
    /// Returns `None` for a line that is not a JSON object.
    pub fn parse(text: &str) -> Option<Self> {
        match serde_json::from_str::<WrappedEntry>(text) {
            Ok(line) => {
                let at = line.timestamp.as_deref().and_then(|at| at.parse().ok());
                Some(Self { at, entry: line.entry() })
            }
            Err(_) => Self::bare(serde_json::from_str(text).ok()?),
        }
    }

    /// Parses a line of the oldest format: an item without a wrapper, or a first line without a type.
    fn bare(value: Value) -> Option<Self> {
        let members = value.as_object()?;
        let at = text(&value, "timestamp").and_then(|at| at.parse().ok());
        let entry = match members.get("type") {
            Some(_) => RolloutEntry::Item(value),
            None if members.contains_key("id") => RolloutEntry::Meta(value),
            None => RolloutEntry::Other,
        };
        Some(Self { at, entry })
    }
}

impl WrappedEntry {
    fn entry(self) -> RolloutEntry {
        match self.kind.as_str() {
            "session_meta" => RolloutEntry::Meta(self.payload),
            "turn_context" => RolloutEntry::Settings(self.payload),
            "response_item" => RolloutEntry::Item(self.payload),
            "compacted" => RolloutEntry::Compacted(self.payload),
            "event_msg" => RolloutEntry::Event(self.payload),
            _ => RolloutEntry::Other,
        }
    }
}

/// Returns the text of a member.
pub fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

/// Returns the text of a member, or an empty string.
pub fn owned(value: &Value, name: &str) -> String {
    text(value, name).unwrap_or_default().to_owned()
}

/// Deserializes a member. Returns `None` if it is missing or has another type.
pub fn member<T: for<'de> Deserialize<'de>>(value: &Value, name: &str) -> Option<T> {
    T::deserialize(value.get(name)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_and_bare_lines_are_parsed() {
        let check = |line: &str, expected: &str| {
            let entry = match RolloutLine::parse(line).map(|line| line.entry) {
                None => "none",
                Some(RolloutEntry::Meta(_)) => "meta",
                Some(RolloutEntry::Item(_)) => "item",
                Some(RolloutEntry::Event(_)) => "event",
                Some(_) => "other",
            };
            assert_eq!(entry, expected, "{line}");
        };
        check(r#"{"timestamp":"2026-11-16T02:58:12.368Z","type":"session_meta","payload":{}}"#, "meta");
        check(r#"{"type":"event_msg","payload":{"type":"task_started"}}"#, "event");
        check(r#"{"type":"from_the_future","payload":{}}"#, "other");
        check(r#"{"id":"a","timestamp":"2025-05-01T00:00:00Z","instructions":null}"#, "meta");
        check(r#"{"type":"message","role":"user","content":[]}"#, "item");
        check(r#"{"record_type":"state"}"#, "other");
        check("[1]", "none");
        check("{torn", "none");
    }
}
