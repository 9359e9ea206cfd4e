//! A turn, put together from its notifications.

use std::sync::Arc;

use codicil_protocol::{
    ItemId, MessagePhase, ServerNotification, ThreadId, ThreadItem, ThreadTokenUsage, Turn, TurnError,
    TurnPlanStep, TurnStatus, rpc,
};
use serde_json::Value;

use crate::error::{ClientError, Disconnected, UnfinishedTurn};

/// All that happened in a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedTurn {
    /// Where it ran.
    pub thread_id: ThreadId,
    /// As the server reported its end.
    pub turn: Turn,
    /// Every item in its final state, in the order of completion.
    pub items: Vec<ThreadItem>,
    /// The agent's answer: its last message, or what there is of it. Empty if it said nothing.
    pub agent_message: String,
    /// All file changes of the turn as one unified diff.
    pub diff: Option<String>,
    /// The agent's list of steps as it was last.
    pub plan: Vec<TurnPlanStep>,
    /// What the thread had used at the end.
    pub token_usage: Option<ThreadTokenUsage>,
    /// Items that were not kept, because the turn was larger than [`ClientLimits::turn_bytes`](crate::ClientLimits).
    pub omitted_items: u64,
}

impl CompletedTurn {
    /// `<thread>-<turn>`, a name for this piece of work in logs.
    pub fn session_id(&self) -> String {
        session_id(&self.thread_id, &self.turn)
    }
}

pub(crate) fn session_id(thread: &ThreadId, turn: &Turn) -> String {
    format!("{thread}-{}", turn.id)
}

/// How a turn ended, as far as its client is concerned.
#[derive(Debug)]
pub(crate) enum TurnOutcome {
    /// With `turn/completed`, whatever its status.
    Completed(Turn),
    /// With `turn/failed`.
    Failed(Value),
    /// With `turn/cancelled`.
    Cancelled(Value),
    /// With a question that nobody answers.
    InputRequired(Value),
    ApprovalRequired(Value),
    /// With the connection.
    Ended(Arc<Disconnected>),
    TimedOut(String),
}

/// What has been seen of a turn so far.
#[derive(Debug)]
pub(crate) struct CollectedTurn {
    items: Vec<ThreadItem>,
    /// An agent message that is being written.
    open_message: Option<(ItemId, String)>,
    diff: Option<String>,
    plan: Vec<TurnPlanStep>,
    token_usage: Option<ThreadTokenUsage>,
    last_error: Option<TurnError>,
    omitted_items: u64,
    /// Whether the agent has begun to do anything.
    has_begun: bool,
    bytes: usize,
    max_bytes: usize,
}

impl CollectedTurn {
    pub fn new(max_bytes: usize) -> Self {
        Self {
            items: Vec::new(),
            open_message: None,
            diff: None,
            plan: Vec::new(),
            token_usage: None,
            last_error: None,
            omitted_items: 0,
            has_begun: false,
            bytes: 0,
            max_bytes,
        }
    }

    /// Notes a notification that took `size` bytes, and says how the turn ended if this was its end.
    pub fn take(&mut self, event: &ServerNotification, size: usize) -> Option<TurnOutcome> {
        use ServerNotification as N;
        match event {
            N::ItemStarted(started) => self.has_begun |= is_work(&started.item),
            N::ItemCompleted(completed) => self.item(&completed.item, size),
            N::AgentMessageDelta(delta) => self.delta(&delta.item_id, &delta.delta),
            N::TurnDiffUpdated(update) => self.diff = Some(update.diff.clone()),
            N::TurnPlanUpdated(update) => self.plan.clone_from(&update.plan),
            N::ThreadTokenUsageUpdated(update) => self.token_usage = Some(update.token_usage.clone()),
            N::ErrorReported(report) => self.last_error = Some(report.error.clone()),
            N::TurnCompleted(completed) => return Some(TurnOutcome::Completed(completed.turn.clone())),
            N::Unknown(unknown) => {
                self.has_begun |= is_foreign_work(unknown);
                return other_end(unknown);
            }
            _ => {}
        }
        None
    }

    /// Whether the agent has done anything that another try would do twice.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn item(&mut self, item: &ThreadItem, size: usize) {
        self.has_begun |= is_work(item);
        if self.open_message.as_ref().is_some_and(|(id, _)| Some(id) == item.id()) {
            self.open_message = None;
        }
        if self.bytes + size > self.max_bytes {
            self.omitted_items += 1;
        } else {
            self.bytes += size;
            self.items.push(item.clone());
        }
    }

    /// Deltas are only for the message that never completes; those that do carry their text.
    fn delta(&mut self, id: &ItemId, delta: &str) {
        self.has_begun = true;
        match &mut self.open_message {
            Some((open, text)) if open == id => {
                if text.len() + delta.len() <= self.max_bytes {
                    text.push_str(delta);
                }
            }
            _ => self.open_message = Some((id.clone(), delta.to_owned())),
        }
    }

    fn answer(&self) -> String {
        if let Some((_, text)) = &self.open_message {
            return text.clone();
        }
        let said = |wanted: fn(&Option<MessagePhase>) -> bool| {
            self.items.iter().rev().find_map(|item| match item {
                ThreadItem::AgentMessage { text, phase, .. } if wanted(phase) => Some(text.clone()),
                _ => None,
            })
        };
        said(|phase| *phase == Some(MessagePhase::FinalAnswer)).or_else(|| said(|_| true)).unwrap_or_default()
    }

    /// The turn as it is, and how it came out.
    pub fn finish(
        self,
        thread_id: ThreadId,
        started: Turn,
        outcome: TurnOutcome,
    ) -> Result<CompletedTurn, ClientError> {
        let agent_message = self.answer();
        let turn = match &outcome {
            // A server that names no turn means the one that it started.
            TurnOutcome::Completed(turn) if turn.id.is_empty() => Turn { id: started.id, ..turn.clone() },
            TurnOutcome::Completed(turn) => turn.clone(),
            _ => started,
        };
        let last_error = self.last_error;
        let so_far = CompletedTurn {
            thread_id,
            turn,
            items: self.items,
            agent_message,
            diff: self.diff,
            plan: self.plan,
            token_usage: self.token_usage,
            omitted_items: self.omitted_items,
        };
        judge(so_far, last_error, outcome)
    }
}

/// A turn that completed well is a result; every other end is an error that holds what there was.
fn judge(
    so_far: CompletedTurn,
    last_error: Option<TurnError>,
    outcome: TurnOutcome,
) -> Result<CompletedTurn, ClientError> {
    let unfinished = |message: String, error: Option<TurnError>, payload: Value, so_far: CompletedTurn| {
        Box::new(UnfinishedTurn { message, error, payload, so_far })
    };
    Err(match outcome {
        TurnOutcome::Completed(turn) => match turn.status {
            TurnStatus::Failed => {
                let error = turn.error.or(last_error);
                let message = error.as_ref().map_or("no reason given", |error| &error.message).to_owned();
                ClientError::TurnFailed(unfinished(message, error, Value::Null, so_far))
            }
            TurnStatus::Interrupted => {
                let message = "the server stopped it".to_owned();
                ClientError::TurnCancelled(unfinished(message, turn.error, Value::Null, so_far))
            }
            TurnStatus::Completed | TurnStatus::InProgress | TurnStatus::Unrecognized(_) => {
                return Ok(so_far);
            }
        },
        TurnOutcome::Failed(payload) => {
            let error = error_in(&payload).or(last_error);
            let message = words(&payload, error.as_ref());
            ClientError::TurnFailed(unfinished(message, error, payload, so_far))
        }
        TurnOutcome::Cancelled(payload) => {
            ClientError::TurnCancelled(unfinished(words(&payload, None), None, payload, so_far))
        }
        TurnOutcome::InputRequired(payload) => {
            ClientError::TurnInputRequired(unfinished(question(&payload), None, payload, so_far))
        }
        TurnOutcome::ApprovalRequired(payload) => {
            ClientError::ApprovalRequired(unfinished(question(&payload), None, payload, so_far))
        }
        TurnOutcome::TimedOut(message) => {
            ClientError::TurnTimeout(unfinished(message, last_error, Value::Null, so_far))
        }
        TurnOutcome::Ended(ended) => ClientError::PortExit(ended),
    })
}

/// Input is there before any work begins.
fn is_work(item: &ThreadItem) -> bool {
    !matches!(item, ThreadItem::UserMessage { .. } | ThreadItem::HookPrompt { .. })
}

/// The same for items in words that are not the protocol's: `item/mcpToolCall/started`, or an item that is
/// told by its type alone.
fn is_foreign_work(unknown: &rpc::Notification) -> bool {
    let kind = unknown.params.as_ref().and_then(|params| params.get("itemType")).and_then(Value::as_str);
    let is_input = kind.is_some_and(|kind| matches!(kind, "user_message" | "userMessage"));
    unknown.method.starts_with("item/") && !is_input
}

/// Names under which servers say that a turn waits for a person; nothing follows.
const INPUT_REQUIRED: [&str; 7] = [
    "turn/input_required",
    "turn/inputRequired",
    "turn/needs_input",
    "turn/need_input",
    "turn/request_input",
    "turn/request_response",
    "turn/provide_input",
];

/// Whether a notification of this name ends a turn.
pub(crate) fn ends_turn(method: &str) -> bool {
    matches!(
        method,
        "turn/completed" | "turn/failed" | "turn/cancelled" | "turn/canceled" | "turn/approval_required"
    ) || INPUT_REQUIRED.contains(&method)
}

/// The ends that are not in the protocol's table.
fn other_end(unknown: &rpc::Notification) -> Option<TurnOutcome> {
    let payload = || unknown.params.clone().unwrap_or_default();
    match unknown.method.as_str() {
        "turn/failed" => Some(TurnOutcome::Failed(payload())),
        "turn/cancelled" | "turn/canceled" => Some(TurnOutcome::Cancelled(payload())),
        "turn/approval_required" => Some(TurnOutcome::ApprovalRequired(payload())),
        method if INPUT_REQUIRED.contains(&method) => Some(TurnOutcome::InputRequired(payload())),
        _ => None,
    }
}

fn error_in(payload: &Value) -> Option<TurnError> {
    let error = payload.get("error").or_else(|| payload.pointer("/turn/error"))?;
    serde_json::from_value(error.clone()).ok()
}

fn words(payload: &Value, error: Option<&TurnError>) -> String {
    let text = ["/message", "/reason", "/error/message", "/error"]
        .iter()
        .find_map(|pointer| payload.pointer(pointer).and_then(Value::as_str));
    let text = text.or_else(|| error.map(|error| error.message.as_str()));
    text.unwrap_or("no reason given").to_owned()
}

/// What was asked, in a few words.
fn question(payload: &Value) -> String {
    let params = payload.get("params").unwrap_or(payload);
    let text = ["/command", "/reason", "/questions/0/question", "/message"]
        .iter()
        .find_map(|pointer| params.pointer(pointer).and_then(Value::as_str));
    let method = payload.get("method").and_then(Value::as_str);
    match (method, text) {
        (Some(method), Some(text)) => format!("{method} ({text})"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => "nobody is there to answer".to_owned(),
    }
}
