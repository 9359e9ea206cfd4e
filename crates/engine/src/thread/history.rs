//! Changes to the thread's history other than by the items of a turn: compaction, notices, rollback. Also the copy
//! that a subagent starts with.

use codicil_model::{ModelRequest, ToolList};
use codicil_prompts::ContextSnapshot;
use codicil_protocol::{
    ContextCompactedNotification, ItemId, Personality, ResponseItem, Thread, ThreadCompacted, ThreadItem,
    TokenUsageBreakdown, TurnId, complete_tool_calls,
};
use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply,
    actor::{ThreadActor, answer},
    input::context_record,
};
use crate::{
    error::{RollbackError, ThreadError},
    ids::new_turn_id,
    settings_forms::StoredContext,
};

/// The share of the context window at which the history is compacted, unless the configuration sets a limit.
const COMPACT_AT_PERCENT: i64 = 90;

/// The history that a subagent with its parent's full context starts with.
#[derive(Debug)]
pub(crate) struct InheritedHistory {
    pub history: Vec<ResponseItem>,
    pub context: Option<ContextSnapshot>,
    pub first_personality: Option<Personality>,
}

impl ThreadActor {
    /// Returns whether the history has to be compacted before the next request.
    pub(super) fn is_too_long(&self) -> bool {
        let limit =
            self.state.config.settings.model_auto_compact_token_limit.or_else(|| {
                self.context_window().map(|window| window.saturating_mul(COMPACT_AT_PERCENT) / 100)
            });
        limit.is_some_and(|limit| self.state.usage.last.total_tokens >= limit)
    }

    /// Returns a request for a summary of the history. It offers no tools.
    pub(super) fn compaction_request(&mut self, turn: &TurnId) -> ModelRequest {
        let mut request = self.request(turn);
        let own = self.state.config.settings.compact_prompt.as_deref();
        let prompt = codicil_prompts::user_text_message(own.unwrap_or(codicil_prompts::COMPACTION_PROMPT));
        request.input.extend([prompt]);
        request.tools = ToolList::default();
        request.output_schema = None;
        request
    }

    /// Replaces the history by its summary.
    pub(super) async fn on_compacted(&mut self, turn: &TurnId, item: ItemId, summary: &str) {
        // The context messages are dropped with the history, so all of them are added again.
        self.state.context = None;
        let context = self.context_messages().await;
        let history = self.state.history.iter().map(|item| item.item());
        let user_messages = codicil_prompts::user_messages(history);
        let replacement = codicil_prompts::compacted_history(user_messages, summary, context);
        let item = ThreadItem::ContextCompaction { id: item };
        let mut records =
            vec![Record::Compaction { turn_id: turn.clone(), replacement: replacement.clone() }];
        records.extend(self.state.settings_record());
        records.push(Record::Item { turn_id: turn.clone(), item: item.clone() });
        if !self.store_or_fail_turn(records).await {
            return;
        }
        self.state.history = replacement.into_iter().collect();
        // The provider's count was of the longer history.
        self.state.usage.last = self.estimate_usage();
        self.notifier.token_usage(turn, &self.state.usage);
        self.emit_completed(turn, &item);
        let params = ContextCompactedNotification { thread_id: self.state.id.clone(), turn_id: turn.clone() };
        self.notifier.notify::<ThreadCompacted>(&params);
        if let Some(active) = &mut self.active {
            active.was_compacted = true;
        }
    }

    /// Adds a notice to the next request of the running turn, or to the history if there is no turn.
    pub(super) async fn on_notice(&mut self, item: ResponseItem) {
        if let Some(active) = &mut self.active {
            return active.add_notice(item);
        }
        if let Err(error) = self.store(vec![Record::Context { turn_id: None, item: item.clone() }]).await {
            tracing::error!(thread = %self.state.id, "failed to store a notice: {error}");
        }
        self.state.remember([item]);
    }

    /// Moves the notices that have arrived since the last request to the history.
    pub(super) async fn take_notices(&mut self, turn: &TurnId) {
        if self.is_reviewing() {
            return;
        }
        let Some(notices) = self.active.as_mut().map(|active| active.take_notices()) else { return };
        let records = notices.iter().map(|item| context_record(turn, item)).collect();
        if self.store_or_fail_turn(records).await {
            self.notifier.raw_items(turn, &notices);
        }
        self.state.remember(notices);
    }

    pub(super) fn inherited_history(&self) -> InheritedHistory {
        let history = self.state.history.iter().map(|item| item.item().clone()).collect();
        InheritedHistory {
            history: complete_tool_calls(history),
            context: self.state.context.clone(),
            first_personality: self.state.first_personality,
        }
    }

    pub(super) async fn on_rollback(&mut self, turns: u32, reply: CommandReply<AnnouncedReply<Thread>>) {
        match self.roll_back(turns).await {
            Ok(thread) => {
                // Before the answer, so that a client that leaves after it has seen everything. The usage belongs to
                // no turn, so it has an id of its own.
                if self.state.usage.total.total_tokens > 0 {
                    self.notifier.token_usage(&new_turn_id(), &self.state.usage);
                }
                self.accept(reply, thread).await;
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// Stores the rollback and reloads the history from the store, which knows what belongs to which turn.
    async fn roll_back(&mut self, turns: u32) -> Result<Thread, ThreadError> {
        if turns == 0 {
            return Err(RollbackError::NoTurns.into());
        }
        if self.active.is_some() {
            return Err(RollbackError::TurnRunning.into());
        }
        if self.state.log.is_none() {
            return Err(RollbackError::Ephemeral.into());
        }
        self.store(vec![Record::Rollback { turns }]).await.map_err(rollback_failure)?;
        let loaded = self.engine.store.load(&self.state.id).await.map_err(RollbackError::Store)?;
        let kept = loaded.thread.turns();
        self.state.history = loaded.history.into_iter().collect();
        // Settings of dropped turns stay in force, but the model no longer has the messages about them.
        self.state.context = loaded.thread.known_settings.as_ref().and_then(StoredContext::read_context);
        if !self.state.history.iter().any(|item| codicil_prompts::is_context_message(item.item())) {
            self.state.context = None;
        }
        self.state.usage.last = self.estimate_usage();
        let usage = self.state.usage.clone();
        self.store(vec![Record::Usage { turn_id: new_turn_id(), usage }]).await.map_err(rollback_failure)?;
        Ok(Thread { turns: kept, ..self.state.view() })
    }

    /// Estimates the size of a history that has become shorter than what the provider counted.
    fn estimate_usage(&self) -> TokenUsageBreakdown {
        let tokens: u64 =
            self.state.history.iter().map(|item| codicil_prompts::approx_tokens(item.item())).sum();
        TokenUsageBreakdown {
            total_tokens: i64::try_from(tokens).unwrap_or(i64::MAX),
            ..TokenUsageBreakdown::default()
        }
    }
}

/// Marks a failure of the store as one of the rollback.
fn rollback_failure(error: ThreadError) -> ThreadError {
    match error {
        ThreadError::Store(error) => RollbackError::Store(error).into(),
        other => other,
    }
}
