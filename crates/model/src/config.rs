//! The configuration of a provider: the table `model_providers.NAME` of `config.toml`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use codicil_protocol::Secret;
use serde::Deserialize;

use crate::RetryPolicy;

/// The dialect of a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WireApi {
    #[default]
    Responses,
    Chat,
    Anthropic,
    Scripted,
}

/// An entry of `model_providers`. Unknown keys are ignored here; `codicil-config` reports them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ProviderConfig {
    /// Display name; the provider's id is its key in the table.
    pub name: Option<String>,
    pub base_url: Option<String>,
    /// Environment variable that holds the API key.
    pub env_key: Option<String>,
    /// How to get a key; part of the error for a missing key.
    pub env_key_instructions: Option<String>,
    /// Key in the configuration itself. An environment variable is preferable.
    pub experimental_bearer_token: Option<Secret>,
    pub wire_api: WireApi,
    pub query_params: Option<BTreeMap<String, String>>,
    pub http_headers: Option<BTreeMap<String, String>>,
    /// Headers whose values are read from environment variables; unset ones are not sent.
    pub env_http_headers: Option<BTreeMap<String, String>>,
    pub request_max_retries: Option<u32>,
    pub stream_max_retries: Option<u32>,
    /// Longest pause between tokens, and before the first one unless `first_token_timeout_ms` is set.
    pub stream_idle_timeout_ms: Option<u64>,
    /// Longest time until the first token.
    pub first_token_timeout_ms: Option<u64>,
    /// Longest time to establish a connection.
    pub connect_timeout_ms: Option<u64>,
    /// Whether requests carry the credentials of the signed-in account.
    pub requires_openai_auth: bool,
    /// Script file of a scripted provider; `None` selects the built-in script.
    pub script: Option<PathBuf>,
}

impl ProviderConfig {
    /// Returns a provider that needs no configuration.
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

    /// The ids that [`builtin`](Self::builtin) accepts.
    pub const BUILTIN: [&'static str; 5] = ["openai", "anthropic", "ollama", "lmstudio", "scripted"];

    fn local(name: &str, base_url: &str) -> Self {
        Self {
            name: Some(name.to_owned()),
            base_url: Some(base_url.to_owned()),
            wire_api: WireApi::Chat,
            ..Self::default()
        }
    }

    /// Returns the base URL of a provider that does not set one, and the variable that overrides it.
    pub(crate) fn default_base_url(&self) -> Option<(&'static str, &'static str)> {
        match self.wire_api {
            WireApi::Responses => Some(("https://api.openai.com/v1", "OPENAI_BASE_URL")),
            WireApi::Anthropic => Some(("https://api.anthropic.com/v1", "ANTHROPIC_BASE_URL")),
            WireApi::Chat | WireApi::Scripted => None,
        }
    }

    /// Returns deadlines and retries.
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
    /// Time to establish a connection.
    pub connect: Duration,
    /// Time from the request to the first event of its response.
    pub first_token: Duration,
    /// Time between two events.
    pub idle: Duration,
    /// Retries of requests that got no stream, done by the provider itself.
    pub request: RetryPolicy,
    /// Retries of streams that broke, done by the caller.
    pub stream: RetryPolicy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_table_is_parsed() {
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
        assert_eq!(ProviderConfig::builtin("unknown"), None);
    }
}
