//! Compaction: a summary takes the place of the history, on request or when it gets too long.

use codicil_model::{ModelRequest, ToolList};
use codicil_protocol::{ContextCompactedNotification, ItemId, ThreadCompacted, ThreadItem, TurnId};
use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply, TurnKind, TurnOrigin,
    actor::{ThreadActor, answer},
    turns::NewTurn,
};
use crate::ids::new_turn_id;

/// The share of the context window at which a conversation is summed up, unless the configuration says.
const COMPACT_AT_PERCENT: i64 = 90;

impl ThreadActor {
    pub(super) async fn on_compact(&mut self, origin: TurnOrigin, reply: CommandReply<AnnouncedReply<()>>) {
        let provider = match self.provider() {
            Ok(provider) => provider,
            Err(error) => return answer(reply, Err(error)),
        };
        // It takes the place of whatever is running.
        self.end_active_turn().await;
        let id = new_turn_id();
        if let Err(error) = self.store(vec![Record::Turn { turn_id: id.clone() }]).await {
            return answer(reply, Err(error));
        }
        self.active = Some(self.launch(NewTurn::new(id.clone(), TurnKind::Compact, provider, origin)));
        self.accept(reply, ()).await;
        self.announce_turn(&id);
    }

    /// Whether the conversation has to be summed up before it goes on.
    pub(super) fn is_too_long(&self) -> bool {
        let limit =
            self.state.config.settings.model_auto_compact_token_limit.or_else(|| {
                self.context_window().map(|window| window.saturating_mul(COMPACT_AT_PERCENT) / 100)
            });
        limit.is_some_and(|limit| self.state.usage.last.total_tokens >= limit)
    }

    /// The conversation with a last message that asks for the summary. No tools: it is only to talk.
    pub(super) fn compaction_request(&mut self, turn: &TurnId) -> ModelRequest {
        let mut request = self.request(turn);
        let own = self.state.config.settings.compact_prompt.as_deref();
        let prompt = codicil_prompts::user_text_message(own.unwrap_or(codicil_prompts::COMPACTION_PROMPT));
        request.input.extend([prompt]);
        request.tools = ToolList::default();
        request.output_schema = None;
        request
    }

    pub(super) async fn on_compacted(&mut self, turn: &TurnId, item: ItemId, summary: &str) {
        // What the model was told besides goes with the history, and is told again.
        self.state.told = None;
        let fresh = self.context_messages().await;
        let history = self.state.history.iter().map(|item| item.item());
        let user_messages = codicil_prompts::user_messages(history);
        let replacement = codicil_prompts::compacted_history(user_messages, summary, fresh);
        let item = ThreadItem::ContextCompaction { id: item };
        let mut records =
            vec![Record::Compaction { turn_id: turn.clone(), replacement: replacement.clone() }];
        records.extend(self.state.settings_record());
        records.push(Record::Item { turn_id: turn.clone(), item: item.clone() });
        if !self.keep(records).await {
            return;
        }
        self.state.history = replacement.into_iter().collect();
        // What counts now is the summary; the provider's count was of all that it stands for.
        self.state.usage.last = self.estimate();
        self.say_usage(turn);
        self.say_completed(turn, &item);
        let params = ContextCompactedNotification { thread_id: self.state.id.clone(), turn_id: turn.clone() };
        self.notify::<ThreadCompacted>(&params);
        if let Some(active) = &mut self.active {
            active.compacted = true;
        }
    }
}
