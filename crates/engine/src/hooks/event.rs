//! The events that hooks run for, and the JSON that a hook reads on its standard input.

use codicil_protocol::{HookEventName, HookScope, ThreadId, TurnId};
use serde_json::{Map, Value, json};

/// A point of a turn at which hooks run.
#[derive(Clone, Debug)]
pub(crate) enum HookEvent {
    /// The first turn of a thread since it was started or loaded.
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
    /// The turn is about to end. `is_repeated` if a hook has already made this turn continue.
    Stop {
        is_repeated: bool,
        last_message: Option<String>,
    },
}

/// The part of the input that is the same for all hooks of a turn.
#[derive(Clone, Debug)]
pub(crate) struct HookContext {
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    /// The path of the thread's file.
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

    /// Returns the text that matchers are compared with; `None` for events without matchers.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::SessionStart { source } => Some(source),
            Self::PreToolUse { tool, .. } | Self::PostToolUse { tool, .. } => Some(tool),
            Self::UserPromptSubmit { .. } | Self::Stop { .. } => None,
        }
    }

    /// Whether plain text on standard output becomes context for the model.
    pub fn accepts_plain_output(&self) -> bool {
        matches!(self, Self::SessionStart { .. } | Self::UserPromptSubmit { .. })
    }

    /// Returns the JSON for the hook's standard input.
    pub fn input(&self, context: &HookContext) -> Value {
        let HookContext { thread_id, turn_id, transcript, cwd, model, permission_mode } = context;
        let mut input = into_members(json!({
            "session_id": thread_id,
            "transcript_path": transcript,
            "cwd": cwd,
            "hook_event_name": self.wire_name(),
            "model": model,
            "permission_mode": permission_mode,
        }));
        input.extend(into_members(match self {
            Self::SessionStart { source } => json!({ "source": source }),
            Self::UserPromptSubmit { prompt } => json!({ "turn_id": turn_id, "prompt": prompt }),
            Self::PreToolUse { id, tool, input } => {
                json!({ "turn_id": turn_id, "tool_use_id": id, "tool_name": tool, "tool_input": input })
            }
            Self::PostToolUse { id, tool, input, response } => json!({
                "turn_id": turn_id,
                "tool_use_id": id,
                "tool_name": tool,
                "tool_input": input,
                "tool_response": response,
            }),
            Self::Stop { is_repeated, last_message } => json!({
                "turn_id": turn_id,
                "stop_hook_active": is_repeated,
                "last_assistant_message": last_message,
            }),
        }));
        Value::Object(input)
    }

    /// Returns the name that hooks know the event by.
    fn wire_name(&self) -> &'static str {
        match self {
            Self::SessionStart { .. } => "SessionStart",
            Self::UserPromptSubmit { .. } => "UserPromptSubmit",
            Self::PreToolUse { .. } => "PreToolUse",
            Self::PostToolUse { .. } => "PostToolUse",
            Self::Stop { .. } => "Stop",
        }
    }
}

fn into_members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
