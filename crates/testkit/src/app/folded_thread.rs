//! What a client with a cursor knows of a thread, from its messages alone.

use std::collections::{BTreeMap, BTreeSet};

use codicil_protocol::{CodicilSubscribeResponse, MessageSeq, Thread};
use serde_json::{Value, json};

use super::ReceivedMessage;

/// A thread as it follows from messages. Panics if a message comes twice, out of order, or does not fit.
#[derive(Clone, Debug, Default)]
pub struct FoldedThread {
    /// The position of the last message.
    last: u64,
    turns: Vec<FoldedTurn>,
    /// The last status; `None` if no message had one.
    status: Option<Value>,
    /// The messages of records that have arrived.
    seen: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct FoldedTurn {
    id: String,
    status: Value,
    error: Value,
    items: Vec<Value>,
    /// Items that have started and not completed, with their deltas.
    open: BTreeMap<String, Value>,
}

impl FoldedThread {
    /// Begins at the position that a thread was opened with.
    pub fn at(seq: Option<MessageSeq>) -> Self {
        Self { last: seq.expect("the connection has a cursor").value(), ..Self::default() }
    }

    /// Returns the position to subscribe at.
    pub fn after(&self) -> Option<MessageSeq> {
        Some(serde_json::from_value(self.last.into()).expect("it is a number"))
    }

    /// Takes over the answer to a subscription. A snapshot replaces what is known.
    pub fn subscribed(&mut self, answer: &CodicilSubscribeResponse) {
        match answer {
            CodicilSubscribeResponse::Replay { from, .. } => assert_eq!(from.value(), self.last),
            CodicilSubscribeResponse::Snapshot { at, thread, open, .. } => {
                let status = Some(json!(thread.status));
                *self = Self { last: at.value(), seen: self.seen.clone(), turns: Vec::new(), status };
                for turn in &thread.turns {
                    let turn = serde_json::to_value(turn).expect("it came as JSON");
                    self.turns.push(FoldedTurn {
                        id: text(&turn, "/id"),
                        status: member(&turn, "/status"),
                        error: member(&turn, "/error"),
                        items: member(&turn, "/items").as_array().cloned().unwrap_or_default(),
                        open: BTreeMap::new(),
                    });
                }
                for item in open {
                    let item = serde_json::to_value(item).expect("it came as JSON");
                    if let Some(turn) = self.turns.last_mut() {
                        turn.open.insert(text(&item, "/id"), item);
                    }
                }
            }
        }
    }

    /// Adds a message of the thread.
    pub fn add(&mut self, message: &ReceivedMessage) {
        let Some(seq) = message.seq else { return };
        assert!(seq > self.last, "{seq} follows {}: {message:?}", self.last);
        self.last = seq;
        let params = &message.params;
        match message.method.as_str() {
            "thread/status/changed" => self.status = Some(member(params, "/status")),
            "turn/started" => {
                self.once("turn/started", params, "/turn/id");
                self.turn(&text(params, "/turn/id")).status = member(params, "/turn/status");
            }
            "turn/completed" => {
                self.once("turn/completed", params, "/turn/id");
                let turn = self.turn(&text(params, "/turn/id"));
                turn.status = member(params, "/turn/status");
                turn.error = member(params, "/turn/error");
                turn.open.clear();
            }
            "item/started" => {
                let item = member(params, "/item");
                self.turn(&text(params, "/turnId")).open.insert(text(params, "/item/id"), item);
            }
            "item/completed" => {
                self.once("item/completed", params, "/item/id");
                let turn = self.turn(&text(params, "/turnId"));
                let open = turn.open.remove(&text(params, "/item/id"));
                let open = open.expect("an item starts before it completes");
                let item = member(params, "/item");
                match (text(&item, "/type").as_str(), text(&item, "/aggregatedOutput")) {
                    // A command that the sandbox stopped may have been repeated without it; the item has the last output.
                    ("commandExecution", output) => {
                        assert!(text(&open, "/aggregatedOutput").ends_with(&output), "{open}: {item}");
                    }
                    _ => assert_eq!(streamed(&item), streamed(&open), "deltas add up to the item: {item}"),
                }
                turn.items.push(item);
            }
            method => self.add_delta(method, params),
        }
    }

    /// Adds a delta to its item.
    fn add_delta(&mut self, method: &str, params: &Value) {
        let (member, index) = match method {
            "item/agentMessage/delta" | "item/plan/delta" => ("text", None),
            "item/commandExecution/outputDelta" => ("aggregatedOutput", None),
            "item/reasoning/summaryTextDelta" => ("summary", Some("/summaryIndex")),
            "item/reasoning/textDelta" => ("content", Some("/contentIndex")),
            _ => return,
        };
        let turn = self.turn(&text(params, "/turnId"));
        let item = turn.open.get_mut(&text(params, "/itemId")).expect("the item has started");
        let mut place = &mut item[member];
        if let Some(index) = index.and_then(|index| params.pointer(index)).and_then(Value::as_u64) {
            let index = usize::try_from(index).expect("it is small");
            if place.is_null() {
                *place = json!([]);
            }
            let sections = place.as_array_mut().expect("sections are a list");
            sections.resize(sections.len().max(index + 1), Value::Null);
            place = sections.get_mut(index).expect("it was added above");
        }
        *place = json!(place.as_str().unwrap_or_default().to_owned() + &text(params, "/delta"));
    }

    /// Returns whether a turn has started and not ended.
    pub fn is_running(&self) -> bool {
        self.turns.iter().any(|turn| turn.status == "inProgress")
    }

    /// Returns whether a turn has ended.
    pub fn has_ended(&self, turn: &str) -> bool {
        self.turns
            .iter()
            .any(|known| known.id == turn && known.status != "inProgress" && !known.status.is_null())
    }

    /// Checks that the messages add up to what `thread/read` returns.
    pub fn check(&self, thread: &Thread) {
        let expected: Vec<_> = thread
            .turns
            .iter()
            .map(|turn| json!({ "id": turn.id, "status": turn.status, "error": turn.error, "items": turn.items }))
            .collect();
        let folded: Vec<_> = (self.turns.iter())
            .map(|turn| json!({ "id": turn.id, "status": turn.status, "error": turn.error, "items": turn.items }))
            .collect();
        assert_eq!(json!(folded), json!(expected));
    }

    /// Checks that the client knows the status.
    pub fn check_status(&self, thread: &Thread) {
        assert_eq!(self.status, Some(json!(thread.status)));
    }

    fn once(&mut self, method: &str, params: &Value, id: &str) {
        let key = format!("{method} {}", text(params, id));
        assert!(self.seen.insert(key.clone()), "{key} came twice, the second time at {}", self.last);
    }

    fn turn(&mut self, id: &str) -> &mut FoldedTurn {
        if self.turns.iter().all(|turn| turn.id != id) {
            self.turns.push(FoldedTurn { id: id.to_owned(), ..FoldedTurn::default() });
        }
        self.turns.iter_mut().find(|turn| turn.id == id).expect("it was added above")
    }
}

/// Returns the parts of an item that deltas make.
fn streamed(item: &Value) -> Value {
    match item["type"].as_str() {
        Some("agentMessage" | "plan") => json!(text(item, "/text")),
        Some("reasoning") => json!([item["summary"], item["content"]]),
        _ => Value::Null,
    }
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn member(value: &Value, pointer: &str) -> Value {
    value.pointer(pointer).cloned().unwrap_or_default()
}
