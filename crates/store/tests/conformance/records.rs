//! Records of turns.

use codicil_protocol::{
    ContentItem, ItemId, ResponseItem, SessionSource, ThreadId, ThreadItem, ThreadTokenUsage,
    TokenUsageBreakdown, Turn, TurnId, TurnStatus, UserInput,
};
use codicil_store::{Record, ThreadMeta};

pub fn meta(id: &ThreadId) -> ThreadMeta {
    ThreadMeta::new(id.clone(), "/work/project", SessionSource::Vscode, "mock")
}

fn message(role: &str, text: &str) -> ResponseItem {
    let text = text.to_owned();
    let content = match role {
        "assistant" => ContentItem::OutputText { text },
        _ => ContentItem::InputText { text },
    };
    let content = vec![content];
    ResponseItem::Message { role: role.to_owned(), content, end_turn: None, phase: None, id: None }
}

fn usage() -> ThreadTokenUsage {
    let breakdown = TokenUsageBreakdown {
        total_tokens: 7,
        input_tokens: 7,
        cached_input_tokens: 0,
        cache_write_input_tokens: 0,
        output_tokens: 0,
        reasoning_output_tokens: 0,
    };
    ThreadTokenUsage { total: breakdown.clone(), last: breakdown, model_context_window: None }
}

/// Returns the first records of a turn.
pub fn begun(turn: &str, text: &str) -> Vec<Record> {
    let turn_id = TurnId::from(turn);
    let content = vec![UserInput::Text { text: text.to_owned(), text_elements: Vec::new() }];
    let id = ItemId::from(format!("{turn}-user"));
    let item = ThreadItem::UserMessage { id, content, client_id: None };
    vec![
        Record::Turn { turn_id: turn_id.clone(), run: None },
        Record::Item { turn_id: turn_id.clone(), item },
        Record::Context { turn_id: Some(turn_id), item: message("user", text) },
    ]
}

/// Returns the records of a complete turn.
pub fn turn(turn: &str, text: &str, answer: &str) -> Vec<Record> {
    let turn_id = TurnId::from(turn);
    let item = ThreadItem::AgentMessage {
        id: ItemId::from(format!("{turn}-agent")),
        text: answer.to_owned(),
        phase: None,
        memory_citation: None,
        delivery: None,
        questions: None,
    };
    let mut records = begun(turn, text);
    records.extend([
        Record::Context { turn_id: Some(turn_id.clone()), item: message("assistant", answer) },
        Record::Item { turn_id: turn_id.clone(), item },
        Record::Usage { turn_id: turn_id.clone(), usage: usage() },
        Record::TurnEnd { turn_id, status: TurnStatus::Completed, error: None, cause: None },
    ]);
    records
}

/// Returns the text of the agent's message.
pub fn agent_text(turn: &Turn) -> &str {
    let text = turn.items.iter().find_map(|item| match item {
        ThreadItem::AgentMessage { text, .. } => Some(text.as_str()),
        _ => None,
    });
    text.unwrap_or_default()
}
