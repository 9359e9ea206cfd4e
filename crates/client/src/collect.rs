//! Assembles a turn's result from its notifications, and decides how the turn ended.

use std::sync::Arc;

use codicil_protocol::{
    ItemId, MessagePhase, ServerNotification, ThreadId, ThreadItem, ThreadTokenUsage, Turn, TurnError,
    TurnPlanStep, TurnStatus, rpc,
};
use serde_json::Value;

use crate::error::{ClientError, Disconnected, UnfinishedTurn};

/// Everything that happened in a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedTurn {
    /// The thread of the turn.
    pub thread_id: ThreadId,
    /// The turn as reported at its end.
    pub turn: Turn,
    /// Every item in its final state, in order of completion.
    pub items: Vec<ThreadItem>,
    /// The agent's answer: its final message, or the deltas received so far. Empty if there is none.
    pub agent_message: String,
    /// All file changes of the turn as one unified diff.
    pub diff: Option<String>,
    /// The latest version of the agent's plan.
    pub plan: Vec<TurnPlanStep>,
    /// The thread's token usage at the end.
    pub token_usage: Option<ThreadTokenUsage>,
    /// The number of items dropped because the turn exceeded
    /// [`ClientLimits::turn_bytes`](crate::ClientLimits::turn_bytes).
    pub omitted_items: u64,
}

impl CompletedTurn {
    /// Returns `<thread>-<turn>`, an identifier of this turn for logs.
    pub fn session_id(&self) -> String {
        session_id(&self.thread_id, &self.turn)
    }
}

pub(crate) fn session_id(thread: &ThreadId, turn: &Turn) -> String {
    format!("{thread}-{}", turn.id)
}

/// How a turn ended, from the client's point of view.
#[derive(Debug)]
pub(crate) enum TurnOutcome {
    /// `turn/completed`, with any status.
    Completed(Turn),
    /// `turn/failed`.
    Failed(Value),
    /// `turn/cancelled`.
    Cancelled(Value),
    /// A request that the handler did not answer.
    InputRequired(Value),
    ApprovalRequired(Value),
    /// The connection ended.
    Disconnected(Arc<Disconnected>),
    TimedOut(String),
}

/// The events of a turn so far.
#[derive(Debug)]
pub(crate) struct CollectedTurn {
    items: Vec<ThreadItem>,
    /// The agent message whose deltas are arriving.
    open_message: Option<(ItemId, String)>,
    diff: Option<String>,
    plan: Vec<TurnPlanStep>,
    token_usage: Option<ThreadTokenUsage>,
    last_error: Option<TurnError>,
    omitted_items: u64,
    /// Whether the agent has started any work.
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

    /// Replaces the items, whose messages the server cannot send again.
    pub fn replace_items(&mut self, items: &[ThreadItem]) {
        self.items = items.to_vec();
        self.open_message = None;
        self.has_begun |= items.iter().any(is_work);
    }

    /// Adds a notification that took `size` bytes. Returns the outcome if it ends the turn.
    pub fn add(&mut self, event: &ServerNotification, size: usize) -> Option<TurnOutcome> {
        use ServerNotification as N;
        match event {
            N::ItemStarted(started) => self.has_begun |= is_work(&started.item),
            N::ItemCompleted(completed) => self.add_item(&completed.item, size),
            N::AgentMessageDelta(delta) => self.add_delta(&delta.item_id, &delta.delta),
            N::TurnDiffUpdated(update) => self.diff = Some(update.diff.clone()),
            N::TurnPlanUpdated(update) => self.plan.clone_from(&update.plan),
            N::ThreadTokenUsageUpdated(update) => self.token_usage = Some(update.token_usage.clone()),
            N::ErrorReported(report) => self.last_error = Some(report.error.clone()),
            N::TurnCompleted(completed) => return Some(TurnOutcome::Completed(completed.turn.clone())),
            N::Unknown(unknown) => {
                self.has_begun |= is_unlisted_work(unknown);
                return unlisted_end(unknown);
            }
            _ => {}
        }
        None
    }

    /// Returns whether the agent has done anything that a repetition would do twice.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn add_item(&mut self, item: &ThreadItem, size: usize) {
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

    /// Keeps deltas for a message that never completes. A completed item carries its whole text.
    fn add_delta(&mut self, id: &ItemId, delta: &str) {
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

    fn agent_message(&self) -> String {
        if let Some((_, text)) = &self.open_message {
            return text.clone();
        }
        let last_message = |is_wanted: fn(&Option<MessagePhase>) -> bool| {
            self.items.iter().rev().find_map(|item| match item {
                ThreadItem::AgentMessage { text, phase, .. } if is_wanted(phase) => Some(text.clone()),
                _ => None,
            })
        };
        let final_answer = last_message(|phase| *phase == Some(MessagePhase::FinalAnswer));
        final_answer.or_else(|| last_message(|_| true)).unwrap_or_default()
    }

    /// Returns the result, or the error that corresponds to the outcome.
    pub fn finish(
        self,
        thread_id: ThreadId,
        started: Turn,
        outcome: TurnOutcome,
    ) -> Result<CompletedTurn, ClientError> {
        let agent_message = self.agent_message();
        let turn = match &outcome {
            // A server that names no turn means the one that was started.
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
        into_result(so_far, last_error, outcome)
    }
}

/// Converts the outcome: a completed turn is a result, every other end an error with the partial result.
fn into_result(
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
            let message = reason_in(&payload, error.as_ref());
            ClientError::TurnFailed(unfinished(message, error, payload, so_far))
        }
        TurnOutcome::Cancelled(payload) => {
            ClientError::TurnCancelled(unfinished(reason_in(&payload, None), None, payload, so_far))
        }
        TurnOutcome::InputRequired(payload) => {
            ClientError::TurnInputRequired(unfinished(describe_request(&payload), None, payload, so_far))
        }
        TurnOutcome::ApprovalRequired(payload) => {
            ClientError::ApprovalRequired(unfinished(describe_request(&payload), None, payload, so_far))
        }
        TurnOutcome::TimedOut(message) => {
            ClientError::TurnTimeout(unfinished(message, last_error, Value::Null, so_far))
        }
        TurnOutcome::Disconnected(reason) => ClientError::Disconnected(reason),
    })
}

/// Returns whether an item is work of the agent, as opposed to input.
fn is_work(item: &ThreadItem) -> bool {
    !matches!(
        item,
        ThreadItem::UserMessage { .. }
            | ThreadItem::FunctionCallOutput { .. }
            | ThreadItem::HookPrompt { .. }
    )
}

/// Returns whether a notification outside the protocol's table reports work: `item/mcpToolCall/started`, or an item
/// identified only by its type.
fn is_unlisted_work(unknown: &rpc::Notification) -> bool {
    let kind = unknown.params.as_ref().and_then(|params| params.get("itemType")).and_then(Value::as_str);
    let is_input = kind.is_some_and(|kind| matches!(kind, "user_message" | "userMessage"));
    unknown.method.starts_with("item/") && !is_input
}

/// Notifications by which servers report that a turn waits for user input. No other end of the turn follows.
const INPUT_REQUIRED: [&str; 7] = [
    "turn/input_required",
    "turn/inputRequired",
    "turn/needs_input",
    "turn/need_input",
    "turn/request_input",
    "turn/request_response",
    "turn/provide_input",
];

/// Returns whether a notification of this method ends a turn.
pub(crate) fn ends_turn(method: &str) -> bool {
    matches!(
        method,
        "turn/completed" | "turn/failed" | "turn/cancelled" | "turn/canceled" | "turn/approval_required"
    ) || INPUT_REQUIRED.contains(&method)
}

/// Returns the outcome of a notification that ends a turn but is not in the protocol's table.
fn unlisted_end(unknown: &rpc::Notification) -> Option<TurnOutcome> {
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

fn reason_in(payload: &Value, error: Option<&TurnError>) -> String {
    let text = ["/message", "/reason", "/error/message", "/error"]
        .iter()
        .find_map(|pointer| payload.pointer(pointer).and_then(Value::as_str));
    let text = text.or_else(|| error.map(|error| error.message.as_str()));
    text.unwrap_or("no reason given").to_owned()
}

/// Describes an unanswered request.
fn describe_request(payload: &Value) -> String {
    let params = payload.get("params").unwrap_or(payload);
    let text = ["/command", "/reason", "/questions/0/question", "/message"]
        .iter()
        .find_map(|pointer| params.pointer(pointer).and_then(Value::as_str));
    let method = payload.get("method").and_then(Value::as_str);
    match (method, text) {
        (Some(method), Some(text)) => format!("{method} ({text})"),
        (Some(text), None) | (None, Some(text)) => text.to_owned(),
        (None, None) => "no answer is available".to_owned(),
    }
}
