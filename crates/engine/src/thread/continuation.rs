//! Turns that outlive the process: parked when their thread is unloaded, continued or settled when it is loaded again.
//!
//! The stored history has the model's calls, and the records of each call say how far it had come. A call that may have had
//! effects never runs again: its item fails, and the model learns that the outcome is unknown. The others run from the start;
//! on their way they meet the requests that they had sent, or the answers.

use codicil_config::CutOffTurns;
use codicil_metrics::{METRICS, labels::TurnEnd};
use codicil_model::{History, HistoryItem};
use codicil_protocol::{
    ItemId, ResponseItem, ThreadItem, ThreadStatus, Turn, TurnId, TurnStatus, UserInput, complete_tool_calls,
    rpc::RequestId,
};
use codicil_store::{CallState, LoadedThread, Record, StoredRequest, TurnEndCause, UnfinishedTurn};
use futures_util::FutureExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    ThreadState, TurnKind, TurnOrigin,
    active_turn::{EarlyAnswer, TurnBeginning},
    actor::ThreadActor,
    announce::ItemStart,
    finish::cut_off,
    input::{SteeredInput, context_record},
    launch::NewTurn,
    open_questions::DurableRequest,
    questions::time_left,
    turn_count::count_turn,
};
use crate::{
    clock::unix_now,
    durable_requests,
    error::ThreadError,
    subagent::SubagentOrigin,
    tools::{ToolCall, outcome_unknown},
};

/// The number of times that a turn is continued after a crash. A turn that causes the crashes must not do so for ever.
const MAX_RESUMES: u32 = 2;

/// A turn of an earlier process that continues in this one.
#[derive(Clone, Debug)]
pub(crate) struct ContinuedTurn {
    unfinished: UnfinishedTurn,
    /// The calls without an output, in the model's order.
    calls: Vec<ResponseItem>,
    /// What the turn has added to the history.
    history: Vec<ResponseItem>,
    /// The number of items of the history that precede the turn.
    preceding: usize,
    /// The turn with its stored items.
    turn: Turn,
    /// The time of its first record.
    started: Option<Timestamp>,
}

impl ContinuedTurn {
    /// Returns the unfinished turn of a stored thread, if there is one.
    pub fn of(loaded: &LoadedThread) -> Option<Self> {
        Some(Self {
            unfinished: loaded.thread.unfinished.clone()?,
            calls: loaded.open_calls(),
            history: loaded.unfinished.clone(),
            preceding: loaded.finished,
            turn: loaded.thread.turns.last()?.decode(),
            started: loaded.thread.turns.last()?.started(),
        })
    }

    /// Returns whether the turn continues. A turn without calls that wait was cut off in its work, and continues only if the
    /// configuration says so.
    pub fn can_continue(&self, state: &ThreadState) -> bool {
        let is_of_user = SubagentOrigin::of(&state.source).is_none();
        if !is_of_user || self.unfinished.resumes >= MAX_RESUMES {
            return false;
        }
        let can_ask =
            |request: &StoredRequest| durable_requests::can_ask(&request.asked.method, &request.asked.params);
        if !self.unfinished.open_requests().all(can_ask) {
            return false;
        }
        let waits = self.calls.iter().filter_map(call_id).any(|id| self.state(id) != CallState::Begun);
        let asks_again = state.config.settings.codicil.cut_off_turns == CutOffTurns::Resume;
        waits || (asks_again && self.has_input())
    }

    /// Returns whether the model's history has the input of the turn. A turn that is cut off before has to be started again.
    fn has_input(&self) -> bool {
        let is_input = |item: &ResponseItem| {
            matches!(item, ResponseItem::Message { role, .. } if role == "user")
                && !codicil_prompts::is_context_message(item)
        };
        let is_regular = self.turn.items.iter().any(|item| matches!(item, ThreadItem::UserMessage { .. }))
            && !self.turn.items.iter().any(|item| matches!(item, ThreadItem::EnteredReviewMode { .. }));
        is_regular && self.history.iter().any(is_input)
    }

    fn state(&self, call_id: &str) -> CallState {
        self.unfinished.call_state(call_id)
    }

    pub fn id(&self) -> &TurnId {
        &self.unfinished.id
    }

    pub fn unfinished(&self) -> &UnfinishedTurn {
        &self.unfinished
    }

    pub fn status(&self) -> ThreadStatus {
        ThreadStatus::Active { active_flags: self.unfinished.waiting_flags() }
    }

    /// Returns the items that clients have seen start.
    pub fn open_items(&self) -> Vec<ThreadItem> {
        let completed: Vec<ItemId> = self.turn.items.iter().filter_map(|item| item.id().cloned()).collect();
        self.unfinished.open_items(&completed)
    }

    /// Returns the outputs of calls that may have had effects.
    fn lost_outputs(&self) -> Vec<ResponseItem> {
        let calls = self.calls.iter().filter_map(ToolCall::from_item);
        let lost = calls.filter(|call| self.state(&call.id) == CallState::Begun);
        lost.map(|call| call.into_output_item(outcome_unknown())).collect()
    }

    /// Returns the items of calls that may have had effects, with the status of a failure.
    fn lost_items(&self) -> Vec<ThreadItem> {
        let is_lost = |item: &ThreadItem| item.id().is_some_and(|id| self.state(id) == CallState::Begun);
        self.open_items().into_iter().filter(is_lost).map(cut_off).collect()
    }

    /// Returns the history with the open calls, which have no output yet. `loaded` is the history that was loaded.
    fn open_history(&self, loaded: &History) -> History {
        let preceding = loaded.iter().take(self.preceding).cloned();
        preceding.chain(self.history.iter().cloned().map(HistoryItem::from)).collect()
    }

    /// Returns the history of the turn after [`settled`](Self::settled). `loaded` is the history that was loaded.
    pub fn settled_history(&self, loaded: &History) -> History {
        let mut history = self.history.clone();
        history.extend(self.lost_outputs());
        let mut history = complete_tool_calls(history);
        history.push(codicil_prompts::turn_aborted_message());
        let preceding = loaded.iter().take(self.preceding).cloned();
        preceding.chain(history.into_iter().map(HistoryItem::from)).collect()
    }

    /// Returns the records that end the turn.
    pub fn settled(&self) -> Vec<Record> {
        let turn_id = self.id();
        let items = self.open_items().into_iter().map(cut_off);
        // Written again, so that each input has positions of its own.
        let items = items.chain(self.unfinished.unseen_input.iter().cloned());
        let mut records: Vec<_> = items.map(|item| Record::Item { turn_id: turn_id.clone(), item }).collect();
        let mut additions = self.lost_outputs();
        additions.push(codicil_prompts::turn_aborted_message());
        records.extend(additions.iter().map(|item| context_record(turn_id, item)));
        records.push(Record::TurnEnd {
            turn_id: turn_id.clone(),
            status: TurnStatus::Interrupted,
            error: None,
            cause: Some(TurnEndCause::ServerRestart),
        });
        records
    }

    /// Returns the user's text.
    fn prompt(&self) -> String {
        self.input_texts().collect::<Vec<_>>().join("\n")
    }

    fn input_texts(&self) -> impl Iterator<Item = String> {
        let inputs = self.turn.items.iter().filter_map(|item| match item {
            ThreadItem::UserMessage { content, .. } => Some(content),
            _ => None,
        });
        inputs.flatten().filter_map(|part| match part {
            UserInput::Text { text, .. } => Some(text.clone()),
            _ => None,
        })
    }

    /// Returns the last message of the agent.
    fn last_message(&self) -> Option<&ThreadItem> {
        self.turn.items.iter().rev().find(|item| matches!(item, ThreadItem::AgentMessage { .. }))
    }

    fn last_message_text(&self) -> Option<String> {
        match self.last_message()? {
            ThreadItem::AgentMessage { text, .. } => Some(text.clone()),
            _ => None,
        }
    }
}

impl ThreadActor {
    /// Leaves the running turn for another process, if that is possible. Returns whether it is.
    pub(super) async fn park_turn(&mut self) -> bool {
        self.handle_queued_messages().await;
        // An answer that has arrived is stored, so that the request is not sent again.
        while let Some(active) = &mut self.active
            && let Some(ended) = active.questions.next().now_or_never()
        {
            self.on_question_ended(ended).await;
        }
        if !self.can_park() {
            return false;
        }
        let Some(active) = self.active.take() else { return false };
        // Nothing that the task still sends is answered, so no call can begin.
        active.abort();
        active.over.cancel();
        let background = self.background_items();
        drop(self.commands.take_if(|id| !background.contains(id)));
        if let Err(error) = self.store_or_keep(vec![Record::parked(&active.id)]).await {
            tracing::warn!(thread = %self.state.id, "failed to store that a turn is parked: {error}");
        }
        METRICS.turns_parked.inc();
        true
    }

    /// Returns whether the running turn can be left for another process.
    pub(super) fn can_park(&self) -> bool {
        self.stores_calls() && self.active.as_ref().is_some_and(|active| active.can_park())
    }

    /// Continues the turn of an earlier process, if the thread has one. Its open requests are sent again at once; its calls come
    /// to them later.
    pub(super) async fn continue_turn(&mut self) {
        let Some(continued) = self.state.continued.take() else { return };
        self.refresh_servers().await;
        self.learn_about_model().await;
        let provider = match self.provider() {
            Ok(provider) => provider,
            Err(error) => {
                tracing::error!(thread = %self.state.id, "cannot continue a turn: {error}");
                return self.settle_turn(&continued).await;
            }
        };
        let id = continued.id().clone();
        let turn_record = match self.turn_record(&id).await {
            Ok(record) => record,
            Err(error) => return self.continue_later(continued, &error),
        };
        let lost_items = continued.lost_items();
        let lost_outputs = continued.lost_outputs();
        self.unsent.continue_turn(&continued.turn, continued.started, continued.last_message());
        let mut records = vec![turn_record];
        records
            .extend(lost_items.iter().map(|item| Record::Item { turn_id: id.clone(), item: item.clone() }));
        records.extend(lost_outputs.iter().map(|item| context_record(&id, item)));
        if let Err(error) = self.store_once(records).await {
            if !error.is_overtaken() {
                return self.continue_later(continued, &error);
            }
            // Another process has continued the turn.
            if let Err(error) = self.catch_up().await {
                tracing::info!(thread = %self.state.id, "left a turn to another process: {error}");
            }
            return;
        }
        self.state.history = continued.open_history(&self.state.history);
        let is_open = |call: &ToolCall| continued.state(&call.id) != CallState::Begun;
        let calls = continued.calls.iter().filter_map(ToolCall::from_item).filter(is_open).collect();
        let root_turn = continued.turn.root_turn_id.clone().filter(|root| *root != id);
        let origin = TurnOrigin { root_turn, ..TurnOrigin::default() };
        let mut active = self.launch(NewTurn {
            output_schema: continued.unfinished.output_schema.clone(),
            prompt: Some(continued.prompt()),
            continued_calls: Some(calls),
            ..NewTurn::new(id.clone(), TurnKind::Regular, provider, origin)
        });
        active.calls.note(&continued.calls);
        active.last_message = continued.last_message_text();
        active.input_texts = continued.input_texts().collect();
        active.beginning = Some(TurnBeginning {
            started: Instant::now(),
            started_at: continued.turn.started_at.unwrap_or_else(unix_now),
        });
        let unseen = continued.unfinished.unseen_input.iter().cloned();
        active.steered = unseen.map(|item| SteeredInput { item, context: Vec::new() }).collect();
        self.active = Some(active);
        METRICS.turns_continued.inc();
        self.notifier.keep_recent();
        for item in continued.open_items() {
            self.restore_item(&id, item);
        }
        self.notifier.raw_items(&id, &lost_outputs);
        if let Some(active) = &mut self.active {
            active.calls.note(&lost_outputs);
        }
        self.state.remember(lost_outputs);
        for item in &lost_items {
            self.complete_restored(&id, item);
        }
        self.restore_requests(&continued.unfinished);
        self.update_waiting_status(None);
    }

    /// Keeps a turn that could not be continued now. The next command tries again.
    fn continue_later(&mut self, continued: Box<ContinuedTurn>, error: &ThreadError) {
        tracing::error!(thread = %self.state.id, "failed to store the continuation of a turn: {error}");
        self.state.continued = Some(continued);
    }

    /// Keeps an item of an earlier process until it is complete.
    fn restore_item(&mut self, turn: &TurnId, mut item: ThreadItem) {
        // The session that was reserved for the command is gone.
        if let ThreadItem::CommandExecution { process_id, .. } = &mut item {
            *process_id = None;
        }
        self.notifier.item_restored(turn, &item);
        if let (Some(active), Some(id)) = (&mut self.active, item.id()) {
            active.restored_items.insert(id.clone());
        }
        self.open_item(turn, item);
    }

    fn complete_restored(&mut self, turn: &TurnId, item: &ThreadItem) {
        if let Some(id) = item.id() {
            self.commands.remove(id);
            if let Some(active) = &mut self.active {
                active.restored_items.remove(id);
            }
        }
        self.emit_completed(turn, item);
    }

    /// Sends the open requests again, and keeps the answers that have had no effect yet.
    fn restore_requests(&mut self, unfinished: &UnfinishedTurn) {
        let default = self.state.config.settings.codicil.approvals.default;
        for request in &unfinished.requests {
            let asked = &request.asked;
            let Some(active) = &mut self.active else { return };
            active.calls.asked.insert(asked.call_id.clone());
            match (unfinished.call_state(&asked.call_id), &request.answer) {
                (CallState::Begun, _) => {}
                (_, Some(stored)) => active.calls.answers.push(EarlyAnswer {
                    call_id: asked.call_id.clone(),
                    method: asked.method.clone(),
                    answer: stored.answer.clone(),
                }),
                (_, None) => {
                    let encode = |id: &RequestId| {
                        durable_requests::encode(&asked.method, &asked.params, id)
                            .expect("a turn with a request that cannot be sent again is settled")
                    };
                    let question = self.notifier.ask(&encode);
                    let durable = DurableRequest {
                        asked: asked.clone(),
                        asked_at: request.asked_at.map_or_else(unix_now, |at| at.as_second()),
                        default: durable_requests::default_result(&asked.method, default),
                    };
                    active.questions.restore(question, durable, time_left(asked));
                }
            }
        }
    }

    /// Ends a turn of an earlier process that cannot continue.
    async fn settle_turn(&mut self, continued: &ContinuedTurn) {
        self.unsent.continue_turn(&continued.turn, continued.started, continued.last_message());
        let records = self.note_unread(continued.id(), continued.settled());
        if let Err(error) = self.store_or_keep(records).await {
            tracing::error!(thread = %self.state.id, "failed to store the end of a turn, will retry: {error}");
        }
        self.state.history = continued.settled_history(&self.state.history);
        for item in continued.open_items() {
            self.notifier.item_restored(continued.id(), &item);
            self.announce_item(continued.id(), &cut_off(item), ItemStart::Sent);
        }
        self.announce_unseen_input();
        let status = TurnStatus::Interrupted;
        count_turn(TurnEnd::InterruptedByRestart, None);
        self.announce_read_state();
        self.set_status(ThreadStatus::Idle);
        self.announce_turn_completed(Turn { status, ..Turn::in_progress(continued.id().clone()) });
    }
}

fn call_id(item: &ResponseItem) -> Option<&str> {
    match item {
        ResponseItem::FunctionCall { call_id, .. } | ResponseItem::CustomToolCall { call_id, .. } => {
            Some(call_id)
        }
        _ => None,
    }
}
