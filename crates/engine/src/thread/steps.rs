//! What a running turn reports: written, then said.

use codicil_protocol::{
    AccountRateLimitsUpdated, AccountRateLimitsUpdatedNotification, CodexErrorInfo, ErrorNotification,
    ErrorReported, ModelRerouteReason, ModelRerouted, ModelReroutedNotification, RawResponseItemCompleted,
    RawResponseItemCompletedNotification, ResponseItem, ThreadItem, ThreadTokenUsage,
    ThreadTokenUsageUpdated, ThreadTokenUsageUpdatedNotification, TokenUsageBreakdown, TurnError, TurnId,
};
use codicil_store::Record;

use super::{actor::ThreadActor, input::context_record};
use crate::{error::ThreadError, step::TurnEvent};

impl ThreadActor {
    pub(super) async fn on_steps(&mut self, steps: Vec<TurnEvent>) {
        let Some(turn) = self.active.as_ref().map(|active| active.id.clone()) else { return };
        for step in steps {
            self.on_step(&turn, step).await;
        }
    }

    pub(super) async fn on_step(&mut self, turn: &TurnId, step: TurnEvent) {
        match step {
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
            TurnEvent::Ask { asking, reply } => self.on_ask(asking, reply),
            // Whoever asked may have been cancelled meanwhile.
            TurnEvent::Conversation(reply) => drop(reply.send(self.state.history.snapshot())),
            TurnEvent::Settled(reply) => drop(reply.send(())),
            TurnEvent::Answered(id) => self.on_answered(&id),
            // A turn that was aborted meanwhile copies nothing.
            TurnEvent::Inherit(reply) => drop(reply.send(self.inheritance())),
            TurnEvent::Next { follow_up, reply } => {
                let request = self.next_request(turn, follow_up).await;
                // A turn that was aborted meanwhile asks no more.
                let _ = reply.send(request);
            }
        }
    }

    fn on_started(&mut self, turn: &TurnId, item: ThreadItem) {
        self.say_started(turn, &item);
        if let (Some(active), Some(id)) = (&mut self.active, item.id()) {
            active.open.insert(id.clone(), item);
        }
    }

    async fn on_completed(&mut self, turn: &TurnId, item: ThreadItem, context: Vec<ResponseItem>) {
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
