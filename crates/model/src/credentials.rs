//! The credentials of a provider: where they come from, and the headers that carry them.

use std::{future::Future, pin::Pin, sync::Arc};

use codicil_protocol::Secret;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{EnvironmentSource, ModelError, ProviderConfig, ProviderContext};

/// Values shorter than any real key are not removed from error texts, where they may be ordinary words.
const MIN_SECRET_LEN: usize = 8;

/// The token that authenticates requests to a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderCredentials {
    pub token: Secret,
    /// The ChatGPT account that the token belongs to; `None` for API keys.
    pub account_id: Option<String>,
}

impl ProviderCredentials {
    pub fn api_key(key: impl Into<String>) -> Self {
        Self { token: Secret::from(key.into()), account_id: None }
    }
}

/// The pending result of an [`AccountAuth`] call.
pub type AuthFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Option<ProviderCredentials>, ModelError>> + Send + 'a>>;

/// Access to the signed-in account. Called for each request, because tokens expire.
///
/// Only providers with `requires_openai_auth` use it: the login is not sent to any other provider.
pub trait AccountAuth: Send + Sync {
    /// Returns the current credentials; `None` when signed out.
    fn credentials(&self) -> AuthFuture<'_>;

    /// Returns new credentials after the provider rejected `refused` with 401; `None` if there are none.
    fn refresh<'a>(&'a self, refused: &'a ProviderCredentials) -> AuthFuture<'a> {
        let _ = refused;
        Box::pin(async { Ok(None) })
    }
}

/// Fixed credentials, such as an API key.
impl AccountAuth for ProviderCredentials {
    fn credentials(&self) -> AuthFuture<'_> {
        Box::pin(async { Ok(Some(self.clone())) })
    }
}

/// The sources of a provider's credentials, in order of precedence: a token in the configuration, the signed-in
/// account, an environment variable.
pub(crate) struct CredentialSources {
    token: Option<Secret>,
    auth: Option<Arc<dyn AccountAuth>>,
    env_key: Option<String>,
    instructions: Option<String>,
    is_login_possible: bool,
    environment: EnvironmentSource,
}

impl CredentialSources {
    pub fn new(config: &ProviderConfig, context: &ProviderContext) -> Self {
        Self {
            token: config.experimental_bearer_token.clone(),
            auth: context.auth.clone().filter(|_| config.requires_openai_auth),
            env_key: config.env_key.clone(),
            instructions: config.env_key_instructions.clone(),
            is_login_possible: config.requires_openai_auth,
            environment: context.environment.clone(),
        }
    }

    /// Returns the credentials for a first attempt; `None` for a provider that needs none.
    pub async fn find(&self, id: &str) -> Result<Option<ProviderCredentials>, ModelError> {
        if let Some(token) = &self.token {
            return Ok(Some(ProviderCredentials { token: token.clone(), account_id: None }));
        }
        if let Some(auth) = &self.auth
            && let Some(credentials) = auth.credentials().await?
        {
            return Ok(Some(credentials));
        }
        let key = self.env_key.as_ref().and_then(|name| self.environment.get(name));
        match key {
            Some(key) => Ok(Some(ProviderCredentials::api_key(key))),
            None if self.env_key.is_none() && !self.is_login_possible => Ok(None),
            None => Err(ModelError::Unauthorized(self.missing_text(id))),
        }
    }

    /// Returns a key that belongs to no account, for endpoints that do not accept accounts.
    pub async fn api_key(&self) -> Result<Option<ProviderCredentials>, ModelError> {
        if let Some(key) = self.env_key.as_ref().and_then(|name| self.environment.get(name)) {
            return Ok(Some(ProviderCredentials::api_key(key)));
        }
        if let Some(token) = &self.token {
            return Ok(Some(ProviderCredentials { token: token.clone(), account_id: None }));
        }
        let signed_in = match &self.auth {
            Some(auth) => auth.credentials().await?,
            None => None,
        };
        Ok(signed_in.filter(|credentials| credentials.account_id.is_none()))
    }

    /// Returns the credentials for a second attempt after the provider rejected `refused`.
    pub async fn refresh(
        &self,
        refused: Option<&ProviderCredentials>,
    ) -> Result<Option<ProviderCredentials>, ModelError> {
        match (&self.auth, refused) {
            (Some(auth), Some(refused)) => auth.refresh(refused).await,
            _ => Ok(None),
        }
    }

    fn missing_text(&self, id: &str) -> String {
        let variable = self.env_key.as_ref().map(|name| format!("set the environment variable {name}"));
        let login = self.is_login_possible.then(|| "run `codicil login`".to_owned());
        let remedies: Vec<String> = variable.into_iter().chain(login).collect();
        let mut text = format!("no credentials for model provider `{id}`: {}", remedies.join(" or "));
        if let Some(instructions) = &self.instructions {
            text.push_str(". ");
            text.push_str(instructions);
        }
        text
    }
}

/// Adds bearer credentials, as OpenAI and most other providers expect them.
pub(crate) fn insert_bearer(credentials: &ProviderCredentials, headers: &mut HeaderMap) {
    if let Some(value) = sensitive_value(&format!("Bearer {}", credentials.token.reveal())) {
        headers.insert(header::AUTHORIZATION, value);
    }
    if let Some(account) = credentials.account_id.as_deref().and_then(|id| HeaderValue::try_from(id).ok()) {
        headers.insert(HeaderName::from_static("chatgpt-account-id"), account);
    }
}

/// Returns the secret values among the headers of a request.
pub(crate) fn secret_values(headers: &HeaderMap) -> Vec<String> {
    let values =
        headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
    let without_scheme = values.map(|value| value.strip_prefix("Bearer ").unwrap_or(value));
    without_scheme.filter(|value| value.len() >= MIN_SECRET_LEN).map(str::to_owned).collect()
}

/// Removes secrets from a provider's error text. Some providers repeat the key that they reject.
pub(crate) fn redact(secrets: &[String], mut text: String) -> String {
    for secret in secrets {
        if text.contains(secret) {
            text = text.replace(secret, "***");
        }
    }
    text
}

/// Returns a header value that debug output does not show.
pub(crate) fn sensitive_value(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(value.trim()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_secrets() {
        let shown = format!("{:?}", ProviderCredentials::api_key("sk-123"));
        assert_eq!(shown, "ProviderCredentials { token: ***, account_id: None }");
    }
}
