//! What is sent to a voice model, in the two dialects that providers speak.
//!
//! *v1* knows handoffs as such. *v2* is the public Realtime API; there the agent is a function that the
//! voice model calls.

use serde_json::{Value, json};

/// Samples a second, of all sound in either direction.
pub(super) const SAMPLE_RATE: u32 = 24_000;
/// The function by which a voice model of *v2* reaches the agent.
pub(super) const AGENT: &str = "background_agent";

const VOICE: &str = "marin";
const DEFAULT_MODEL: &str = "gpt-realtime";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RealtimeDialect {
    V1,
    V2,
}

/// How far the answer to a handoff is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandoffAnswer {
    First,
    More,
}

impl RealtimeDialect {
    /// What the address has to say.
    pub fn query(self, model: Option<&str>) -> Vec<(&'static str, String)> {
        match self {
            Self::V1 => {
                let model = model.map(|model| ("model", model.to_owned()));
                [("intent", "quicksilver".to_owned())].into_iter().chain(model).collect()
            }
            Self::V2 => vec![("model", model.unwrap_or(DEFAULT_MODEL).to_owned())],
        }
    }

    /// The first message of a session.
    pub fn session(self, instructions: &str) -> Value {
        let format = json!({ "type": "audio/pcm", "rate": SAMPLE_RATE });
        let session = match self {
            Self::V1 => json!({
                "type": "quicksilver",
                "instructions": instructions,
                "audio": { "input": { "format": format }, "output": { "voice": VOICE } },
            }),
            Self::V2 => json!({
                "type": "realtime",
                "instructions": instructions,
                "output_modalities": ["audio"],
                "audio": {
                    "input": {
                        "format": format,
                        "transcription": { "model": "gpt-4o-mini-transcribe" },
                        "turn_detection": { "type": "server_vad", "interrupt_response": true },
                    },
                    "output": { "format": format, "voice": VOICE },
                },
                "tools": [agent_tool()],
                "tool_choice": "auto",
            }),
        };
        json!({ "type": "session.update", "session": session })
    }

    /// What a person typed.
    pub fn text(self, text: &str) -> Vec<Value> {
        match self {
            Self::V1 => vec![message("user", "text", text)],
            Self::V2 => vec![message("user", "input_text", text), respond()],
        }
    }

    /// What a microphone heard, in base64.
    pub fn audio(self, data: &str) -> Value {
        json!({ "type": "input_audio_buffer.append", "audio": data })
    }

    /// What the agent says to a handoff. A function has one result; what follows it is a message.
    pub fn handoff_output(self, handoff: &str, text: &str, answer: HandoffAnswer) -> Vec<Value> {
        match (self, answer) {
            (Self::V1, _) => vec![json!({
                "type": "conversation.handoff.append", "handoff_id": handoff, "output_text": text,
            })],
            (Self::V2, HandoffAnswer::First) => {
                let output = json!({ "type": "function_call_output", "call_id": handoff, "output": text });
                vec![json!({ "type": "conversation.item.create", "item": output }), respond()]
            }
            (Self::V2, HandoffAnswer::More) => vec![message("system", "input_text", text), respond()],
        }
    }

    /// A function that never returns would keep its caller waiting.
    pub fn handoff_without_output(self, handoff: &str) -> Vec<Value> {
        match self {
            Self::V1 => Vec::new(),
            Self::V2 => {
                self.handoff_output(handoff, "The agent ended without an answer.", HandoffAnswer::First)
            }
        }
    }
}

fn message(role: &str, kind: &str, text: &str) -> Value {
    let content = json!([{ "type": kind, "text": text }]);
    let item = json!({ "type": "message", "role": role, "content": content });
    json!({ "type": "conversation.item.create", "item": item })
}

fn respond() -> Value {
    json!({ "type": "response.create" })
}

fn agent_tool() -> Value {
    json!({
        "type": "function",
        "name": AGENT,
        "description": "Hands a task over to the agent, who can read and change files and run commands. \
            Its answer comes later, in pieces.",
        "parameters": {
            "type": "object",
            "properties": {
                "prompt": { "type": "string", "description": "What the person wants, in their own words." },
            },
            "required": ["prompt"],
            "additionalProperties": false,
        },
    })
}
