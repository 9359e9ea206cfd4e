//! What the configuration says about voice sessions.

use codicil_config::EffectiveConfig;
use codicil_protocol::RealtimeConversationVersion;

use super::dialect::RealtimeDialect;

/// The settings of one session.
pub(super) struct VoiceSettings {
    pub dialect: RealtimeDialect,
    /// In place of the provider's own.
    pub base_url: Option<String>,
    pub model: Option<String>,
    /// In place of what the client says.
    prompt: Option<String>,
    /// Added to the instructions.
    context: Option<String>,
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
        }
    }

    /// What the voice model is told to be.
    pub fn instructions(&self, prompt: &str) -> String {
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
