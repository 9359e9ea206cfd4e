//! The bearer token of requests to a server.

use std::sync::Arc;

use codicil_model::{AccountAuth, ModelError, ProviderCredentials};
use codicil_protocol::Secret;
use url::Url;

use super::{
    challenge::{AuthChallenge, ChallengeRecord},
    credentials::{CredentialsFile, ServerCredentials},
    discovery::discover,
    error::OauthError,
    exchange::{TokenRenewal, renew},
    file_lock::FileLock,
};

/// The source of a server's token.
pub(crate) enum BearerSource {
    /// No token: a configured header authenticates the requests.
    None,
    /// A token from the environment.
    Fixed(Secret),
    /// The token of an OAuth login, if there is one.
    Oauth(Arc<OauthTokens>),
    /// The token of the signed-in account.
    Account(Arc<dyn AccountAuth>),
}

/// The tokens of an OAuth login. They are read from the file for each request, since the user may sign in at any
/// time and another process may renew them.
pub(crate) struct OauthTokens {
    pub(crate) file: CredentialsFile,
    pub(crate) server: String,
    pub(crate) url: String,
    /// Configured resource for which tokens are requested.
    pub(crate) resource: Option<String>,
    pub(crate) challenges: Arc<ChallengeRecord>,
}

impl BearerSource {
    /// Returns the token to send; `None` without a login.
    pub(crate) async fn token(&self) -> Result<Option<Secret>, String> {
        match self {
            BearerSource::None => Ok(None),
            BearerSource::Fixed(token) => Ok(Some(token.clone())),
            BearerSource::Oauth(tokens) => tokens.token().await.map_err(|error| error.to_string()),
            BearerSource::Account(account) => account_token(account.credentials().await),
        }
    }

    /// Returns a new token in place of a rejected one; `None` if it cannot be renewed.
    pub(crate) async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, String> {
        match self {
            BearerSource::None | BearerSource::Fixed(_) => Ok(None),
            BearerSource::Oauth(tokens) => tokens.renew(refused).await.map_err(|error| error.to_string()),
            BearerSource::Account(account) => {
                match account.credentials().await {
                    Ok(Some(used)) if used.token == *refused => account_token(account.refresh(&used).await),
                    // Another request has renewed it already.
                    current => account_token(current),
                }
            }
        }
    }

    /// Keeps the challenge of a response that refuses a request, for the next login.
    pub(crate) fn note_challenge(&self, challenge: &AuthChallenge) {
        if let BearerSource::Oauth(tokens) = self {
            tokens.challenges.note(&tokens.server, &tokens.url, challenge.clone());
        }
    }
}

/// Returns the token of an account. An API key, which belongs to no account, is not sent.
fn account_token(
    credentials: Result<Option<ProviderCredentials>, ModelError>,
) -> Result<Option<Secret>, String> {
    let credentials = credentials.map_err(|error| error.to_string())?;
    Ok(credentials.filter(|it| it.account_id.is_some()).map(|it| it.token))
}

impl OauthTokens {
    async fn token(&self) -> Result<Option<Secret>, OauthError> {
        let stored = self.stored().await.unwrap_or_else(|error| {
            // The server may not need a token.
            tracing::warn!(server = self.server, %error, "failed to read credentials, sending the request without");
            None
        });
        match stored {
            Some(credentials) if !credentials.is_fresh() => self.renew(&credentials.access_token).await,
            credentials => Ok(credentials.map(|credentials| credentials.access_token)),
        }
    }

    /// Renews the token under the lock of the file. A refresh token can often be used only once, so that two
    /// concurrent renewals would invalidate each other.
    async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, OauthError> {
        let lock = self.file.lock().await?;
        let Some(credentials) = self.stored().await? else { return Ok(None) };
        if credentials.access_token != *refused && credentials.is_fresh() {
            return Ok(Some(credentials.access_token));
        }
        self.renew_locked(credentials, &lock).await
    }

    async fn renew_locked(
        &self,
        old: ServerCredentials,
        lock: &FileLock,
    ) -> Result<Option<Secret>, OauthError> {
        if old.refresh_token.is_none() {
            return Ok(None);
        }
        let (endpoint, resource) = self.token_endpoint(&old).await?;
        match renew(&old, &endpoint, &resource).await? {
            TokenRenewal::Renewed(mut credentials) => {
                credentials.token_endpoint = Some(endpoint);
                let token = credentials.access_token.clone();
                self.file.put(credentials, lock).await?;
                Ok(Some(token))
            }
            TokenRenewal::Rejected => {
                tracing::info!(
                    server = self.server,
                    "removed the login: the server no longer accepts its refresh token"
                );
                self.file.remove(&self.server, &self.url, lock).await?;
                Ok(None)
            }
        }
    }

    /// Returns the token endpoint and the resource: those stored at login, or those that the server publishes.
    async fn token_endpoint(&self, old: &ServerCredentials) -> Result<(String, String), OauthError> {
        let resource = self.resource.clone();
        let stored = old.rest.get("resource").and_then(|resource| resource.as_str()).map(str::to_owned);
        if let Some(endpoint) = &old.token_endpoint {
            return Ok((endpoint.clone(), resource.or(stored).unwrap_or_else(|| self.url.clone())));
        }
        let url = Url::parse(&self.url).map_err(|error| OauthError::Unreadable(error.to_string()))?;
        let challenge = self.challenges.get(&self.server, &self.url);
        let metadata = discover(&url, challenge.as_deref()).await?.ok_or(OauthError::NoMetadata)?;
        let resource = resource.or(stored).or(metadata.resource).unwrap_or_else(|| self.url.clone());
        Ok((metadata.token_endpoint.into(), resource))
    }

    async fn stored(&self) -> Result<Option<ServerCredentials>, OauthError> {
        self.file.get(&self.server, &self.url).await
    }
}
