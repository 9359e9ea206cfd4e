//! Hooks at the beginning and at the end of a turn.

use codicil_prompts::developer_message;
use codicil_protocol::{HookPromptFragment, ThreadItem};

use super::TurnTask;
use crate::{hooks::HookEvent, ids::new_item_id, step::TurnEvent, tools::TurnCancelled};

impl TurnTask {
    /// Runs the hooks for what the person said. False when the turn is not to begin.
    pub(super) async fn begin_hooks(&self) -> Result<bool, TurnCancelled> {
        let Some(prompt) = self.prompt.clone().filter(|_| self.tools.has_hooks()) else { return Ok(true) };
        let start = self.tools.thread.take_start_source().map(|source| HookEvent::SessionStart { source });
        for event in start.into_iter().chain([HookEvent::UserPromptSubmit { prompt }]) {
            let effect = self.tools.run_hooks(&event).await?;
            let messages: Vec<_> = effect.context.into_iter().map(|text| developer_message([text])).collect();
            // What a hook adds to what was said comes after it.
            let step = match event {
                HookEvent::UserPromptSubmit { .. } => TurnEvent::Notice(messages),
                _ => TurnEvent::Context(messages),
            };
            self.steps.one(step).await;
            if effect.block.is_some() || effect.stop.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs the hooks for the end of the turn. True when one of them wants the model to go on.
    pub(super) async fn stop_hooks(&self, again: bool, last: Option<String>) -> Result<bool, TurnCancelled> {
        if self.prompt.is_none() || !self.tools.has_hooks() {
            return Ok(false);
        }
        let effect =
            self.tools.run_hooks(&HookEvent::Stop { is_repeated: again, last_message: last }).await?;
        let Some(reason) = effect.block.filter(|_| effect.stop.is_none()) else { return Ok(false) };
        let id = new_item_id();
        let fragment = HookPromptFragment { text: reason.clone(), hook_run_id: id.to_string() };
        let item = ThreadItem::HookPrompt { id, fragments: vec![fragment] };
        self.steps.one(TurnEvent::Started(item.clone())).await;
        let context = vec![codicil_prompts::user_text_message(reason)];
        self.steps.one(TurnEvent::Completed { item, context }).await;
        Ok(true)
    }
}
