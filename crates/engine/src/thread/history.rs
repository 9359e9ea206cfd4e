//! Changes to the thread's history other than by the items of a turn: compaction, notices, injected items, rollback,
//! revert. Also the copy that a subagent starts with.

use codicil_model::{ModelRequest, ToolList};
use codicil_prompts::ContextSnapshot;
use codicil_protocol::{
    ContentImage, ContentItem, ContextCompactedNotification, FunctionCallOutputBody,
    FunctionCallOutputContentItem, InspectFindings, ItemId, Personality, ResponseItem, Thread,
    ThreadCompacted, ThreadItem, ThreadReverted, ThreadRevertedNotification, ThreadStatus,
    TokenUsageBreakdown, TurnId, complete_tool_calls,
};
use codicil_store::{LoadedThread, Record, StoredThread};
use serde_json::Value;

use super::{
    AnnouncedReply, CommandReply, RevertedThread,
    actor::{ThreadActor, answer},
    input::context_record,
};
use crate::{
    clock::unix_now,
    error::{InjectError, RevertError, RollbackError, ThreadError},
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
        let mut replacement = codicil_prompts::compacted_history(user_messages, summary, context);
        // Their records precede the compaction, which would drop them.
        replacement.extend(self.active.as_mut().map(|active| active.take_injected()).unwrap_or_default());
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

    /// Stores items of a client as part of the running or the last turn, with which they are dropped. A running turn gets
    /// them with its next request.
    pub(super) async fn on_inject(&mut self, items: Vec<ResponseItem>) -> Result<(), ThreadError> {
        let active_turn = self.active.as_ref().map(|active| active.id.clone());
        let turn_id = active_turn.or_else(|| self.state.last_turn.clone());
        let record = |item: &ResponseItem| Record::Context { turn_id: turn_id.clone(), item: item.clone() };
        let key = self.key_records(&())?;
        // The context of a new thread precedes everything else.
        let is_new = self.active.is_none() && self.state.context.is_none();
        let context = if is_new { self.context_messages().await } else { Vec::new() };
        let mut records: Vec<_> = context.iter().chain(&items).map(record).collect();
        if is_new {
            records.extend(self.state.settings_record());
        }
        records.extend(self.first_read_record());
        records.extend(key);
        if let Err(error) = self.store(records).await {
            if is_new {
                self.state.context = None;
            }
            return Err(error);
        }
        self.sync_later();
        self.state.remember(context);
        match &mut self.active {
            Some(active) => active.add_injected(items),
            None => self.state.remember(items),
        }
        Ok(())
    }

    /// Moves items that a client has added since the last request to the history.
    pub(super) fn take_injected(&mut self, turn: &TurnId) {
        if self.is_reviewing() {
            return;
        }
        let Some(items) = self.active.as_mut().map(|active| active.take_injected()) else { return };
        self.notifier.raw_items(turn, &items);
        self.state.remember(items);
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
                self.announce_read_state();
                self.accept(reply, thread).await;
                self.notifier.fall_behind();
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

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
        let key = self.key_records(&self.shown_thread().await)?;
        let kept = self.drop_turns(turns, key).await.map_err(rollback_failure)?;
        self.state.usage.last = self.estimate_usage();
        let usage = self.state.usage.clone();
        self.store(vec![Record::Usage { turn_id: new_turn_id(), usage }]).await.map_err(rollback_failure)?;
        Ok(Thread { turns: kept.turns(), ..self.shown_thread().await })
    }

    pub(super) async fn on_revert(
        &mut self,
        before: TurnId,
        reply: CommandReply<AnnouncedReply<RevertedThread>>,
    ) {
        match self.revert(before).await {
            Ok(reverted) => {
                // The reference server loads the thread again, and its clients see that.
                self.set_status(ThreadStatus::NotLoaded);
                self.announce_read_state();
                self.set_status(ThreadStatus::Idle);
                self.accept(reply, reverted).await;
                let thread_id = self.state.id.clone();
                self.notifier.notify::<ThreadReverted>(&ThreadRevertedNotification { thread_id });
                self.notifier.fall_behind();
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// Drops a turn and all after it. A running turn is interrupted first. The usage goes back to that of the turns that
    /// are left.
    async fn revert(&mut self, before: TurnId) -> Result<RevertedThread, ThreadError> {
        if self.state.log.is_none() {
            return Err(RevertError::Ephemeral.into());
        }
        let turns = self.engine.store.read(&self.state.id).await?.turns;
        let first_dropped = turns.iter().position(|turn| turn.id == before);
        let first_dropped = first_dropped.ok_or(RevertError::NoTurn(before))?;
        self.end_active_turn().await;
        let dropped = u32::try_from(turns.len().saturating_sub(first_dropped)).unwrap_or(u32::MAX);
        let items = turns.iter().take(first_dropped).map(|turn| turn.items.len()).sum();
        self.state.updated_at = unix_now();
        let reverted = RevertedThread { thread: self.shown_thread().await, turns: first_dropped, items };
        let key = self.key_records(&reverted)?;
        let kept = self.drop_turns(dropped, key).await?;
        self.sync_later();
        self.state.usage = kept.usage.map(|(_, usage)| usage).unwrap_or_default();
        Ok(reverted)
    }

    /// Stores the rollback, with the key of the request, and reloads the history from the store, which knows what belongs
    /// to which turn.
    async fn drop_turns(&mut self, turns: u32, key: Vec<Record>) -> Result<StoredThread, ThreadError> {
        self.store([Record::Rollback { turns }].into_iter().chain(key).collect()).await?;
        let LoadedThread { thread, history, .. } = self.engine.store.load(&self.state.id).await?;
        self.state.history = history.into_iter().collect();
        // Settings of dropped turns stay in force, but the model no longer has the messages about them.
        self.state.context = thread.known_settings.as_ref().and_then(StoredContext::read_context);
        if !self.state.history.iter().any(|item| codicil_prompts::is_context_message(item.item())) {
            self.state.context = None;
        }
        self.state.last_turn = thread.turns.last().map(|turn| turn.id.clone());
        if let Some(record) = self.unread_dropped_record(&thread.turns) {
            self.store(vec![record]).await?;
        }
        Ok(thread)
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

/// Reads the items of `thread/inject_items`. Kinds of items that this version does not know are accepted, and not sent to
/// models.
pub fn parse_injected_items(items: Vec<Value>) -> Result<Vec<ResponseItem>, InjectError> {
    if items.is_empty() {
        return Err(InjectError::NoItems);
    }
    let parse = |(index, item)| {
        let invalid = |reason: String| InjectError::InvalidItem { index, reason };
        let item: ResponseItem = serde_json::from_value(item).map_err(|error| invalid(error.to_string()))?;
        match InspectFindings::of(&item).unknown_value() {
            Some(reason) => Err(invalid(reason.to_owned())),
            None if has_remote_image(&item) => Err(InjectError::RemoteImage),
            None => Ok(item),
        }
    };
    items.into_iter().enumerate().map(parse).collect()
}

/// Returns whether an item has an image that the provider would have to fetch.
fn has_remote_image(item: &ResponseItem) -> bool {
    let is_remote = |source: &ContentImage| source.url().is_some_and(|url| !url.starts_with("data:"));
    match item {
        ResponseItem::Message { content, .. } => content
            .iter()
            .any(|part| matches!(part, ContentItem::InputImage { source, .. } if is_remote(source))),
        ResponseItem::FunctionCallOutput { output: FunctionCallOutputBody::Content(parts), .. }
        | ResponseItem::CustomToolCallOutput { output: FunctionCallOutputBody::Content(parts), .. } => {
            parts.iter().any(|part| {
                matches!(part, FunctionCallOutputContentItem::InputImage { source, .. } if is_remote(source))
            })
        }
        _ => false,
    }
}
