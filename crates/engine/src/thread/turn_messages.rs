//! Handles what turns and background commands send to their thread. Everything is stored before clients see it.

use std::collections::BTreeSet;

use codicil_protocol::{
    AccountRateLimitsUpdated, AccountRateLimitsUpdatedNotification, CodexErrorInfo, ItemId,
    ModelRerouteReason, ModelRerouted, ModelReroutedNotification, ResponseItem, ThreadBackgroundTerminal,
    ThreadItem, ThreadTokenUsage, TokenUsageBreakdown, TurnError, TurnId, TurnPlanUpdated, UserInput,
};
use codicil_store::{Record, StoredPlan};

use super::{
    active_turn::ActiveTurn, actor::ThreadActor, announce::ItemStart, finish::cut_off, input::context_record,
    notifier::Retry, open_questions::QuestionKind, turn_count::count_tokens,
};
use crate::{
    error::ThreadError,
    turn_channel::{BackgroundCommandEnd, TurnEvent, TurnMessage, TurnMessageBody, TurnQuery},
};

/// An event of a turn that is stored before clients see it.
enum StoredEvent {
    /// A complete item, with what it adds to the model's history.
    Item {
        item: ThreadItem,
        context: Vec<ResponseItem>,
    },
    /// Additions to the model's history that have no item.
    Context(Vec<ResponseItem>),
    /// The usage of the thread after a response.
    Usage(ThreadTokenUsage),
    Plan(StoredPlan),
}

impl StoredEvent {
    /// Returns what the event adds to the model's history.
    fn into_context(self) -> Vec<ResponseItem> {
        match self {
            Self::Item { context, .. } | Self::Context(context) => context,
            Self::Usage(_) | Self::Plan(_) => Vec::new(),
        }
    }
}

impl ThreadActor {
    pub(super) async fn on_turn_message(&mut self, message: TurnMessage) {
        let TurnMessage { turn_id, body } = message;
        match body {
            TurnMessageBody::BackgroundCommandEnded(end) => {
                self.on_background_command_ended(&turn_id, *end).await
            }
            late if !self.is_active(&turn_id) => self.on_late_message(late),
            TurnMessageBody::Events(events) => self.on_turn_events(&turn_id, events).await,
            TurnMessageBody::Query(query) => self.on_turn_query(&turn_id, query).await,
            TurnMessageBody::Question(request) => self.on_question(*request).await,
            TurnMessageBody::ShellCommandEnded => {
                self.on_turn_part_ended(ActiveTurn::shell_command_ended).await;
            }
            TurnMessageBody::Ended(outcome) => {
                self.on_turn_part_ended(|active| active.task_ended(*outcome)).await;
            }
        }
    }

    /// Stores a record from which the positions of messages continue, before the numbers after the last record run out.
    pub(super) async fn continue_positions(&mut self) {
        if self.notifier.is_crowded() && self.store_or_fail_turn(vec![Record::position()]).await {
            self.notifier.advance(self.last_ordinal());
        }
    }

    /// Handles the messages that are in the channel now.
    pub(super) async fn handle_queued_messages(&mut self) {
        while let Ok(message) = self.turn_messages.try_recv() {
            self.on_turn_message(message).await;
        }
    }

    fn is_active(&self, turn: &TurnId) -> bool {
        self.active.as_ref().is_some_and(|active| active.id == *turn)
    }

    /// Handles a message of a turn that has ended. Only the output of its background commands still counts. Dropping
    /// a query or question is the answer for a turn that is over.
    fn on_late_message(&self, body: TurnMessageBody) {
        let TurnMessageBody::Events(events) = body else { return };
        for event in events {
            if let TurnEvent::Notification(frame) = event {
                self.notifier.send(frame);
            }
        }
    }

    async fn on_turn_query(&mut self, turn: &TurnId, query: TurnQuery) {
        // A turn that was aborted meanwhile does not wait for the reply.
        match query {
            TurnQuery::NextAction { follow_up, reply } => {
                let next = self.next_action(turn, follow_up).await;
                let _ = reply.send(next);
            }
            TurnQuery::History(reply) => drop(reply.send(self.state.history.snapshot())),
            TurnQuery::Stored(reply) => drop(reply.send(())),
            TurnQuery::Begin { call_id, item, reply } => self.on_begin(turn, call_id, item, reply).await,
            TurnQuery::Goal { request, reply } => {
                let report = self.on_goal_request(turn, request).await;
                let _ = reply.send(report);
            }
            TurnQuery::InheritedHistory(reply) => drop(reply.send(self.inherited_history())),
        }
    }

    /// Handles events in order. Those that are stored and follow each other are one append.
    async fn on_turn_events(&mut self, turn: &TurnId, events: Vec<TurnEvent>) {
        let mut unstored = Vec::new();
        for event in events {
            if !event.is_stored() {
                self.store_events(turn, std::mem::take(&mut unstored)).await;
            }
            self.on_turn_event(turn, event, &mut unstored).await;
        }
        self.store_events(turn, unstored).await;
    }

    /// Handles an event, or adds it to those that are stored next.
    async fn on_turn_event(&mut self, turn: &TurnId, event: TurnEvent, unstored: &mut Vec<StoredEvent>) {
        match event {
            TurnEvent::Completed { item, context } => {
                unstored.push(StoredEvent::Item { item: *item, context })
            }
            TurnEvent::Context(items) => unstored.push(StoredEvent::Context(items)),
            TurnEvent::Used(last) => unstored.extend(self.usage_event(last)),
            TurnEvent::Planned(plan) => unstored.push(StoredEvent::Plan(plan)),
            TurnEvent::Notification(frame) => self.notifier.send(frame),
            TurnEvent::Started(item) => self.on_item_started(turn, *item),
            TurnEvent::CommandAsked(item) => self.on_command_asked(turn, *item),
            TurnEvent::Discarded(item) => {
                self.forget_open_item(&item);
                self.announce_discarded(turn, &item);
                self.engine.realtime.item_completed(&self.state.id, turn, &item);
            }
            TurnEvent::Withdrawn(items) => {
                let records = items.iter().map(|item| Record::withdrawn(turn, item)).collect();
                if self.store_or_fail_turn(records).await {
                    self.notifier.invalidate(self.last_ordinal());
                }
            }
            TurnEvent::Notice(items) => {
                if let Some(active) = &mut self.active {
                    active.add_notices(items);
                }
            }
            TurnEvent::RateLimits(rate_limits) => {
                let params = AccountRateLimitsUpdatedNotification { rate_limits: *rate_limits };
                self.engine.clients.broadcast::<AccountRateLimitsUpdated>(&params);
            }
            TurnEvent::Rerouted(to_model) => self.on_rerouted(turn, to_model),
            TurnEvent::Retrying(error) => self.notifier.error(turn, error, Retry::Planned),
            TurnEvent::Compacted { item, summary } => self.on_compacted(turn, item, &summary).await,
            TurnEvent::Offered(tools) => {
                if let Some(active) = &mut self.active {
                    active.offered = tools;
                }
            }
            TurnEvent::Failed(error) => {
                if let Some(active) = &mut self.active {
                    active.fail(error);
                }
            }
        }
    }

    fn on_item_started(&mut self, turn: &TurnId, item: ThreadItem) {
        let restored = self.active.as_mut().map(|active| &mut active.restored_items);
        let is_known = restored.zip(item.id()).is_some_and(|(restored, id)| restored.remove(id));
        // Clients have seen it start before a restart.
        if !is_known {
            self.notifier.item_started(turn, &item);
        }
        self.open_item(turn, item);
    }

    /// Shows a command that waits for an approval. The status says so before the item is there.
    fn on_command_asked(&mut self, turn: &TurnId, item: ThreadItem) {
        self.update_waiting_status(Some(QuestionKind::Approval));
        let restored = self.active.as_mut().map(|active| &mut active.restored_items);
        let is_known = restored.zip(item.id()).is_some_and(|(restored, id)| restored.remove(id));
        if !is_known {
            self.notifier.command_asked(turn, &item);
        }
        self.open_item(turn, item);
    }

    /// Keeps an item that has started until it is complete.
    pub(super) fn open_item(&mut self, turn: &TurnId, item: ThreadItem) {
        let Some(id) = item.id().cloned() else { return };
        if let ThreadItem::CommandExecution { .. } = item {
            self.commands.insert(id, turn.clone(), item);
        } else if let Some(active) = &mut self.active {
            active.open_items.insert(id, item);
        }
    }

    async fn on_item_completed(&mut self, turn: &TurnId, item: ThreadItem) {
        self.store_events(turn, vec![StoredEvent::Item { item, context: Vec::new() }]).await;
    }

    /// Stores events in one append, then announces them.
    async fn store_events(&mut self, turn: &TurnId, events: Vec<StoredEvent>) {
        if events.is_empty() {
            return;
        }
        let mut records = Vec::new();
        for event in &events {
            if let StoredEvent::Item { item, .. } = event {
                self.note_completed(item);
            }
            self.add_records(turn, event, &mut records);
        }
        let is_stored = self.store_or_fail_turn(records).await;
        for event in events {
            if is_stored {
                self.announce_event(turn, &event);
            }
            if let StoredEvent::Usage(usage) = &event {
                self.charge_goal(turn, &usage.last).await;
            }
            self.extend_history(event.into_context());
        }
    }

    fn note_completed(&mut self, item: &ThreadItem) {
        if let (ThreadItem::CommandExecution { .. }, Some(id)) = (item, item.id()) {
            self.commands.remove(id);
        }
        if let (Some(active), ThreadItem::AgentMessage { text, .. }) = (&mut self.active, item) {
            active.last_message = Some(text.clone());
        }
    }

    fn add_records(&self, turn: &TurnId, event: &StoredEvent, records: &mut Vec<Record>) {
        let turn_id = turn.clone();
        match event {
            StoredEvent::Item { item, context } => {
                records.extend(self.context_records(turn, context));
                records.push(Record::Item { turn_id, item: item.clone() });
            }
            StoredEvent::Context(items) => records.extend(self.context_records(turn, items)),
            StoredEvent::Usage(usage) => records.push(Record::Usage { turn_id, usage: usage.clone() }),
            StoredEvent::Plan(plan) => records.push(Record::plan(plan)),
        }
    }

    fn announce_event(&mut self, turn: &TurnId, event: &StoredEvent) {
        match event {
            StoredEvent::Item { item, context } => {
                self.emit_completed(turn, item);
                self.notifier.raw_items(turn, context);
            }
            StoredEvent::Context(items) => self.notifier.raw_items(turn, items),
            StoredEvent::Usage(usage) => self.notifier.token_usage(turn, usage),
            StoredEvent::Plan(plan) => {
                let params = plan.clone().into_notification(self.state.id.clone());
                self.notifier.notify::<TurnPlanUpdated>(&params);
            }
        }
    }

    /// Announces an item that is complete when it starts.
    pub(super) fn emit_item(&mut self, turn: &TurnId, item: &ThreadItem) {
        if let (Some(active), ThreadItem::UserMessage { content, .. }) = (&mut self.active, item) {
            active.input_texts.extend(content.iter().filter_map(|part| match part {
                UserInput::Text { text, .. } => Some(text.clone()),
                _ => None,
            }));
        }
        self.forget_open_item(item);
        self.announce_item(turn, item, ItemStart::Unsent);
        self.engine.realtime.item_completed(&self.state.id, turn, item);
    }

    /// Announces the end of an item whose start clients have seen.
    pub(super) fn emit_completed(&mut self, turn: &TurnId, item: &ThreadItem) {
        self.forget_open_item(item);
        self.announce_item(turn, item, ItemStart::Sent);
        self.engine.realtime.item_completed(&self.state.id, turn, item);
    }

    fn forget_open_item(&mut self, item: &ThreadItem) {
        if let (Some(active), Some(id)) = (&mut self.active, item.id()) {
            active.open_items.remove(id);
        }
    }

    /// Returns the records of additions to the history. A reviewer's history is not stored with the thread.
    fn context_records(&self, turn: &TurnId, items: &[ResponseItem]) -> Vec<Record> {
        if self.is_reviewing() {
            return Vec::new();
        }
        items.iter().map(|item| context_record(turn, item)).collect()
    }

    /// Extends the history of the running turn: the reviewer's in a review, else the thread's.
    fn extend_history(&mut self, items: Vec<ResponseItem>) {
        if let Some(active) = &mut self.active {
            active.calls.note(&items);
        }
        match self.active.as_mut().and_then(|active| active.review.as_mut()) {
            Some(review) => review.extend_history(items),
            None => self.state.remember(items),
        }
    }

    pub(super) fn is_reviewing(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.review.is_some())
    }

    /// Adds the usage of a response to that of the thread. `None` for a reviewer's, whose tokens do not fill the thread's
    /// context window.
    fn usage_event(&mut self, last: TokenUsageBreakdown) -> Option<StoredEvent> {
        count_tokens(&last);
        if self.is_reviewing() {
            return None;
        }
        let usage = ThreadTokenUsage {
            total: sum(&self.state.usage.total, &last),
            last,
            model_context_window: self.context_window(),
        };
        self.state.usage = usage.clone();
        Some(StoredEvent::Usage(usage))
    }

    fn on_rerouted(&self, turn: &TurnId, to_model: String) {
        self.notifier.notify::<ModelRerouted>(&ModelReroutedNotification {
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
            from_model: self.state.settings.model.clone(),
            to_model,
            reason: ModelRerouteReason::HighRiskCyberActivity,
        });
    }

    /// Completes the item of a background command, then releases the tool call that waits for its end.
    async fn on_background_command_ended(&mut self, turn: &TurnId, end: BackgroundCommandEnd) {
        self.on_item_completed(turn, end.item).await;
        let terminal = self.tools.terminals().remove(&end.session);
        if let Some(terminal) = terminal {
            terminal.completed.cancel();
        }
        self.forget_recent_if_idle();
    }

    /// Returns the commands that have outlived their tool calls, oldest first.
    pub(super) fn background_terminals(&self) -> Vec<ThreadBackgroundTerminal> {
        let terminals = self.tools.terminals();
        let mut listed: Vec<_> = terminals.iter().collect();
        listed.sort_unstable_by_key(|(session, _)| session.0);
        let views = listed.into_iter();
        views
            .filter_map(|(session, terminal)| self.commands.background_terminal(*session, terminal))
            .collect()
    }

    /// Ends a background command; its end is reported like any other. Returns false if it does not run.
    pub(super) fn end_terminal(&self, process: &str) -> bool {
        let terminals = self.tools.terminals();
        let Some(session) = terminals.keys().find(|session| session.to_string() == process).copied() else {
            return false;
        };
        let tools = self.tools.clone();
        // Ends with the command.
        tokio::spawn(async move { tools.engine.terminals.end(&tools.owner, session).await });
        true
    }

    /// Returns the items of commands that have outlived their tool calls.
    pub(super) fn background_items(&self) -> BTreeSet<ItemId> {
        self.tools.terminals().values().map(|terminal| terminal.item.clone()).collect()
    }

    /// Completes the commands of an ended turn, except for those in the background.
    pub(super) async fn cut_off_foreground_commands(&mut self) {
        let background = self.background_items();
        let lost = self.commands.take_if(|id| !background.contains(id));
        self.cut_off_commands(lost).await;
    }

    /// Completes the items of all commands. Nothing more is heard of them.
    pub(super) async fn cut_off_all_commands(&mut self) {
        let lost = self.commands.take_if(|_| true);
        self.cut_off_commands(lost).await;
    }

    async fn cut_off_commands(&mut self, lost: Vec<(TurnId, ThreadItem)>) {
        for (turn, item) in lost {
            self.on_item_completed(&turn, cut_off(item)).await;
        }
    }

    /// Stores what a turn did, and stops the turn if that fails. Returns whether it is stored.
    pub(super) async fn store_or_fail_turn(&mut self, records: Vec<Record>) -> bool {
        // Each attempt may wait for a locked file, so a turn that cannot be stored makes only one.
        if self.active.as_ref().is_some_and(|active| active.is_store_failing) {
            return false;
        }
        let Err(error) = self.store(records).await else { return true };
        self.fail_turn(&error);
        false
    }

    /// Waits until what a turn did is durable, and stops the turn if that fails: something follows from it that a power cut
    /// does not take back. Returns whether it is durable.
    pub(super) async fn sync_or_fail_turn(&mut self) -> bool {
        let Some(log) = &self.state.log else { return true };
        let Err(error) = log.sync().await else { return true };
        self.fail_turn(&error.into());
        false
    }

    pub(super) fn fail_turn(&mut self, error: &ThreadError) {
        tracing::error!(thread = %self.state.id, "stopping the turn, failed to store its records: {error}");
        if let Some(active) = &mut self.active {
            active.is_store_failing = true;
            active.fail(TurnError {
                message: error.to_string(),
                codex_error_info: Some(CodexErrorInfo::Other),
                additional_details: None,
                misalignment: None,
            });
        }
    }
}

fn sum(a: &TokenUsageBreakdown, b: &TokenUsageBreakdown) -> TokenUsageBreakdown {
    TokenUsageBreakdown {
        total_tokens: a.total_tokens.saturating_add(b.total_tokens),
        input_tokens: a.input_tokens.saturating_add(b.input_tokens),
        cached_input_tokens: a.cached_input_tokens.saturating_add(b.cached_input_tokens),
        cache_write_input_tokens: a.cache_write_input_tokens.saturating_add(b.cache_write_input_tokens),
        output_tokens: a.output_tokens.saturating_add(b.output_tokens),
        reasoning_output_tokens: a.reasoning_output_tokens.saturating_add(b.reasoning_output_tokens),
    }
}
