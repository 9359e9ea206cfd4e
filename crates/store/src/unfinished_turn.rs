//! A turn without an end: which of its tool calls are open, and how far each has come.
//!
//! A killed or stopped server leaves such a turn behind. Whether it continues is decided by the engine.

use codicil_protocol::{ItemId, ResponseItem, ThreadActiveFlag, ThreadItem, ToolCallPairs, TurnId};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    record::{AskedRequest, QuestionKind, RequestAnswer},
    record_line::{LineHead, RecordKind},
    record_lines::RecordLines,
    record_parts::{decode, turn_of},
};

/// The last turn of a thread, if its end is not recorded.
#[derive(Clone, Debug)]
pub struct UnfinishedTurn {
    pub id: TurnId,
    /// The number of times that the turn was continued after a crash.
    pub resumes: u32,
    pub begun: Vec<BegunCall>,
    pub requests: Vec<StoredRequest>,
    /// Messages that were added to the turn and that the model has not seen.
    pub unseen_input: Vec<ThreadItem>,
    pub output_schema: Option<Value>,
}

/// A tool call that may have had effects.
#[derive(Clone, Debug)]
pub struct BegunCall {
    pub call_id: String,
    pub item: Option<ThreadItem>,
    line: u64,
}

/// A server request, with its answer if it has one.
#[derive(Clone, Debug)]
pub struct StoredRequest {
    pub asked: AskedRequest,
    pub asked_at: Option<Timestamp>,
    pub answer: Option<StoredAnswer>,
    line: u64,
}

/// The answer to a server request.
#[derive(Clone, Debug)]
pub struct StoredAnswer {
    pub answer: RequestAnswer,
    pub by: String,
    pub at: Option<Timestamp>,
}

/// How far an open tool call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallState {
    NotBegun,
    /// It waits for an answer.
    Asked,
    /// It has an answer, and nothing has followed from it yet.
    Answered,
    /// It may have had effects.
    Begun,
}

impl UnfinishedTurn {
    /// Returns the state of a call that has no output.
    pub fn call_state(&self, call_id: &str) -> CallState {
        if self.begun.iter().any(|begun| begun.call_id == call_id) {
            return CallState::Begun;
        }
        let mut requests = self.requests.iter().filter(|request| request.asked.call_id == call_id);
        match requests.next_back() {
            None => CallState::NotBegun,
            Some(request) if request.answer.is_some() => CallState::Answered,
            Some(_) => CallState::Asked,
        }
    }

    /// Returns the requests that wait for an answer, oldest first.
    pub fn open_requests(&self) -> impl Iterator<Item = &StoredRequest> {
        self.requests.iter().filter(|request| {
            request.answer.is_none() && self.call_state(&request.asked.call_id) == CallState::Asked
        })
    }

    /// Returns the status flags of the open requests.
    pub fn waiting_flags(&self) -> Vec<ThreadActiveFlag> {
        QuestionKind::flags(self.open_requests().map(|request| request.asked.kind))
    }

    /// Returns the items that clients have seen start. `completed` are the items of the turn that are stored.
    pub fn open_items(&self, completed: &[ItemId]) -> Vec<ThreadItem> {
        let asked = self.requests.iter().filter_map(|request| request.asked.item.as_ref());
        let begun = self.begun.iter().filter_map(|begun| begun.item.as_ref());
        let mut items: Vec<ThreadItem> = Vec::new();
        for item in asked.chain(begun) {
            let is_known =
                |id: &ItemId| completed.contains(id) || items.iter().any(|item| item.id() == Some(id));
            if item.id().is_some_and(|id| !is_known(id)) {
                items.push(item.clone());
            }
        }
        items
    }

    /// Forgets what belongs to calls that have an output. Providers may use the id of such a call again.
    pub(crate) fn drop_completed(&mut self, outputs: &[(u64, ResponseItem)]) {
        let ends: Vec<_> =
            outputs.iter().filter_map(|(line, item)| Some((*line, output_id(item)?))).collect();
        let is_over = |line: u64, call_id: &str| ends.iter().any(|(end, id)| *end > line && *id == call_id);
        self.begun.retain(|begun| !is_over(begun.line, &begun.call_id));
        self.requests.retain(|request| !is_over(request.line, &request.asked.call_id));
    }
}

/// Returns the calls of a history that have no output.
pub(crate) fn open_calls(history: &[ResponseItem]) -> Vec<ResponseItem> {
    let pairs = ToolCallPairs::of(history);
    let is_open = |(index, item): &(usize, &ResponseItem)| {
        let is_call = matches!(item, ResponseItem::FunctionCall { .. } | ResponseItem::CustomToolCall { .. });
        is_call && pairs.partner_of(*index).is_none()
    };
    history.iter().enumerate().filter(is_open).map(|(_, item)| item.clone()).collect()
}

fn output_id(item: &ResponseItem) -> Option<&str> {
    match item {
        ResponseItem::FunctionCallOutput { call_id, .. } => call_id.as_deref(),
        ResponseItem::CustomToolCallOutput { call_id, .. } => Some(call_id),
        _ => None,
    }
}

/// The records about the calls of the last turn, decoded only if it has no end.
#[derive(Default)]
pub(crate) struct CallRecords<'a> {
    heads: Vec<(u64, LineHead<'a>)>,
    resumes: u32,
    was_parked: bool,
    /// The ids of the turn's messages after the first, as long as they were written once.
    unseen_input: Vec<String>,
    has_input: bool,
    output_schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BegunRecord {
    call_id: String,
    item: Option<ThreadItem>,
}

#[derive(Deserialize)]
struct AnsweredRecord {
    request: String,
    #[serde(flatten)]
    answer: RequestAnswer,
    by: String,
}

impl<'a> CallRecords<'a> {
    pub fn add(&mut self, line: u64, head: LineHead<'a>) {
        self.heads.push((line, head));
    }

    /// Notes that a turn continues after a restart.
    pub fn continued(&mut self) {
        if !std::mem::take(&mut self.was_parked) {
            self.resumes += 1;
        }
    }

    pub fn parked(&mut self) {
        self.was_parked = true;
    }

    pub fn set_output_schema(&mut self, schema: Value) {
        self.output_schema = Some(schema);
    }

    /// Notes a message of the user. It is written when it is accepted and again when the model gets it, except for the first.
    pub fn input(&mut self, id: Option<&str>) {
        let Some(id) = id else { return };
        if !std::mem::replace(&mut self.has_input, true) {
            return;
        }
        match self.unseen_input.iter().position(|unseen| unseen == id) {
            Some(at) => drop(self.unseen_input.remove(at)),
            None => self.unseen_input.push(id.to_owned()),
        }
    }

    /// Decodes the records. `items` are the items of the turn.
    pub fn into_turn(self, id: TurnId, items: impl Iterator<Item = ThreadItem>) -> UnfinishedTurn {
        let unseen_input = items.filter(|item| {
            item.id().is_some_and(|id| self.unseen_input.iter().any(|unseen| **unseen == **id))
        });
        let mut turn = UnfinishedTurn {
            id,
            resumes: self.resumes,
            begun: Vec::new(),
            requests: Vec::new(),
            unseen_input: unseen_input.collect(),
            output_schema: self.output_schema,
        };
        for (line, head) in self.heads {
            turn.apply(line, head);
        }
        turn
    }
}

impl UnfinishedTurn {
    /// Applies a record. One that cannot be read is ignored: its call then counts as one that has begun or not, by the others.
    fn apply(&mut self, line: u64, head: LineHead<'_>) {
        let at = head.timestamp.parse().ok();
        match head.kind {
            RecordKind::Begun => {
                let Some(BegunRecord { call_id, item }) = decode(head) else { return };
                self.begun.push(BegunCall { call_id, item, line });
            }
            RecordKind::Asked => {
                let Some(asked) = decode(head) else { return };
                self.requests.push(StoredRequest { asked, asked_at: at, answer: None, line });
            }
            RecordKind::Answered => {
                let Some(AnsweredRecord { request, answer, by }) = decode(head) else { return };
                let open = self.requests.iter_mut().find(|open| open.asked.request == request);
                if let Some(open) = open.filter(|open| open.answer.is_none()) {
                    open.answer = Some(StoredAnswer { answer, by, at });
                }
            }
            _ => {}
        }
    }
}

/// What has become of a server request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    Open,
    Answered {
        by: String,
        at: Option<Timestamp>,
    },
    /// The turn ended before an answer.
    TurnEnded {
        at: Option<Timestamp>,
    },
}

impl RequestOutcome {
    /// Finds a request among all records of a thread.
    pub(crate) fn find(lines: &RecordLines<'_>, request: &str) -> Option<Self> {
        let mut turn = None;
        for (_, head) in lines.heads() {
            let at = head.timestamp.parse().ok();
            match head.kind {
                RecordKind::Asked => {
                    let asked = decode::<AskedRequest>(head).filter(|asked| asked.request == request);
                    turn = asked.and_then(|_| turn_of(head)).or(turn);
                }
                RecordKind::Answered => {
                    let answered = decode::<AnsweredRecord>(head).filter(|answer| answer.request == request);
                    if let Some(AnsweredRecord { by, .. }) = answered {
                        return Some(Self::Answered { by, at });
                    }
                }
                RecordKind::TurnEnd if turn.is_some() && turn_of(head) == turn => {
                    return Some(Self::TurnEnded { at });
                }
                _ => {}
            }
        }
        turn.map(|_| Self::Open)
    }
}
