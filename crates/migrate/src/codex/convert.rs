//! Converts the lines of a rollout file into records, one after the other.
//!
//! The records of a line depend only on the lines before it: continuing an interrupted import relies on that.
//! So a turn without an end in the source gets none here either, and is read as interrupted.

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
    /// Whether the file marks the beginning and end of the turn. Older files do not.
    is_marked: bool,
    turns: u64,
    items: u64,
    /// The last model and effort that were recorded.
    settings: Option<(String, Option<ReasoningEffort>)>,
    /// Working directory of the turn.
    pub(super) cwd: String,
    /// Tool calls without an output yet.
    pub(super) calls: HashMap<String, OpenCall>,
    /// Calls of this turn whose items came from events, which hold more than the history.
    pub(super) calls_with_events: HashSet<String>,
    /// Whether an event has already reported the next web search.
    pub(super) search_has_event: bool,
    /// Items that came before the turn they belong to.
    pub(super) waiting_items: Vec<ThreadItem>,
    /// The user's message, if nothing has followed it in this turn.
    pub(super) last_user_message: Option<String>,
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
            calls_with_events: HashSet::new(),
            search_has_event: false,
            waiting_items: Vec::new(),
            last_user_message: None,
            error: None,
        }
    }

    /// Returns the records of the head that follow the thread's first record.
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
            records.extend(self.end_turn(TurnStatus::Completed));
            records.extend(self.start_turn(None));
        }
        let shown = items::from_history(self, &item);
        records.push(Record::Context { turn_id: self.turn.clone(), item });
        records.extend(shown.map(|item| self.item_records(item)).unwrap_or_default());
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
                // The turn before may have been cut off without an end.
                let mut records = self.end_turn(TurnStatus::Interrupted);
                records.extend(self.start_turn(id));
                records
            }
            "task_complete" | "turn_complete" if self.error.is_some() => self.end_turn(TurnStatus::Failed),
            "task_complete" | "turn_complete" => self.end_turn(TurnStatus::Completed),
            "turn_aborted" => self.end_turn(TurnStatus::Interrupted),
            "error" => {
                self.error = Some(TurnError {
                    message: owned(event, "message"),
                    codex_error_info: None,
                    additional_details: None,
                    misalignment: None,
                });
                Vec::new()
            }
            "thread_rolled_back" => {
                let mut records = self.end_turn(TurnStatus::Completed);
                let turns = member(event, "num_turns").unwrap_or_default();
                records.push(Record::Rollback { turns });
                records
            }
            "token_count" => self.usage(event).into_iter().collect(),
            "user_message" => self.user_message(event),
            _ => {
                let item = items::from_event(self, event);
                item.map(|item| self.item_records(item)).unwrap_or_default()
            }
        }
    }

    /// Files without turn ids begin a turn with each message of the user.
    fn user_message(&mut self, event: &Value) -> Vec<Record> {
        let message = owned(event, "message");
        // A review has two events for its prompt.
        if self.last_user_message.as_ref() == Some(&message) {
            return Vec::new();
        }
        let mut records = if self.is_marked { Vec::new() } else { self.end_turn(TurnStatus::Completed) };
        records.extend(self.ensure_turn());
        let item = items::user_message(self, event);
        records.extend(self.item_records(item));
        self.last_user_message = Some(message);
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
        if self.turn.is_some() { Vec::new() } else { self.start_turn(None) }
    }

    fn start_turn(&mut self, id: Option<TurnId>) -> Vec<Record> {
        self.turns += 1;
        self.is_marked = id.is_some();
        let id = id.unwrap_or_else(|| TurnId::from(format!("{}-{}", self.head.meta.id, self.turns)));
        self.turn = Some(id.clone());
        let mut records = vec![Record::Turn { turn_id: id, run: None }];
        for item in std::mem::take(&mut self.waiting_items) {
            records.extend(self.item_records(item));
        }
        records
    }

    fn end_turn(&mut self, status: TurnStatus) -> Vec<Record> {
        self.calls_with_events.clear();
        self.last_user_message = None;
        let error = self.error.take().filter(|_| status == TurnStatus::Failed);
        let end = |turn_id| Record::TurnEnd { turn_id, status, error, cause: None };
        self.turn.take().map(end).into_iter().collect()
    }

    /// Returns the records of an item; none outside a turn. A turn whose end is not marked may be over with
    /// each message of the agent, so each one ends it.
    fn item_records(&mut self, item: ThreadItem) -> Vec<Record> {
        self.last_user_message = None;
        let Some(turn_id) = self.turn.clone() else { return Vec::new() };
        let is_answer = matches!(item, ThreadItem::AgentMessage { .. });
        let mut records = vec![Record::Item { turn_id: turn_id.clone(), item }];
        if is_answer && !self.is_marked {
            records.push(Record::TurnEnd {
                turn_id,
                status: TurnStatus::Completed,
                error: None,
                cause: None,
            });
        }
        records
    }

    /// Returns an id for an item that has none of its own.
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
        cache_write_input_tokens: count("cache_write_input_tokens"),
        output_tokens: count("output_tokens"),
        reasoning_output_tokens: count("reasoning_output_tokens"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::codex::rollout::RolloutLine;

    const HEAD: &str = r#"{"id":"01a1e24a-8d00-7532-b7b5-6d33c86bf60d","timestamp":"2025-05-01T00:00:00Z"}"#;

    /// Returns the records, each as a few words.
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
    fn user_messages_begin_turns_that_are_not_marked() {
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
    fn a_failed_turn_stays_failed() {
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
