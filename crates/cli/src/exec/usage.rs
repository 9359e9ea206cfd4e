//! Counts the tokens of one turn, from usage reports about its whole thread.

use codicil_protocol::{
    ServerNotification, Thread, ThreadItem, ThreadTokenUsage, TokenUsageBreakdown, TurnId,
};

/// Counts the tokens of a turn.
#[derive(Debug, Default)]
pub struct TokenCounter {
    turn: Option<TurnId>,
    /// Whether the thread had turns before.
    is_resumed: bool,
    /// Whether the model has produced an item in this turn.
    has_begun: bool,
    /// Usage of the thread before this turn, and now.
    counts: Option<(TokenUsageBreakdown, TokenUsageBreakdown)>,
}

impl TokenCounter {
    /// Returns a counter for the next turn of a thread.
    pub fn of(thread: &Thread) -> Self {
        Self { is_resumed: !thread.turns.is_empty(), ..Self::default() }
    }

    /// Updates the counts. A resumed thread repeats its previous usage when its first turn begins.
    pub fn on_event(&mut self, event: &ServerNotification) {
        match event {
            ServerNotification::TurnStarted(started) => self.turn = Some(started.turn.id.clone()),
            ServerNotification::ItemStarted(started) => {
                self.has_begun |= !matches!(started.item, ThreadItem::UserMessage { .. });
            }
            ServerNotification::ThreadTokenUsageUpdated(update)
                if self.turn.as_ref() == Some(&update.turn_id) =>
            {
                let ThreadTokenUsage { total, last, .. } = &update.token_usage;
                let before = match (self.is_resumed, self.has_begun) {
                    (false, _) => subtract(total, total),
                    (true, true) => subtract(total, last),
                    (true, false) => total.clone(),
                };
                self.counts.get_or_insert_with(|| (before, total.clone())).1 = total.clone();
            }
            _ => {}
        }
    }

    /// Returns the tokens of the turn; `None` if the provider does not report usage.
    pub fn used(&self) -> Option<TokenUsageBreakdown> {
        self.counts.as_ref().map(|(before, now)| subtract(now, before))
    }
}

fn subtract(from: &TokenUsageBreakdown, less: &TokenUsageBreakdown) -> TokenUsageBreakdown {
    TokenUsageBreakdown {
        total_tokens: from.total_tokens.saturating_sub(less.total_tokens),
        input_tokens: from.input_tokens.saturating_sub(less.input_tokens),
        cached_input_tokens: from.cached_input_tokens.saturating_sub(less.cached_input_tokens),
        cache_write_input_tokens: from.cache_write_input_tokens.saturating_sub(less.cache_write_input_tokens),
        output_tokens: from.output_tokens.saturating_sub(less.output_tokens),
        reasoning_output_tokens: from.reasoning_output_tokens.saturating_sub(less.reasoning_output_tokens),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn event(method: &str, params: Value) -> ServerNotification {
        ServerNotification::decode(method, Some(&to_raw_value(&params).unwrap()))
    }

    fn report(turn: &str, total: (i64, i64), last: (i64, i64)) -> ServerNotification {
        let counts = |(input, output): (i64, i64)| {
            json!({ "totalTokens": input + output, "inputTokens": input, "cachedInputTokens": 0,
                "outputTokens": output, "reasoningOutputTokens": 0 })
        };
        let usage = json!({ "total": counts(total), "last": counts(last), "modelContextWindow": null });
        event("thread/tokenUsage/updated", json!({ "threadId": "t", "turnId": turn, "tokenUsage": usage }))
    }

    fn turn_begins() -> ServerNotification {
        let turn = json!({ "id": "u", "items": [], "status": "inProgress", "error": null });
        event("turn/started", json!({ "threadId": "t", "turn": turn }))
    }

    fn model_speaks() -> ServerNotification {
        let item = json!({ "type": "agentMessage", "id": "i", "text": "" });
        event("item/started", json!({ "threadId": "t", "turnId": "u", "item": item }))
    }

    fn resumed() -> TokenCounter {
        TokenCounter { is_resumed: true, ..TokenCounter::default() }
    }

    #[test]
    fn only_this_turn_is_counted() {
        let mut usage = resumed();
        usage.on_event(&report("earlier", (950, 95), (50, 5)));
        usage.on_event(&turn_begins());
        assert_eq!(usage.used(), None);
        usage.on_event(&model_speaks());
        usage.on_event(&report("u", (1000, 100), (50, 5)));
        usage.on_event(&report("u", (1070, 107), (70, 7)));
        let used = usage.used().unwrap();
        assert_eq!((used.input_tokens, used.output_tokens, used.total_tokens), (120, 12, 132));
    }

    #[test]
    fn repeated_usage_of_a_resumed_thread_is_not_counted() {
        let mut usage = resumed();
        usage.on_event(&turn_begins());
        usage.on_event(&report("u", (950, 95), (50, 5)));
        usage.on_event(&model_speaks());
        usage.on_event(&report("u", (1000, 100), (50, 5)));
        assert_eq!(usage.used().unwrap().input_tokens, 50);
    }

    #[test]
    fn everything_in_a_new_thread_is_counted() {
        let mut usage = TokenCounter::default();
        usage.on_event(&turn_begins());
        // A response that only calls a tool is counted before the tool begins.
        usage.on_event(&report("u", (50, 5), (50, 5)));
        usage.on_event(&report("u", (120, 12), (70, 7)));
        assert_eq!(usage.used().unwrap().input_tokens, 120);
    }
}
