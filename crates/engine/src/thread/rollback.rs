//! Dropping the last turns.

use codicil_protocol::{Thread, TokenUsageBreakdown};
use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply,
    actor::{ThreadActor, answer},
};
use crate::{error::ThreadError, ids::new_turn_id, settings_forms::StoredContext};

impl ThreadActor {
    pub(super) async fn on_rollback(&mut self, turns: u32, reply: CommandReply<AnnouncedReply<Thread>>) {
        let rolled_back = self.roll_back(turns).await;
        match rolled_back {
            Ok(thread) => {
                // Before the answer: a client that leaves after it has heard everything.
                if self.state.usage.total.total_tokens > 0 {
                    // No turn has used this much; it is the history that has become shorter.
                    self.say_usage(&new_turn_id());
                }
                self.accept(reply, thread).await;
            }
            Err(error) => answer(reply, Err(error)),
        }
    }

    /// Writes the rollback and takes the shorter history from the store, which knows what belongs to a turn.
    async fn roll_back(&mut self, turns: u32) -> Result<Thread, ThreadError> {
        if turns == 0 {
            return Err(ThreadError::NoTurnsToDrop);
        }
        if self.active.is_some() {
            return Err(ThreadError::RollbackDuringTurn);
        }
        if self.state.log.is_none() {
            return Err(ThreadError::EphemeralRollback);
        }
        self.store(vec![Record::Rollback { turns }]).await?;
        let loaded = self.world.store.load(&self.state.id).await?;
        let kept = loaded.thread.turns();
        self.state.history = loaded.history.into_iter().collect();
        // What the dropped turns set holds on; what the model was told of it is gone with them.
        self.state.told = loaded.thread.known_settings.as_ref().and_then(StoredContext::read_context);
        if !self.state.history.iter().any(|item| codicil_prompts::is_context_message(item.item())) {
            self.state.told = None;
        }
        self.state.usage.last = self.estimate();
        let (turn_id, usage) = (new_turn_id(), self.state.usage.clone());
        self.store(vec![Record::Usage { turn_id, usage }]).await?;
        Ok(Thread { turns: kept, ..self.state.view() })
    }

    /// About how much the history is; the provider's count was of a longer one.
    pub(super) fn estimate(&self) -> TokenUsageBreakdown {
        let tokens: u64 =
            self.state.history.iter().map(|item| codicil_prompts::approx_tokens(item.item())).sum();
        TokenUsageBreakdown {
            total_tokens: i64::try_from(tokens).unwrap_or(i64::MAX),
            ..TokenUsageBreakdown::default()
        }
    }
}
