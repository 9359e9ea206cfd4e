//! The lines of a rollout into records, one after the other.
//!
//! What comes out for a line depends only on the lines before it: an import that goes on where it stopped relies
//! on that. So a turn that has no end in the source gets none here either, and reads as interrupted.

use std::collections::{HashMap, HashSet};

use codicil_protocol::{
    ItemId, ReasoningEffort, ResponseItem, ThreadItem, ThreadTokenUsage, TokenUsageBreakdown, TurnError,
    TurnId, TurnStatus,
};
use codicil_store::{Record, StoredSettings};
use serde_json::Value;

use super::{
    head::RolloutHead,
    items::{self, OpenCall},
    rollout::{RolloutEntry, member, owned, text},
};

pub struct RolloutConverter<'a> {
    pub(super) head: &'a RolloutHead,
    pub(super) turn: Option<TurnId>,
    /// Whether the file says where the turn begins and ends. Older ones do not.
    is_marked: bool,
    turns: u64,
    items: u64,
    settings: Option<(String, Option<ReasoningEffort>)>,
    /// The directory of the turn.
    pub(super) cwd: String,
    /// Calls of tools that have no output yet.
    pub(super) calls: HashMap<String, OpenCall>,
    /// Calls of this turn whose items were told by events, which know more.
    pub(super) told: HashSet<String>,
    /// Whether the next search was told by an event already.
    pub(super) search_told: bool,
    /// What came before the turn it belongs to.
    pub(super) waiting: Vec<ThreadItem>,
    /// The last thing a person said in this turn, while nothing followed it.
    pub(super) last_said: Option<String>,
    error: Option<TurnError>,
}

impl<'a> RolloutConverter<'a> {
    pub fn new(head: &'a RolloutHead) -> Self {
        Self {
            head,
            turn: None,
            is_marked: false,
            turns: 0,
            items: 0,
            settings: None,
            cwd: head.meta.cwd.clone(),
            calls: HashMap::new(),
            told: HashSet::new(),
            search_told: false,
            waiting: Vec::new(),
            last_said: None,
            error: None,
        }
    }

    /// What follows from the head, besides the first record.
    pub fn begin(&mut self) -> Vec<Record> {
        let git = self.head.git.clone();
        git.map(|git| Record::Git { git: Some(git) }).into_iter().collect()
    }

    pub fn entry(&mut self, entry: RolloutEntry) -> Vec<Record> {
        match entry {
            RolloutEntry::Meta(_) | RolloutEntry::Other => Vec::new(),
            RolloutEntry::Settings(settings) => self.settings(&settings).into_iter().collect(),
            RolloutEntry::Item(item) => self.item(item),
            RolloutEntry::Compacted(compacted) => self.compacted(&compacted),
            RolloutEntry::Event(event) => self.event(&event),
        }
    }

    fn settings(&mut self, given: &Value) -> Option<Record> {
        if let Some(cwd) = text(given, "cwd") {
            cwd.clone_into(&mut self.cwd);
        }
        let now = (text(given, "model")?.to_owned(), member(given, "effort"));
        if self.settings.as_ref() == Some(&now) {
            return None;
        }
        let (model, effort) = now.clone();
        self.settings = Some(now);
        Some(Record::Settings(StoredSettings::without_snapshot(model, effort)))
    }

    fn item(&mut self, given: Value) -> Vec<Record> {
        let Ok(item) = serde_json::from_value::<ResponseItem>(given) else { return Vec::new() };
        if matches!(item, ResponseItem::Other | ResponseItem::Unrecognized(_)) {
            return Vec::new();
        }
        let mut records = Vec::new();
        if self.head.is_bare && items::is_input(&item) {
            records.extend(self.end(TurnStatus::Completed));
            records.extend(self.start(None));
        }
        let shown = items::of_history(self, &item);
        records.push(Record::Context { turn_id: self.turn.clone(), item });
        records.extend(shown.map(|item| self.show(item)).unwrap_or_default());
        records
    }

    fn compacted(&mut self, given: &Value) -> Vec<Record> {
        let mut records = self.ensure_turn();
        let summary = codicil_prompts::user_text_message(owned(given, "message"));
        let replacement = member(given, "replacement_history").unwrap_or_else(|| vec![summary]);
        let turn_id = self.turn.clone();
        records.extend(turn_id.map(|turn_id| Record::Compaction { turn_id, replacement }));
        records
    }

    fn event(&mut self, event: &Value) -> Vec<Record> {
        let id = text(event, "turn_id").map(TurnId::from);
        match text(event, "type").unwrap_or_default() {
            "task_started" | "turn_started" => {
                // A turn that was cut off is followed by the next one.
                let mut records = self.end(TurnStatus::Interrupted);
                records.extend(self.start(id));
                records
            }
            "task_complete" | "turn_complete" => match self.error.is_some() {
                true => self.end(TurnStatus::Failed),
                false => self.end(TurnStatus::Completed),
            },
            "turn_aborted" => self.end(TurnStatus::Interrupted),
            "error" => {
                self.error = Some(TurnError {
                    message: owned(event, "message"),
                    codex_error_info: None,
                    additional_details: None,
                });
                Vec::new()
            }
            "thread_rolled_back" => {
                let mut records = self.end(TurnStatus::Completed);
                let turns = member(event, "num_turns").unwrap_or_default();
                records.push(Record::Rollback { turns });
                records
            }
            "token_count" => self.usage(event).into_iter().collect(),
            "user_message" => self.said(event),
            _ => {
                let item = items::of_event(self, event);
                item.map(|item| self.show(item)).unwrap_or_default()
            }
        }
    }

    /// Files from before turns had ids begin one with what a person says.
    fn said(&mut self, event: &Value) -> Vec<Record> {
        let message = owned(event, "message");
        // A review says its own prompt twice.
        if self.last_said.as_ref() == Some(&message) {
            return Vec::new();
        }
        let mut records = match self.is_marked {
            true => Vec::new(),
            false => self.end(TurnStatus::Completed),
        };
        records.extend(self.ensure_turn());
        let item = items::user_message(self, event);
        records.extend(self.show(item));
        self.last_said = Some(message);
        records
    }

    fn usage(&self, event: &Value) -> Option<Record> {
        let info = event.get("info")?;
        let usage = ThreadTokenUsage {
            total: tokens(info.get("total_token_usage")?),
            last: tokens(info.get("last_token_usage")?),
            model_context_window: member(info, "model_context_window"),
        };
        Some(Record::Usage { turn_id: self.turn.clone()?, usage })
    }

    fn ensure_turn(&mut self) -> Vec<Record> {
        if self.turn.is_some() { Vec::new() } else { self.start(None) }
    }

    fn start(&mut self, id: Option<TurnId>) -> Vec<Record> {
        self.turns += 1;
        self.is_marked = id.is_some();
        let id = id.unwrap_or_else(|| TurnId::from(format!("{}-{}", self.head.meta.id, self.turns)));
        self.turn = Some(id.clone());
        let mut records = vec![Record::Turn { turn_id: id }];
        for item in std::mem::take(&mut self.waiting) {
            records.extend(self.show(item));
        }
        records
    }

    fn end(&mut self, status: TurnStatus) -> Vec<Record> {
        self.told.clear();
        self.last_said = None;
        let error = self.error.take().filter(|_| status == TurnStatus::Failed);
        let end = |turn_id| Record::TurnEnd { turn_id, status, error };
        self.turn.take().map(end).into_iter().collect()
    }

    /// Outside a turn there is no place for an item. A turn whose end is not marked is over, for all that is
    /// known, with every answer.
    fn show(&mut self, item: ThreadItem) -> Vec<Record> {
        self.last_said = None;
        let Some(turn_id) = self.turn.clone() else { return Vec::new() };
        let is_answer = matches!(item, ThreadItem::AgentMessage { .. });
        let mut records = vec![Record::Item { turn_id: turn_id.clone(), item }];
        if is_answer && !self.is_marked {
            records.push(Record::TurnEnd { turn_id, status: TurnStatus::Completed, error: None });
        }
        records
    }

    /// An id for an item that has none of its own.
    pub(super) fn next_id(&mut self) -> ItemId {
        self.items += 1;
        format!("item-{}", self.items).into()
    }
}

fn tokens(given: &Value) -> TokenUsageBreakdown {
    let count = |name| given.get(name).and_then(Value::as_i64).unwrap_or(0);
    TokenUsageBreakdown {
        total_tokens: count("total_tokens"),
        input_tokens: count("input_tokens"),
        cached_input_tokens: count("cached_input_tokens"),
        output_tokens: count("output_tokens"),
        reasoning_output_tokens: count("reasoning_output_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::import::rollout::RolloutLine;

    const HEAD: &str = r#"{"id":"01a1e24a-8d00-7532-b7b5-6d33c86bf60d","timestamp":"2025-05-01T00:00:00Z"}"#;

    /// The records, each in a few words.
    fn convert(head: &str, lines: &[Value]) -> Vec<String> {
        let head = RolloutHead::parse(head).unwrap();
        let mut converter = RolloutConverter::new(&head);
        let records = lines.iter().flat_map(|line| {
            let line = RolloutLine::parse(&line.to_string()).unwrap();
            converter.entry(line.entry)
        });
        let records: Vec<_> = records.map(|record| serde_json::to_value(record).unwrap()).collect();
        let words = |record: &Value| {
            let item = record.pointer("/item/type").or(record.get("status")).or(record.get("turns"));
            format!("{} {}", record["type"].as_str().unwrap(), item.cloned().unwrap_or_default())
                .replace('"', "")
        };
        records.iter().map(words).collect()
    }

    fn event(payload: Value) -> Value {
        json!({ "timestamp": "2025-05-01T00:00:01Z", "type": "event_msg", "payload": payload })
    }

    #[test]
    fn the_oldest_files_have_turns_too() {
        let message = |role: &str, text: &str| {
            let kind = if role == "user" { "input_text" } else { "output_text" };
            json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
        };
        let lines = [
            message("user", "<environment_context>x</environment_context>"),
            message("user", "One"),
            message("assistant", "Two"),
            json!({ "record_type": "state" }),
            message("user", "Three"),
        ];
        let expected = [
            "context message",
            "turn null",
            "context message",
            "item userMessage",
            "context message",
            "item agentMessage",
            "turnEnd completed",
            "turnEnd completed",
            "turn null",
            "context message",
            "item userMessage",
        ];
        assert_eq!(convert(HEAD, &lines), expected);
    }

    #[test]
    fn before_turns_had_marks_what_people_said_began_them() {
        let head = json!({ "timestamp": "2025-05-01T00:00:00Z", "type": "session_meta", "payload": {
            "id": "01a1e24a-8d00-7532-b7b5-6d33c86bf60d", "timestamp": "2025-05-01T00:00:00Z" } });
        let lines = [
            event(json!({ "type": "user_message", "message": "One" })),
            event(json!({ "type": "agent_message", "message": "Two" })),
            event(json!({ "type": "user_message", "message": "Three" })),
            event(json!({ "type": "thread_rolled_back", "num_turns": 1 })),
        ];
        let expected = [
            "turn null",
            "item userMessage",
            "item agentMessage",
            "turnEnd completed",
            "turnEnd completed",
            "turn null",
            "item userMessage",
            "turnEnd completed",
            "rollback 1",
        ];
        assert_eq!(convert(&head.to_string(), &lines), expected);
    }

    #[test]
    fn a_failed_turn_stays_one_and_what_follows_is_its_own() {
        let lines = [
            event(json!({ "type": "task_started", "turn_id": "t1" })),
            event(json!({ "type": "error", "message": "no", "codex_error_info": "other" })),
            event(json!({ "type": "task_complete", "turn_id": "t1" })),
            event(json!({ "type": "agent_message", "message": "nowhere" })),
            event(json!({ "type": "task_started", "turn_id": "t2" })),
            event(json!({ "type": "task_started", "turn_id": "t3" })),
            event(json!({ "type": "from_the_future" })),
        ];
        let expected = ["turn null", "turnEnd failed", "turn null", "turnEnd interrupted", "turn null"];
        assert_eq!(convert(HEAD, &lines), expected);
    }
}
