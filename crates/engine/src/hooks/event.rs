//! What a hook is told about the moment it runs at.

use codicil_protocol::{HookEventName, HookScope};
use serde_json::{Map, Value, json};

/// A point of a turn.
#[derive(Clone, Debug)]
pub(crate) enum HookEvent {
    /// The first turn of a thread that was started, or loaded again.
    SessionStart {
        source: &'static str,
    },
    UserPromptSubmit {
        prompt: String,
    },
    PreToolUse {
        id: String,
        tool: String,
        input: Value,
    },
    PostToolUse {
        id: String,
        tool: String,
        input: Value,
        response: Value,
    },
    /// The agent is about to end its turn; `again` when a hook has kept it from that before.
    Stop {
        again: bool,
        last_message: Option<String>,
    },
}

/// What every hook is told.
#[derive(Clone, Debug)]
pub(crate) struct HookContext {
    pub session: String,
    pub turn: String,
    pub transcript: Option<String>,
    pub cwd: String,
    pub model: String,
    pub permission_mode: &'static str,
}

impl HookEvent {
    pub fn name(&self) -> HookEventName {
        match self {
            Self::SessionStart { .. } => HookEventName::SessionStart,
            Self::UserPromptSubmit { .. } => HookEventName::UserPromptSubmit,
            Self::PreToolUse { .. } => HookEventName::PreToolUse,
            Self::PostToolUse { .. } => HookEventName::PostToolUse,
            Self::Stop { .. } => HookEventName::Stop,
        }
    }

    pub fn scope(&self) -> HookScope {
        match self {
            Self::SessionStart { .. } => HookScope::Thread,
            _ => HookScope::Turn,
        }
    }

    /// What matchers are about.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::SessionStart { source } => Some(source),
            Self::PreToolUse { tool, .. } | Self::PostToolUse { tool, .. } => Some(tool),
            Self::UserPromptSubmit { .. } | Self::Stop { .. } => None,
        }
    }

    /// Whether plain words on standard output are for the model.
    pub fn takes_words(&self) -> bool {
        matches!(self, Self::SessionStart { .. } | Self::UserPromptSubmit { .. })
    }

    /// The JSON on the hook's standard input.
    pub fn input(&self, occasion: &HookContext) -> Value {
        let HookContext { session, turn, transcript, cwd, model, permission_mode } = occasion;
        let mut input = members(json!({
            "session_id": session,
            "transcript_path": transcript,
            "cwd": cwd,
            "hook_event_name": self.wire_name(),
            "model": model,
            "permission_mode": permission_mode,
        }));
        input.extend(members(match self {
            Self::SessionStart { source } => json!({ "source": source }),
            Self::UserPromptSubmit { prompt } => json!({ "turn_id": turn, "prompt": prompt }),
            Self::PreToolUse { id, tool, input } => {
                json!({ "turn_id": turn, "tool_use_id": id, "tool_name": tool, "tool_input": input })
            }
            Self::PostToolUse { id, tool, input, response } => json!({
                "turn_id": turn,
                "tool_use_id": id,
                "tool_name": tool,
                "tool_input": input,
                "tool_response": response,
            }),
            Self::Stop { again, last_message } => json!({
                "turn_id": turn,
                "stop_hook_active": again,
                "last_assistant_message": last_message,
            }),
        }));
        Value::Object(input)
    }

    /// As hooks know it.
    pub fn wire_name(&self) -> &'static str {
        match self {
            Self::SessionStart { .. } => "SessionStart",
            Self::UserPromptSubmit { .. } => "UserPromptSubmit",
            Self::PreToolUse { .. } => "PreToolUse",
            Self::PostToolUse { .. } => "PostToolUse",
            Self::Stop { .. } => "Stop",
        }
    }
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
