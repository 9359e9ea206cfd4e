//! Where a provider's requests go, and the headers that its config adds to them.

use http::{HeaderMap, HeaderName};
use reqwest::Url;

use crate::{Environment, ModelError, ProviderConfig, keys::sensitive};

/// The address of `path` at the provider.
pub(crate) fn endpoint(
    id: &str,
    config: &ProviderConfig,
    environment: &Environment,
    path: &str,
) -> Result<Url, ModelError> {
    let default = || {
        let (url, variable) = config.default_base_url()?;
        // The variables name the provider that the vendor runs; other providers set their own URL.
        let is_vendors = ProviderConfig::builtin(id).is_some();
        let replaced = environment.get(variable).filter(|_| is_vendors);
        Some(replaced.map(|url| with_version(&url)).unwrap_or_else(|| url.to_owned()))
    };
    let base = config.base_url.clone().or_else(default);
    let base = base.ok_or_else(|| ModelError::Config(format!("model provider `{id}` has no base_url")))?;
    let text = format!("{}{path}", base.trim_end_matches('/'));
    let mut url =
        Url::parse(&text).ok().filter(|url| matches!(url.scheme(), "http" | "https")).ok_or_else(|| {
            // What stands before an @ may be a password.
            let shown = base.rsplit('@').next().unwrap_or_default();
            ModelError::Config(format!("model provider `{id}` has an invalid base_url: {shown}"))
        })?;
    if let Some(params) = config.query_params.as_ref().filter(|params| !params.is_empty()) {
        url.query_pairs_mut().extend_pairs(params);
    }
    Ok(url)
}

/// The vendors' variables are used with and without the version; the path needs it.
fn with_version(url: &str) -> String {
    let url = url.trim_end_matches('/');
    if url.ends_with("/v1") { url.to_owned() } else { format!("{url}/v1") }
}

/// What `http_headers` and `env_http_headers` say. None of it shows in debug output.
pub(crate) fn configured_headers(
    id: &str,
    config: &ProviderConfig,
    environment: &Environment,
) -> Result<HeaderMap, ModelError> {
    let plain = config.http_headers.iter().flatten().map(|(name, value)| (name, Some(value.clone())));
    let from_env =
        config.env_http_headers.iter().flatten().map(|(name, variable)| (name, environment.get(variable)));
    let mut headers = HeaderMap::new();
    for (name, value) in plain.chain(from_env) {
        let Some(value) = value else { continue };
        let invalid = || ModelError::Config(format!("model provider `{id}` has an invalid header: {name}"));
        let key = HeaderName::try_from(name).map_err(|_| invalid())?;
        headers.insert(key, sensitive(&value).ok_or_else(invalid)?);
    }
    Ok(headers)
}
