//! Where the credentials of a provider come from, and the headers that carry them.

use std::sync::Arc;

use codicil_protocol::Secret;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{
    AccountAuth, EnvironmentSource, ModelError, ProviderConfig, ProviderContext, ProviderCredentials,
};

/// No key is shorter.
const SHORTEST_SECRET: usize = 8;

/// The sources of a provider's credentials, in the order in which they are asked: a token in the config,
/// the account that is signed in, a variable.
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

    /// The credentials to begin with. A provider that names no source works without.
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
            None => Err(ModelError::Unauthorized(self.missing(id))),
        }
    }

    /// A key that belongs to no account, for what accounts are not served.
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

    /// What to try after the provider refused.
    pub async fn refresh(
        &self,
        refused: Option<&ProviderCredentials>,
    ) -> Result<Option<ProviderCredentials>, ModelError> {
        match (&self.auth, refused) {
            (Some(auth), Some(refused)) => auth.refresh(refused).await,
            _ => Ok(None),
        }
    }

    fn missing(&self, id: &str) -> String {
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

/// Bearer credentials, as OpenAI and most others want them.
pub(crate) fn bearer(credentials: &ProviderCredentials, headers: &mut HeaderMap) {
    if let Some(value) = sensitive(&format!("Bearer {}", credentials.token.reveal())) {
        headers.insert(header::AUTHORIZATION, value);
    }
    if let Some(account) = credentials.account_id.as_deref().and_then(|id| HeaderValue::try_from(id).ok()) {
        headers.insert(HeaderName::from_static("chatgpt-account-id"), account);
    }
}

/// What a request carries in confidence. Short values are no secrets, and blotting them out would garble words.
pub(crate) fn secrets(headers: &HeaderMap) -> Vec<String> {
    let values =
        headers.values().filter(|value| value.is_sensitive()).filter_map(|value| value.to_str().ok());
    let bare = values.map(|value| value.strip_prefix("Bearer ").unwrap_or(value));
    bare.filter(|value| value.len() >= SHORTEST_SECRET).map(str::to_owned).collect()
}

/// A provider's words without the secrets that were sent to it: some repeat the key that they refuse.
pub(crate) fn without(secrets: &[String], text: String) -> String {
    secrets.iter().fold(text, |text, secret| match text.contains(secret) {
        true => text.replace(secret, "***"),
        false => text,
    })
}

/// A header that is left out of debug output.
pub(crate) fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(value.trim()).ok()?;
    value.set_sensitive(true);
    Some(value)
}
