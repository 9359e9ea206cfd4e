//! How turns end: exactly once, whatever happened, with every item complete.

use std::time::Duration;

use codicil_protocol::{
    CodexErrorInfo, CollabAgentToolCallStatus, CommandExecutionStatus, DynamicToolCallStatus,
    McpToolCallStatus, PatchApplyStatus, ThreadItem, ThreadStatus, ThreadTokenUsage, TokenUsageBreakdown,
    Turn, TurnCompleted, TurnCompletedNotification, TurnError, TurnId, TurnStatus,
};
use codicil_store::Record;

use super::{TurnKind, active::ActiveTurn, actor::ThreadActor, agent::progress_of, input::context_record};
use crate::{clock::unix_now, step::TurnOutcome};

/// How long a turn that was told to stop may take to say what it had.
const STOP_TIME: Duration = Duration::from_secs(5);

impl ThreadActor {
    /// Notes that the turn's task or a command beside it has ended, and finishes the turn after the last of them.
    pub(super) async fn on_turn_part_ended(&mut self, note: impl FnOnce(&mut ActiveTurn)) {
        let Some(active) = &mut self.active else { return };
        note(active);
        if let Some(outcome) = active.take_outcome()
            && let Some(active) = self.active.take()
        {
            self.finish(active, outcome).await;
        }
    }

    /// Stops the running turn, if any, and waits for its end.
    pub(super) async fn end_active_turn(&mut self) {
        let Some(active) = &self.active else { return };
        active.cancel.cancel();
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
            self.finish(active, TurnOutcome::Interrupted).await;
        }
    }

    async fn finish(&mut self, mut active: ActiveTurn, outcome: TurnOutcome) {
        let (status, error) = match (active.failure.take(), outcome) {
            (Some(error), _) | (None, TurnOutcome::Failed(error)) => (TurnStatus::Failed, Some(error)),
            (None, TurnOutcome::Interrupted) => (TurnStatus::Interrupted, None),
            (None, TurnOutcome::Completed) => (TurnStatus::Completed, None),
        };
        if let Some(settings) = self.state.next_settings.take() {
            self.state.settings = settings;
        }
        // What the model did not get to see is part of the turn all the same.
        let unseen = std::mem::take(&mut active.steered);
        self.take_steered(&active.id, unseen).await;
        self.end_turn_commands().await;
        self.kit.grants().end_turn();
        if active.kind == TurnKind::Review {
            self.say_failure(&active.id, error.as_ref());
            self.finish_review(&mut active, &status).await;
        }
        if error.as_ref().and_then(|error| error.codex_error_info.as_ref())
            == Some(&CodexErrorInfo::ContextWindowExceeded)
        {
            self.note_full_window(&active.id);
        }
        let left_open: Vec<_> = std::mem::take(&mut active.open).into_values().map(cut_off).collect();
        let records = self.last_records(&mut active, &left_open, &status, error.as_ref());
        if let Err(error) = self.store_or_keep(records).await {
            tracing::error!(thread = %self.state.id, "the end of a turn could not be stored yet: {error}");
        }
        let progress = progress_of(&active, &status, error.as_ref());
        // Before anybody else learns of the end: whoever does finds that the parent knows.
        self.tell_parent(progress.as_ref()).await;
        for item in &left_open {
            self.say_completed(&active.id, item);
        }
        for reply in std::mem::take(&mut active.interrupts) {
            self.accept(reply, ()).await;
        }
        if active.kind != TurnKind::Review {
            self.say_failure(&active.id, error.as_ref());
        }
        self.charge_goal(&active.id).await;
        self.say_end(active.id, status, error);
        // Before the open questions are dropped: a question about a host then ends because the turn is over.
        active.over.cancel();
        self.resolve_all(active.questions);
        self.sync_later();
        self.end_progress(progress);
    }

    /// The provider refused for length without counting, so the window counts as full.
    fn note_full_window(&mut self, turn: &TurnId) {
        let window = self.context_window();
        let full =
            TokenUsageBreakdown { total_tokens: window.unwrap_or(0), ..TokenUsageBreakdown::default() };
        self.state.usage = ThreadTokenUsage { total: full.clone(), last: full, model_context_window: window };
        self.say_usage(turn);
    }

    fn last_records(
        &mut self,
        active: &mut ActiveTurn,
        left_open: &[ThreadItem],
        status: &TurnStatus,
        error: Option<&TurnError>,
    ) -> Vec<Record> {
        let turn_id = &active.id;
        let items =
            left_open.iter().map(|item| Record::Item { turn_id: turn_id.clone(), item: item.clone() });
        let mut records: Vec<_> = items.collect();
        if let Some(first) = active.first.take() {
            // Only hooks end a turn well without its having begun.
            if *status == TurnStatus::Completed {
                records.extend(first.withdrawal(turn_id));
            } else {
                let (unstored, content) = first.left_behind();
                records.extend(unstored);
                self.state.remember(content);
            }
        }
        if *status == TurnStatus::Interrupted && active.kind != TurnKind::Review {
            // The model is told, or it would take the cut-off turn for a finished one.
            let told = codicil_prompts::turn_aborted_message();
            records.push(context_record(turn_id, &told));
            self.state.remember([told]);
        }
        // What the model was not asked about any more is known to it in the next turn.
        for notice in std::mem::take(&mut active.notices) {
            records.push(context_record(turn_id, &notice));
            self.state.remember([notice]);
        }
        records.push(Record::TurnEnd {
            turn_id: turn_id.clone(),
            status: status.clone(),
            error: error.cloned(),
        });
        records
    }

    /// Why a turn fails. Of a review this comes before what is left of it.
    fn say_failure(&mut self, id: &TurnId, error: Option<&TurnError>) {
        if let Some(error) = error {
            self.set_status(ThreadStatus::SystemError);
            self.report_error(id, error.clone(), false);
        }
    }

    fn say_end(&mut self, id: TurnId, status: TurnStatus, error: Option<TurnError>) {
        self.state.updated_at = unix_now();
        if error.is_none() {
            self.set_status(ThreadStatus::Idle);
        }
        self.world.realtime.over(&self.state.id, &id);
        self.notify::<TurnCompleted>(&TurnCompletedNotification {
            thread_id: self.state.id.clone(),
            turn: Turn { id, items: Vec::new(), status, error },
        });
    }

    /// What was said is in the kernel's hands and survives this process; now it shall survive the machine.
    fn sync_later(&self) {
        let Some(log) = &self.state.log else { return };
        let (thread, sync) = (self.state.id.clone(), log.sync());
        // Ends by itself; closing the store waits for it.
        tokio::spawn(async move {
            if let Err(error) = sync.await {
                tracing::error!(%thread, "a turn could not be made durable: {error}");
            }
        });
    }
}

/// An item whose work was cut off.
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
