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
    /// The messages of records that have arrived.
    seen: BTreeSet<String>,
}

#[derive(Clone, Debug, Default)]
struct FoldedTurn {
    id: String,
    status: Value,
    error: Value,
    items: Vec<Value>,
    /// Items that have started and not completed, with the text of their deltas.
    open: BTreeMap<String, String>,
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
                *self = Self { last: at.value(), seen: self.seen.clone(), turns: Vec::new() };
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
                        turn.open.insert(text(&item, "/id"), text(&item, "/text"));
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
                let so_far = text(params, "/item/text");
                self.turn(&text(params, "/turnId")).open.insert(text(params, "/item/id"), so_far);
            }
            "item/completed" => {
                self.once("item/completed", params, "/item/id");
                let turn = self.turn(&text(params, "/turnId"));
                let open = turn.open.remove(&text(params, "/item/id"));
                let open = open.expect("an item starts before it completes");
                if text(params, "/item/type") == "agentMessage" {
                    assert_eq!(text(params, "/item/text"), open, "deltas add up to the item");
                }
                turn.items.push(member(params, "/item"));
            }
            "item/agentMessage/delta" => {
                let turn = self.turn(&text(params, "/turnId"));
                let open = turn.open.get_mut(&text(params, "/itemId")).expect("the item has started");
                open.push_str(&text(params, "/delta"));
            }
            _ => {}
        }
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

    fn once(&mut self, method: &str, params: &Value, id: &str) {
        let key = format!("{method} {}", text(params, id));
        assert!(self.seen.insert(key.clone()), "{key} came twice");
    }

    fn turn(&mut self, id: &str) -> &mut FoldedTurn {
        if self.turns.iter().all(|turn| turn.id != id) {
            self.turns.push(FoldedTurn { id: id.to_owned(), ..FoldedTurn::default() });
        }
        self.turns.iter_mut().find(|turn| turn.id == id).expect("it was added above")
    }
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn member(value: &Value, pointer: &str) -> Value {
    value.pointer(pointer).cloned().unwrap_or_default()
}
