//! What a running turn reports: written, then said.

use codicil_protocol::{
    AccountRateLimitsUpdated, AccountRateLimitsUpdatedNotification, CodexErrorInfo, ErrorNotification,
    ErrorReported, ModelRerouteReason, ModelRerouted, ModelReroutedNotification, RawResponseItemCompleted,
    RawResponseItemCompletedNotification, ResponseItem, ThreadItem, ThreadTokenUsage,
    ThreadTokenUsageUpdated, ThreadTokenUsageUpdatedNotification, TokenUsageBreakdown, TurnError, TurnId,
};
use codicil_store::Record;

use super::{active::ActiveTurn, actor::ThreadActor, input::context_record};
use crate::{
    error::ThreadError,
    step::{TurnEvent, TurnMessage, TurnMessageBody, TurnQuery},
};

impl ThreadActor {
    pub(super) async fn on_turn_message(&mut self, message: TurnMessage) {
        let TurnMessage { turn_id, body } = message;
        match body {
            TurnMessageBody::BackgroundCommandEnded(end) => {
                self.on_background_command_ended(&turn_id, *end).await
            }
            late if !self.is_active(&turn_id) => self.on_late_message(late),
            TurnMessageBody::Events(events) => {
                for event in events {
                    self.on_turn_event(&turn_id, event).await;
                }
            }
            TurnMessageBody::Query(query) => self.on_turn_query(&turn_id, query).await,
            TurnMessageBody::Question(request) => self.on_question(*request),
            TurnMessageBody::ShellCommandEnded => {
                self.on_turn_part_ended(ActiveTurn::shell_command_ended).await
            }
            TurnMessageBody::Ended(outcome) => {
                self.on_turn_part_ended(|active| active.task_ended(*outcome)).await;
            }
        }
    }

    fn is_active(&self, turn: &TurnId) -> bool {
        self.active.as_ref().is_some_and(|active| active.id == *turn)
    }

    /// Handles a message of a turn that has ended. Only the output of its background commands still counts; a query
    /// or question is dropped, which is the answer for a turn that is over.
    fn on_late_message(&self, body: TurnMessageBody) {
        let TurnMessageBody::Events(events) = body else { return };
        for event in events {
            if let TurnEvent::Told(frame) = event {
                self.tell(&frame);
            }
        }
    }

    async fn on_turn_query(&mut self, turn: &TurnId, query: TurnQuery) {
        // A turn that was aborted meanwhile does not wait for the reply.
        match query {
            TurnQuery::NextAction { follow_up, reply } => {
                let next = self.next_request(turn, follow_up).await;
                let _ = reply.send(next);
            }
            TurnQuery::History(reply) => drop(reply.send(self.state.history.snapshot())),
            TurnQuery::InheritedHistory(reply) => drop(reply.send(self.inheritance())),
        }
    }

    pub(super) async fn on_turn_event(&mut self, turn: &TurnId, event: TurnEvent) {
        match event {
            TurnEvent::Told(frame) => self.tell(&frame),
            TurnEvent::Started(item) => self.on_started(turn, item),
            TurnEvent::Completed { item, context } => self.on_completed(turn, item, context).await,
            TurnEvent::Context(items) => self.on_context(turn, items).await,
            TurnEvent::Notice(items) => {
                if let Some(active) = &mut self.active {
                    active.notices.extend(items);
                }
            }
            TurnEvent::Used(last) => self.on_usage(turn, last).await,
            TurnEvent::RateLimits(rate_limits) => {
                let params = AccountRateLimitsUpdatedNotification { rate_limits: *rate_limits };
                self.world.audience.broadcast::<AccountRateLimitsUpdated>(&params);
            }
            TurnEvent::Rerouted(to_model) => self.on_rerouted(turn, to_model),
            TurnEvent::Retrying(error) => self.report_error(turn, error, true),
            TurnEvent::Compacted { item, summary } => self.on_compacted(turn, item, &summary).await,
            TurnEvent::Offered(tools) => {
                if let Some(active) = &mut self.active {
                    active.offered = tools;
                }
            }
        }
    }

    fn on_started(&mut self, turn: &TurnId, item: ThreadItem) {
        self.say_started(turn, &item);
        let Some(id) = item.id().cloned() else { return };
        if let ThreadItem::CommandExecution { .. } = item {
            self.commands.insert(id, (turn.clone(), item));
        } else if let Some(active) = &mut self.active {
            active.open.insert(id, item);
        }
    }

    pub(super) async fn on_completed(&mut self, turn: &TurnId, item: ThreadItem, context: Vec<ResponseItem>) {
        if let (ThreadItem::CommandExecution { .. }, Some(id)) = (&item, item.id()) {
            self.commands.remove(id);
        }
        if let (Some(active), ThreadItem::AgentMessage { text, .. }) = (&mut self.active, &item) {
            active.last_words = Some(text.clone());
        }
        let mut records = self.context_records(turn, &context);
        records.push(Record::Item { turn_id: turn.clone(), item: item.clone() });
        if self.keep(records).await {
            self.say_completed(turn, &item);
            self.say_raw(turn, &context);
        }
        self.remember(context);
    }

    /// What a reviewer sees is not part of the thread, and so not written with it.
    fn context_records(&self, turn: &TurnId, items: &[ResponseItem]) -> Vec<Record> {
        if self.is_reviewing() {
            return Vec::new();
        }
        items.iter().map(|item| context_record(turn, item)).collect()
    }

    /// Adds to the conversation that the running turn is about.
    fn remember(&mut self, items: Vec<ResponseItem>) {
        let Some(review) = self.active.as_mut().and_then(|active| active.review.as_mut()) else {
            return self.state.remember(items);
        };
        let said = items.iter().rfind(|item| matches!(item, ResponseItem::Message { .. }));
        if let Some(said) = said {
            review.answer = Some(codicil_prompts::message_text(said));
        }
        review.history.extend(items);
    }

    pub(super) fn is_reviewing(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.review.is_some())
    }

    pub(super) async fn on_context(&mut self, turn: &TurnId, items: Vec<ResponseItem>) {
        if self.keep(self.context_records(turn, &items)).await {
            self.say_raw(turn, &items);
        }
        self.remember(items);
    }

    async fn on_usage(&mut self, turn: &TurnId, last: TokenUsageBreakdown) {
        // A reviewer's tokens say nothing of how full the thread is.
        if self.is_reviewing() {
            return;
        }
        let usage = ThreadTokenUsage {
            total: sum(&self.state.usage.total, &last),
            last,
            model_context_window: self.context_window(),
        };
        self.state.usage = usage.clone();
        if self.keep(vec![Record::Usage { turn_id: turn.clone(), usage }]).await {
            self.say_usage(turn);
        }
    }

    /// For those who joined since it was said last.
    pub(super) fn say_usage_again(&mut self, turn: &TurnId) {
        if std::mem::take(&mut self.state.usage_unsaid) && self.state.usage.total.total_tokens > 0 {
            self.say_usage(turn);
        }
    }

    pub(super) fn say_usage(&self, turn: &TurnId) {
        self.notify::<ThreadTokenUsageUpdated>(&ThreadTokenUsageUpdatedNotification {
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
            token_usage: self.state.usage.clone(),
        });
    }

    fn on_rerouted(&self, turn: &TurnId, to_model: String) {
        self.notify::<ModelRerouted>(&ModelReroutedNotification {
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
            from_model: self.state.settings.model.clone(),
            to_model,
            reason: ModelRerouteReason::HighRiskCyberActivity,
        });
    }

    pub(super) fn report_error(&self, turn: &TurnId, error: TurnError, will_retry: bool) {
        self.notify::<ErrorReported>(&ErrorNotification {
            error,
            will_retry,
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
        });
    }

    /// Raw items, for threads that asked for them.
    pub(super) fn say_raw(&self, turn: &TurnId, items: &[ResponseItem]) {
        if !self.state.raw_events {
            return;
        }
        for item in items {
            self.notify::<RawResponseItemCompleted>(&RawResponseItemCompletedNotification {
                thread_id: self.state.id.clone(),
                turn_id: turn.clone(),
                item: item.clone(),
            });
        }
    }

    /// Writes what a turn did. When that fails the turn must not go on: nobody could tell what it did.
    pub(super) async fn keep(&mut self, records: Vec<Record>) -> bool {
        let Err(error) = self.store(records).await else { return true };
        self.fail_turn(&error);
        false
    }

    pub(super) fn fail_turn(&mut self, error: &ThreadError) {
        tracing::error!(thread = %self.state.id, "a turn cannot go on: {error}");
        if let Some(active) = &mut self.active {
            active.failure.get_or_insert(TurnError {
                message: error.to_string(),
                codex_error_info: Some(CodexErrorInfo::Other),
                additional_details: None,
            });
            active.cancel.cancel();
        }
    }
}

fn sum(a: &TokenUsageBreakdown, b: &TokenUsageBreakdown) -> TokenUsageBreakdown {
    TokenUsageBreakdown {
        total_tokens: a.total_tokens.saturating_add(b.total_tokens),
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        cached_input_tokens: a.cached_input_tokens.saturating_add(b.cached_input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        reasoning_output_tokens: a.reasoning_output_tokens.saturating_add(b.reasoning_output_tokens),
    }
}
