//! The token that goes along with requests to a server.

use std::sync::Arc;

use codicil_protocol::Secret;
use url::Url;

use super::{
    credentials::{CredentialsFile, ServerCredentials},
    discovery::discover,
    error::OauthError,
    exchange::{TokenRenewal, renew},
    file::FileLock,
};

/// Where a server's token comes from.
pub(crate) enum BearerSource {
    /// The configuration has its own way, in a header.
    None,
    /// From the environment.
    Fixed(Secret),
    /// From signing in, if somebody has.
    Oauth(Arc<OauthTokens>),
}

/// The tokens that somebody got by signing in to a server. They are read from the file for each request: a
/// person may sign in at any time, and another process may renew them.
pub(crate) struct OauthTokens {
    pub(crate) file: CredentialsFile,
    pub(crate) server: String,
    pub(crate) url: String,
    /// What tokens are for, if the configuration says so.
    pub(crate) resource: Option<String>,
}

impl BearerSource {
    /// The token to send; `None` when nobody has signed in.
    pub(crate) async fn token(&self) -> Result<Option<Secret>, String> {
        match self {
            BearerSource::None => Ok(None),
            BearerSource::Fixed(token) => Ok(Some(token.clone())),
            BearerSource::Oauth(tokens) => tokens.token().await.map_err(|error| error.to_string()),
        }
    }

    /// Another token for one that was refused; `None` when there is none to be had.
    pub(crate) async fn renew(&self, refused: &Secret) -> Result<Option<Secret>, String> {
        match self {
            BearerSource::None | BearerSource::Fixed(_) => Ok(None),
            BearerSource::Oauth(tokens) => tokens.renew(refused).await.map_err(|error| error.to_string()),
        }
    }
}

impl OauthTokens {
    async fn token(&self) -> Result<Option<Secret>, OauthError> {
        let stored = self.stored().await.unwrap_or_else(|error| {
            // The server may need no token at all.
            tracing::warn!(server = self.server, %error, "a request goes without credentials");
            None
        });
        match stored {
            Some(credentials) if !credentials.is_fresh() => self.renew(&credentials.access_token).await,
            credentials => Ok(credentials.map(|credentials| credentials.access_token)),
        }
    }

    /// Holds the lock of the file all the while: a refresh token can often be used only once, and two who renew
    /// at the same time would throw each other out.
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
                    "the sign-in is over: its refresh token is not accepted any more"
                );
                self.file.remove(&self.server, &self.url, lock).await?;
                Ok(None)
            }
        }
    }

    /// Where to renew and what for: as it was noted when signing in, else as the server publishes it.
    async fn token_endpoint(&self, old: &ServerCredentials) -> Result<(String, String), OauthError> {
        let resource = self.resource.clone();
        let noted = old.rest.get("resource").and_then(|resource| resource.as_str()).map(str::to_owned);
        if let Some(endpoint) = &old.token_endpoint {
            return Ok((endpoint.clone(), resource.or(noted).unwrap_or_else(|| self.url.clone())));
        }
        let url = Url::parse(&self.url).map_err(|error| OauthError::Unreadable(error.to_string()))?;
        let metadata = discover(&url).await?.ok_or(OauthError::NoMetadata)?;
        let resource = resource.or(noted).or(metadata.resource).unwrap_or_else(|| self.url.clone());
        Ok((metadata.token_endpoint.into(), resource))
    }

    async fn stored(&self) -> Result<Option<ServerCredentials>, OauthError> {
        self.file.get(&self.server, &self.url).await
    }
}
