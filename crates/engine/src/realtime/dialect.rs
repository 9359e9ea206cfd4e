//! The settings of a voice session, and the messages to the voice model in the two dialects of providers.
//!
//! *v1* has messages for handoffs. *v2* is the public Realtime API, where the agent is a function that the voice model
//! calls.

use codicil_config::EffectiveConfig;
use codicil_protocol::{
    ConversationTextRole, RealtimeConversationVersion, RealtimeOutputModality, RealtimeVoice,
    ThreadRealtimeStartParams,
};
use serde_json::{Value, json};

/// The sample rate of all audio, in both directions.
pub(super) const SAMPLE_RATE: u32 = 24_000;
/// The function by which a *v2* voice model calls the agent.
pub(super) const AGENT: &str = "background_agent";

const VOICE: &str = "marin";
const DEFAULT_MODEL: &str = "gpt-realtime";

/// The settings of one session.
pub(super) struct VoiceSettings {
    pub dialect: RealtimeDialect,
    /// Replaces the provider's URL.
    pub base_url: Option<String>,
    pub model: Option<String>,
    /// Replaces the client's prompt.
    prompt: Option<String>,
    /// Text that is added to the instructions.
    context: Option<String>,
    modality: RealtimeOutputModality,
    voice: Option<RealtimeVoice>,
}

impl VoiceSettings {
    pub fn of(config: &EffectiveConfig) -> Self {
        let text = |path: &[&str]| {
            let value = config.value(path).and_then(|value| value.as_str()).map(str::to_owned);
            value.filter(|text| !text.trim().is_empty())
        };
        Self {
            dialect: match text(&["realtime", "version"]).as_deref() {
                Some("v2") => RealtimeDialect::V2,
                _ => RealtimeDialect::V1,
            },
            base_url: text(&["experimental_realtime_ws_base_url"]),
            model: text(&["experimental_realtime_ws_model"]),
            prompt: text(&["experimental_realtime_ws_backend_prompt"]),
            context: text(&["experimental_realtime_ws_startup_context"]),
            modality: RealtimeOutputModality::Audio,
            voice: None,
        }
    }

    /// Applies a request in the form of 0.166, where *v2* is the default and the request comes before the configuration.
    #[must_use]
    pub fn requested(self, params: &ThreadRealtimeStartParams) -> Self {
        Self {
            dialect: match params.version {
                Some(RealtimeConversationVersion::V1) => RealtimeDialect::V1,
                _ => RealtimeDialect::V2,
            },
            model: params.model.clone().or(self.model),
            modality: params.output_modality.clone().unwrap_or(RealtimeOutputModality::Audio),
            voice: params.voice.clone(),
            ..self
        }
    }

    /// Returns why these settings cannot be used.
    pub fn contradiction(&self) -> Option<&'static str> {
        let is_text = self.modality == RealtimeOutputModality::Text;
        (is_text && self.dialect == RealtimeDialect::V1)
            .then_some("text realtime output modality requires realtime v2")
    }

    /// Returns the first message of a session.
    pub fn session(&self, prompt: &str) -> Value {
        let mut hello = self.dialect.session(&self.instructions(prompt));
        if self.dialect == RealtimeDialect::V2
            && let Some(session) = hello.get_mut("session").and_then(Value::as_object_mut)
        {
            session.insert("output_modalities".to_owned(), json!([self.modality]));
        }
        if let Some(voice) = &self.voice
            && let Some(output) = hello.pointer_mut("/session/audio/output").and_then(Value::as_object_mut)
        {
            output.insert("voice".to_owned(), json!(voice));
        }
        hello
    }

    /// Returns the instructions of the voice model.
    fn instructions(&self, prompt: &str) -> String {
        let prompt = self.prompt.as_deref().unwrap_or(prompt);
        match &self.context {
            Some(context) => format!("{prompt}\n\n{context}"),
            None => prompt.to_owned(),
        }
    }

    pub fn version(&self) -> RealtimeConversationVersion {
        match self.dialect {
            RealtimeDialect::V1 => RealtimeConversationVersion::V1,
            RealtimeDialect::V2 => RealtimeConversationVersion::V2,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RealtimeDialect {
    V1,
    V2,
}

/// Whether an agent message is the first of a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandoffAnswer {
    First,
    More,
}

impl RealtimeDialect {
    /// Returns the query parameters of the websocket's URL.
    pub fn query(self, model: Option<&str>) -> Vec<(&'static str, String)> {
        match self {
            Self::V1 => {
                let model = model.map(|model| ("model", model.to_owned()));
                [("intent", "quicksilver".to_owned())].into_iter().chain(model).collect()
            }
            Self::V2 => vec![("model", model.unwrap_or(DEFAULT_MODEL).to_owned())],
        }
    }

    /// Returns the first message of a session.
    fn session(self, instructions: &str) -> Value {
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

    /// Returns the messages for text that the user typed, or that a client adds in another role. Only the user is answered.
    pub fn text(self, text: &str, role: &ConversationTextRole) -> Vec<Value> {
        let is_user = *role == ConversationTextRole::User;
        let name = match role {
            ConversationTextRole::Developer => "developer",
            ConversationTextRole::Assistant => "assistant",
            _ => "user",
        };
        match self {
            Self::V1 => vec![message(name, "text", text)],
            Self::V2 if is_user => vec![message(name, "input_text", text), respond()],
            Self::V2 if name == "assistant" => vec![message(name, "output_text", text)],
            Self::V2 => vec![message(name, "input_text", text)],
        }
    }

    /// Returns the messages for text that the voice model is to say.
    pub fn speech(self, text: &str) -> Vec<Value> {
        match self {
            Self::V1 => vec![message("user", "text", text)],
            Self::V2 => vec![message("system", "input_text", text), respond()],
        }
    }

    /// Returns the message for input audio in base64.
    pub fn audio(self, data: &str) -> Value {
        json!({ "type": "input_audio_buffer.append", "audio": data })
    }

    /// Returns the messages for the agent's output. A function call has one output; what follows is a message.
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

    /// Returns the messages for a handoff that ended without output, so that a function call does not wait for ever.
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
