//! A provider as `config.toml` describes it, under the keys of `model_providers.NAME`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use codicil_protocol::Secret;
use serde::Deserialize;

use crate::RetryPolicy;

/// The dialect a provider speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireApi {
    #[default]
    Responses,
    Chat,
    Anthropic,
    Scripted,
}

/// One entry of `model_providers`. Keys that are not known are left to the config's own checks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    /// For people; the provider's id is its key in the config.
    pub name: Option<String>,
    pub base_url: Option<String>,
    /// The environment variable that holds the API key.
    pub env_key: Option<String>,
    /// How to get a key, for the error that says it is missing.
    pub env_key_instructions: Option<String>,
    /// A key in the config itself. A variable is the better place.
    pub experimental_bearer_token: Option<Secret>,
    pub wire_api: WireApi,
    pub query_params: Option<BTreeMap<String, String>>,
    pub http_headers: Option<BTreeMap<String, String>>,
    /// Headers whose values are read from environment variables; unset ones are not sent.
    pub env_http_headers: Option<BTreeMap<String, String>>,
    pub request_max_retries: Option<u32>,
    pub stream_max_retries: Option<u32>,
    /// How long the provider may be silent, between tokens and, unless set apart, before the first one.
    pub stream_idle_timeout_ms: Option<u64>,
    /// How long the first token may take.
    pub first_token_timeout_ms: Option<u64>,
    /// How long it may take to reach the provider.
    pub connect_timeout_ms: Option<u64>,
    /// Whether requests carry the account that is signed in.
    pub requires_openai_auth: bool,
    /// Accepted for configs that have it; streams always come over HTTP.
    pub supports_websockets: bool,
    /// The file that a scripted provider follows; without it, the built-in script.
    pub script: Option<PathBuf>,
}

impl ProviderConfig {
    /// The providers that need no configuration.
    pub fn builtin(id: &str) -> Option<Self> {
        let named = |name: &str| Self { name: Some(name.to_owned()), ..Self::default() };
        Some(match id {
            "openai" => Self {
                env_key: Some("OPENAI_API_KEY".to_owned()),
                requires_openai_auth: true,
                ..named("OpenAI")
            },
            "anthropic" => Self {
                env_key: Some("ANTHROPIC_API_KEY".to_owned()),
                wire_api: WireApi::Anthropic,
                ..named("Anthropic")
            },
            "ollama" => Self::local("Ollama", "http://localhost:11434/v1"),
            "lmstudio" => Self::local("LM Studio", "http://localhost:1234/v1"),
            "scripted" => Self { wire_api: WireApi::Scripted, ..named("Scripted") },
            _ => return None,
        })
    }

    /// The ids that [`builtin`](Self::builtin) knows.
    pub const BUILTIN: [&'static str; 5] = ["openai", "anthropic", "ollama", "lmstudio", "scripted"];

    fn local(name: &str, base_url: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            base_url: Some(base_url.to_owned()),
            wire_api: WireApi::Chat,
            ..Self::default()
        }
    }

    /// The base URL of a provider that does not set one, and the variable that replaces it.
    pub(crate) fn default_base_url(&self) -> Option<(&'static str, &'static str)> {
        match self.wire_api {
            WireApi::Responses => Some(("https://api.openai.com/v1", "OPENAI_BASE_URL")),
            WireApi::Anthropic => Some(("https://api.anthropic.com/v1", "ANTHROPIC_BASE_URL")),
            WireApi::Chat | WireApi::Scripted => None,
        }
    }

    /// How long to wait and how often to try.
    pub fn limits(&self) -> ProviderLimits {
        let millis = |value: Option<u64>, default| Duration::from_millis(value.unwrap_or(default));
        let idle = millis(self.stream_idle_timeout_ms, 300_000);
        ProviderLimits {
            connect: millis(self.connect_timeout_ms, 15_000),
            first_token: self.first_token_timeout_ms.map_or(idle, Duration::from_millis),
            idle,
            request: RetryPolicy::new(self.request_max_retries.unwrap_or(4).min(100)),
            stream: RetryPolicy::new(self.stream_max_retries.unwrap_or(5).min(100)),
        }
    }
}

/// The deadlines and retries of a provider's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProviderLimits {
    /// Until the connection stands.
    pub connect: Duration,
    /// From the request to the first event of its answer.
    pub first_token: Duration,
    /// Between two events.
    pub idle: Duration,
    /// Requests that got no stream, repeated by the provider itself.
    pub request: RetryPolicy,
    /// Streams that broke, repeated by the caller.
    pub stream: RetryPolicy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_table_is_understood() {
        let config: ProviderConfig = toml::from_str(
            r#"
            name = "Mock"
            base_url = "http://127.0.0.1:9100/v1"
            wire_api = "chat"
            env_key = "MOCK_KEY"
            experimental_bearer_token = "sk-secret"
            query_params = { api-version = "2026-01-01" }
            http_headers = { x-a = "1" }
            env_http_headers = { x-b = "B" }
            request_max_retries = 0
            stream_max_retries = 2
            stream_idle_timeout_ms = 1500
            first_token_timeout_ms = 9000
            supports_websockets = true
            some_future_key = 1
            "#,
        )
        .unwrap();
        assert_eq!(config.wire_api, WireApi::Chat);
        assert_eq!(config.limits().idle, Duration::from_millis(1500));
        assert_eq!(config.limits().first_token, Duration::from_secs(9));
        assert_eq!((config.limits().request.max_retries, config.limits().stream.max_retries), (0, 2));
        assert!(!format!("{config:?}").contains("sk-secret"));
    }

    #[test]
    fn defaults_are_those_of_the_reference() {
        let limits = ProviderConfig::default().limits();
        assert_eq!((limits.request.max_retries, limits.stream.max_retries), (4, 5));
        assert_eq!(limits.idle, Duration::from_secs(300));
        assert_eq!(limits.connect, Duration::from_secs(15));
    }

    #[test]
    fn every_builtin_id_has_a_provider() {
        for id in ProviderConfig::BUILTIN {
            assert!(ProviderConfig::builtin(id).is_some(), "{id}");
        }
        assert_eq!(ProviderConfig::builtin("nobody"), None);
    }
}
