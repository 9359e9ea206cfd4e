//! The address of a provider's requests, and the headers that its configuration adds.

use codicil_http::without_secrets;
use http::{HeaderMap, HeaderName};
use reqwest::Url;

use crate::{EnvironmentSource, ModelError, ProviderConfig, WireApi, credentials::sensitive_value};

/// The vendor's endpoint for requests with a ChatGPT account instead of an API key.
const CHATGPT_BASE_URL: &str = "https://chatgpt.com/backend-api/codex";

/// Returns the address of `path` for requests with a ChatGPT account, if it differs from the one for API keys.
/// Only the vendor's own provider has two addresses, and only without a configured base URL.
pub(crate) fn chatgpt_endpoint(
    id: &str,
    config: &ProviderConfig,
    environment: &EnvironmentSource,
    path: &str,
) -> Option<Url> {
    let is_vendors = ProviderConfig::builtin(id).is_some_and(|builtin| builtin.requires_openai_auth);
    let (_, variable) = config.default_base_url()?;
    let has_own_url = config.base_url.is_some() || environment.get(variable).is_some();
    (is_vendors && !has_own_url).then(|| Url::parse(&format!("{CHATGPT_BASE_URL}{path}")).ok()).flatten()
}

/// Returns a provider's base address without secrets. `None` for a provider that uses no network or whose address
/// is invalid.
pub fn provider_address(id: &str, config: &ProviderConfig, environment: &EnvironmentSource) -> Option<Url> {
    if config.wire_api == WireApi::Scripted {
        return None;
    }
    endpoint(id, config, environment, "").ok().map(without_secrets)
}

/// Returns the address of `path` at the provider.
pub(crate) fn endpoint(
    id: &str,
    config: &ProviderConfig,
    environment: &EnvironmentSource,
    path: &str,
) -> Result<Url, ModelError> {
    let default = || {
        let (url, variable) = config.default_base_url()?;
        // The variables apply to the vendor's own provider; other providers set their own URL.
        let is_vendors = ProviderConfig::builtin(id).is_some();
        let override_url = environment.get(variable).filter(|_| is_vendors);
        Some(override_url.map(|url| with_version(&url)).unwrap_or_else(|| url.to_owned()))
    };
    let base = config.base_url.clone().or_else(default);
    let mut url = parse(id, base, path)?;
    if let Some(params) = config.query_params.as_ref().filter(|params| !params.is_empty()) {
        url.query_pairs_mut().extend_pairs(params);
    }
    Ok(url)
}

/// Parses the address of `path` below a base URL.
pub(crate) fn parse(id: &str, base: Option<String>, path: &str) -> Result<Url, ModelError> {
    let base = base.ok_or_else(|| ModelError::Config(format!("model provider `{id}` has no base_url")))?;
    let url = Url::parse(&format!("{}{path}", base.trim_end_matches('/'))).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
        // The part before an @ may be a password.
        let shown = base.rsplit('@').next().unwrap_or_default();
        ModelError::Config(format!("model provider `{id}` has an invalid base_url: {shown}"))
    })
}

/// Appends the version that the path needs. The vendors' variables are used with and without it.
fn with_version(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") }
}

/// Returns the headers of `http_headers` and `env_http_headers`. Debug output does not show their values.
pub(crate) fn configured_headers(
    id: &str,
    config: &ProviderConfig,
    environment: &EnvironmentSource,
) -> Result<HeaderMap, ModelError> {
    let plain = config.http_headers.iter().flatten().map(|(name, value)| (name, Some(value.clone())));
    let from_env =
        config.env_http_headers.iter().flatten().map(|(name, variable)| (name, environment.get(variable)));
    let mut headers = HeaderMap::new();
    for (name, value) in plain.chain(from_env) {
        let Some(value) = value else { continue };
        let invalid = || ModelError::Config(format!("model provider `{id}` has an invalid header: {name}"));
        let key = HeaderName::try_from(name).map_err(|_| invalid())?;
        headers.insert(key, sensitive_value(&value).ok_or_else(invalid)?);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_vendors_provider_has_an_address_for_accounts() {
        let nothing = EnvironmentSource::new(|_| None);
        let openai = ProviderConfig::builtin("openai").unwrap();
        let url = |id: &str, config: &ProviderConfig, environment: &EnvironmentSource| {
            chatgpt_endpoint(id, config, environment, "/responses").map(String::from)
        };
        let expected = Some("https://chatgpt.com/backend-api/codex/responses".to_owned());
        assert_eq!(url("openai", &openai, &nothing), expected);
        let moved = EnvironmentSource::new(|name| (name == "OPENAI_BASE_URL").then(|| "http://x".to_owned()));
        assert_eq!(url("openai", &openai, &moved), None);
        let own = ProviderConfig { base_url: Some("http://x".to_owned()), ..openai.clone() };
        assert_eq!(url("openai", &own, &nothing), None);
        assert_eq!(url("mine", &openai, &nothing), None);
        assert_eq!(url("anthropic", &ProviderConfig::builtin("anthropic").unwrap(), &nothing), None);
    }
}
