//! Ends turns: exactly once, whatever happened, with every item complete.

use std::time::Duration;

use codicil_metrics::labels::TurnEnd;
use codicil_protocol::{
    CodexErrorInfo, CollabAgentState, CollabAgentStatus, CollabAgentToolCallStatus, CommandExecutionStatus,
    DynamicToolCallStatus, McpToolCallStatus, PatchApplyStatus, ProtocolGeneration, ThreadItem, ThreadStatus,
    ThreadTokenUsage, TokenUsageBreakdown, Turn, TurnError, TurnId, TurnStatus,
};
use codicil_store::Record;

use super::{
    TurnKind,
    active_turn::ActiveTurn,
    actor::ThreadActor,
    input::context_record,
    read_state::TurnNews,
    turn_count::{InterruptCause, count_turn, turn_end},
};
use crate::{
    clock::{millis, unix_now},
    error::ThreadError,
    notify_program::TurnNotice,
    subagent::{self, SubagentOrigin},
    turn_channel::TurnOutcome,
};

/// Time that a cancelled turn has to report what it had.
const STOP_TIME: Duration = Duration::from_secs(5);

/// Time that the commands of an unloaded thread have to end.
const END_TIME: Duration = Duration::from_secs(3);

impl ThreadActor {
    /// Notes that the turn's task or a command beside it has ended, and finishes the turn after the last of them.
    pub(super) async fn on_turn_part_ended(&mut self, note: impl FnOnce(&mut ActiveTurn)) {
        let Some(active) = &mut self.active else { return };
        note(active);
        if let Some(outcome) = active.take_outcome()
            && let Some(active) = self.active.take()
        {
            self.end_turn(active, outcome).await;
        }
    }

    /// Stops the running turn, if any, and waits for its end.
    pub(super) async fn end_active_turn(&mut self) {
        let Some(active) = &mut self.active else { return };
        active.cancel.cancel();
        active.interrupt_cause.get_or_insert(InterruptCause::Thread);
        let stopped = async {
            while self.active.is_some()
                && let Some(message) = self.turn_messages.recv().await
            {
                self.on_turn_message(message).await;
            }
        };
        if tokio::time::timeout(STOP_TIME, stopped).await.is_ok() {
            return;
        }
        if let Some(active) = &self.active {
            active.abort();
        }
        self.handle_queued_messages().await;
        if let Some(active) = self.active.take() {
            self.end_turn(active, TurnOutcome::Interrupted).await;
        }
    }

    /// Ends the commands that are still running, and completes their items.
    pub(super) async fn end_commands(&mut self) {
        let tools = self.tools.clone();
        let ended = async {
            tools.end_terminals().await;
            while !self.commands.is_empty()
                && let Some(message) = self.turn_messages.recv().await
            {
                self.on_turn_message(message).await;
            }
            self.handle_queued_messages().await;
        };
        if tokio::time::timeout(END_TIME, ended).await.is_err() {
            self.cut_off_all_commands().await;
        }
    }

    async fn end_turn(&mut self, active: ActiveTurn, outcome: TurnOutcome) {
        self.is_finishing = true;
        self.finish(active, outcome).await;
        self.is_finishing = false;
    }

    async fn finish(&mut self, mut active: ActiveTurn, outcome: TurnOutcome) {
        let (status, error) = active.status(outcome);
        let mut end = turn_end(&active, &status, error.as_ref());
        if let Some(settings) = self.state.next_settings.take() {
            self.state.settings = settings;
        }
        // Steered messages that no request contained are still part of the turn.
        let unseen = std::mem::take(&mut active.steered);
        self.take_steered(&active.id, unseen).await;
        self.cut_off_foreground_commands().await;
        self.tools.grants().end_turn();
        if active.kind == TurnKind::Review {
            self.emit_failure(&active.id, error.as_ref());
            self.finish_review(&mut active, &status).await;
        }
        if error.as_ref().and_then(|error| error.codex_error_info.as_ref())
            == Some(&CodexErrorInfo::ContextWindowExceeded)
        {
            self.set_usage_to_full(&active.id);
        }
        let unfinished: Vec<_> = std::mem::take(&mut active.open_items).into_values().map(cut_off).collect();
        let mut records = self.last_records(&mut active, &unfinished, &status, error.as_ref());
        // Before the end: an end that cannot be stored is replaced by another one.
        let before_end = records.len().saturating_sub(1);
        let (goal_record, continuation) = self.end_goal_turn(&active, &status, error.as_ref());
        let news = TurnNews::of(&active, &status);
        let read_records = self.read_state_records(&active.id, continuation, news);
        records.splice(before_end..before_end, goal_record.into_iter().chain(read_records));
        let stored = self.store_turn_end(records).await;
        if news == TurnNews::None {
            self.skip_read_state();
        }
        if self.is_overtaken || self.fence.is_cancelled() {
            return self.leave_turn(active);
        }
        let (status, error) = match stored {
            Ok(()) => (status, error),
            Err(failure) => {
                end = TurnEnd::FailedStore;
                (TurnStatus::Failed, Some(self.replace_turn_end(&active.id, error, &failure).await))
            }
        };
        let subagent_state = active.subagent_state(&status, error.as_ref());
        // The parent knows before anyone else that its subagent is done.
        self.notify_parent(subagent_state.as_ref()).await;
        self.announce_unseen_input();
        for item in &unfinished {
            self.emit_completed(&active.id, item);
        }
        for reply in std::mem::take(&mut active.interrupts) {
            self.accept(reply, ()).await;
        }
        if active.kind != TurnKind::Review {
            self.emit_failure(&active.id, error.as_ref());
        }
        let mut turn = Turn { status, error, ..Turn::in_progress(active.id.clone()) };
        let beginning = active.beginning.take();
        let time = beginning.as_ref().map(|beginning| beginning.started.elapsed());
        turn.started_at = beginning.map(|beginning| beginning.started_at);
        turn.duration_ms = time.map(millis);
        count_turn(end, time);
        if turn.status != TurnStatus::Completed && !turn.error.as_ref().is_some_and(is_without_response) {
            self.notifier.unchanged_usage(&active.id, &self.state.usage, ProtocolGeneration::V166);
        }
        // A server that is asked beside the turn has answered by now.
        self.warn_about_model();
        if turn.status == TurnStatus::Completed {
            self.start_notify_program(&mut active);
        }
        self.announce_charged_goal(&turn.id);
        self.pause_or_resume_queue(&turn.status);
        self.emit_turn_completed(turn);
        // Before the open questions are dropped: a question about a host then ends because the turn is over.
        active.over.cancel();
        for (request_id, kind) in active.questions.into_unresolved() {
            self.notifier.request_resolved(request_id, kind);
        }
        self.forget_recent_if_idle();
        // Last of all: a parent that waits for this may ask for more at once.
        if let Some(state) = subagent_state {
            self.progress.send_replace(state);
        }
    }

    /// Stores the end of a turn and waits until it is durable: clients may rely on a turn that they saw complete.
    async fn store_turn_end(&mut self, records: Vec<Record>) -> Result<(), ThreadError> {
        self.store_or_keep(records).await?;
        match &self.state.log {
            Some(log) => Ok(log.sync().await?),
            None => Ok(()),
        }
    }

    /// Makes the stored end of a turn agree with what clients are about to see: the turn has failed, because its end could
    /// not be stored. Returns the error of the turn; an earlier one counts more.
    async fn replace_turn_end(
        &mut self,
        turn: &TurnId,
        earlier: Option<TurnError>,
        failure: &ThreadError,
    ) -> TurnError {
        tracing::error!(thread = %self.state.id, "failed to store the end of a turn, will retry: {failure}");
        let turn_error = earlier.unwrap_or_else(|| TurnError {
            message: format!("the end of the turn could not be stored: {failure}"),
            codex_error_info: Some(CodexErrorInfo::Other),
            additional_details: None,
            misalignment: None,
        });
        let end = Record::TurnEnd {
            turn_id: turn.clone(),
            status: TurnStatus::Failed,
            error: Some(turn_error.clone()),
            cause: None,
        };
        match self.late_records.last_mut() {
            Some(kept @ Record::TurnEnd { .. }) => *kept = end,
            // The records are in the file, but may not be on the disk.
            _ => {
                if let Err(error) = self.store_or_keep(vec![end]).await {
                    tracing::error!(thread = %self.state.id, "failed to correct the end of a turn: {error}");
                }
            }
        }
        turn_error
    }

    /// Drops a turn that another process has taken over. Clients see nothing more of it.
    fn leave_turn(&mut self, active: ActiveTurn) {
        active.over.cancel();
        if let Some(state) = active.subagent_state(&TurnStatus::Interrupted, None) {
            self.progress.send_replace(state);
        }
    }

    /// Starts the user's program for completed turns. Turns of subagents are part of a turn of the user's.
    fn start_notify_program(&self, active: &mut ActiveTurn) {
        let program = self.state.config.settings.notify.as_deref().unwrap_or_default();
        if program.is_empty()
            || active.kind != TurnKind::Regular
            || SubagentOrigin::of(&self.state.source).is_some()
        {
            return;
        }
        let notice = TurnNotice {
            thread_id: self.state.id.clone(),
            turn_id: active.id.clone(),
            cwd: self.state.settings.cwd.clone(),
            client: active.origin.name.clone(),
            input_messages: std::mem::take(&mut active.input_texts),
            last_assistant_message: active.last_message.clone(),
        };
        self.engine.notify_programs.start(program, &notice);
    }

    pub(super) fn subagent_started(&self) {
        self.progress.send_replace(subagent::state(CollabAgentStatus::Running));
    }

    /// Notifies the parent of a subagent, if it is loaded, that the subagent is done.
    async fn notify_parent(&self, state: Option<&CollabAgentState>) {
        let Some(state) = state.filter(|state| subagent::is_final(&state.status)) else { return };
        let Some(origin) = SubagentOrigin::of(&self.state.source) else { return };
        let parent = self.threads.upgrade().and_then(|threads| threads.get(&origin.parent).ok());
        if let Some(parent) = parent {
            let nickname = self.state.agent_nickname.as_deref();
            parent.notice(codicil_prompts::subagent_notification(&self.state.id, nickname, state)).await;
        }
    }

    /// Sets the usage to the whole context window: the provider refused the request for its length, without a count.
    fn set_usage_to_full(&mut self, turn: &TurnId) {
        let window = self.context_window();
        let full =
            TokenUsageBreakdown { total_tokens: window.unwrap_or(0), ..TokenUsageBreakdown::default() };
        self.state.usage = ThreadTokenUsage { total: full.clone(), last: full, model_context_window: window };
        self.notifier.token_usage(turn, &self.state.usage);
    }

    fn last_records(
        &mut self,
        active: &mut ActiveTurn,
        unfinished: &[ThreadItem],
        status: &TurnStatus,
        error: Option<&TurnError>,
    ) -> Vec<Record> {
        let turn_id = &active.id;
        let items =
            unfinished.iter().map(|item| Record::Item { turn_id: turn_id.clone(), item: item.clone() });
        let mut records: Vec<_> = items.collect();
        if let Some(first) = active.first.take() {
            // A turn that completes without having used its input was ended by a hook.
            if *status == TurnStatus::Completed {
                records.extend(first.withdrawal(turn_id));
            } else {
                let (unstored, content) = first.into_history();
                records.extend(unstored);
                self.state.remember(content);
            }
        }
        self.state.remember(active.take_injected());
        let mut additions = Vec::new();
        if *status == TurnStatus::Interrupted && active.kind != TurnKind::Review {
            // Without this message the model would take the turn for a finished one.
            additions.push(codicil_prompts::turn_aborted_message());
        }
        additions.extend(active.take_notices());
        records.extend(additions.iter().map(|item| context_record(&active.id, item)));
        self.state.remember(additions);
        records.push(Record::TurnEnd {
            turn_id: active.id.clone(),
            status: status.clone(),
            error: error.cloned(),
            cause: None,
        });
        records
    }

    /// Reports the turn's error. For reviews, called before the partial review is emitted.
    fn emit_failure(&mut self, id: &TurnId, error: Option<&TurnError>) {
        if let Some(error) = error {
            self.set_status(ThreadStatus::SystemError);
            self.notifier.turn_failed(id, error);
        }
    }

    fn emit_turn_completed(&mut self, turn: Turn) {
        let now = unix_now();
        self.state.updated_at = now;
        self.announce_read_state();
        if turn.error.is_none() {
            self.set_status(ThreadStatus::Idle);
        }
        self.engine.realtime.turn_completed(&self.state.id, &turn.id);
        self.announce_turn_completed(Turn { completed_at: Some(now), ..turn });
    }

    /// Forgets recent messages once neither a turn nor a command is running.
    pub(super) fn forget_recent_if_idle(&self) {
        if self.active.is_none() && self.commands.is_empty() {
            self.notifier.forget_recent();
        }
    }

    /// Flushes the thread's file. What is written survives a crash of this process; after this it also survives one
    /// of the machine.
    pub(super) fn sync_later(&self) {
        let Some(log) = &self.state.log else { return };
        let thread = self.state.id.clone();
        let sync = log.sync();
        // Ends by itself; closing the store waits for it.
        tokio::spawn(async move {
            if let Err(error) = sync.await {
                tracing::error!(%thread, "failed to flush the file of a thread: {error}");
            }
        });
    }
}

/// Returns whether a turn failed because the provider could not be reached or refused the request.
fn is_without_response(error: &TurnError) -> bool {
    matches!(
        error.codex_error_info,
        Some(
            CodexErrorInfo::BadRequest
                | CodexErrorInfo::Unauthorized
                | CodexErrorInfo::UsageLimitExceeded
                | CodexErrorInfo::InternalServerError
                | CodexErrorInfo::HttpConnectionFailed { .. }
                | CodexErrorInfo::ResponseStreamConnectionFailed { .. }
                | CodexErrorInfo::ResponseTooManyFailedAttempts { .. }
        )
    )
}

/// Returns an item whose work was cut off, with the status of a failure.
pub(super) fn cut_off(mut item: ThreadItem) -> ThreadItem {
    match &mut item {
        ThreadItem::CommandExecution { status, .. } => *status = CommandExecutionStatus::Failed,
        ThreadItem::FileChange { status, .. } => *status = PatchApplyStatus::Failed,
        ThreadItem::McpToolCall { status, .. } => *status = McpToolCallStatus::Failed,
        ThreadItem::CollabAgentToolCall { status, .. } => *status = CollabAgentToolCallStatus::Failed,
        ThreadItem::DynamicToolCall { status, success, .. } => {
            *status = DynamicToolCallStatus::Failed;
            *success = Some(false);
        }
        _ => {}
    }
    item
}
